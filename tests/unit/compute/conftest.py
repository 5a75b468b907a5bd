"""A worker in the test's own process, and a pool of real ones."""

import asyncio
import os
import time
from contextlib import asynccontextmanager

import msgspec
import pytest

from quire.assembly.worker import WORKER_COMMAND
from quire.assembly.worker_blobs import WorkerConfiguration
from quire.blobs.local import LocalBlobs
from quire.compute.pool import frames
from quire.compute.pool import worker as worker_module
from quire.compute.pool.chunks import StepDurations
from quire.compute.pool.local import LocalCompute
from quire.compute.pool.pipe import FrameReader, FrameWriter
from quire.compute.pool.worker import StepWorker, WorkerContext
from quire.model.step import NO_OUTPUT, Step
from quire.model.work import Order, StepCall
from quire.system import LoopSignal, SystemClock
from quire.testing.factories import file
from quire.testing.steps import STEPS
from quire.testing.time import FakeClock

PATIENCE_SECONDS = 60


class Bench:
    """Gives chunks to a worker of this process and hears all that it says to the end."""

    def __init__(self, folder, blobs=None, clock=None):
        (folder / "scratch").mkdir()
        self.scratch = folder / "scratch"
        self.blobs = blobs or LocalBlobs(folder / "blobs")
        self.clock = clock or FakeClock()
        self.steps = dict(STEPS)

    def step(self, run, *, needs_source=False, estimate_memory=None, **changes):
        """Put a step on the bench; the call for it."""
        self.steps["it"] = Step(
            name="it", version=1, run=run, needs_source=needs_source, estimate_memory=estimate_memory
        )
        return StepCall(step="it", version=1, **changes)

    def hears(self, *chunks, revoked=None, answers=()):
        """(kind, content) of every frame; `revoked` is told between the first chunk and the second, `answers`
        before whoever will ask.
        """
        inner, give = os.pipe()
        listen, outer = os.pipe()

        def end(_):
            os.write(give, frames.encode_frame(frames.STOP))
            return NO_OUTPUT

        self.steps["end"] = Step(name="end", version=1, run=end, needs_source=False)
        ending = frames.Chunk(StepCall(step="end", version=1), [Order(0, 0, 0, file())])
        said = [frames.encode_frame(frames.CHUNK, chunk) for chunk in (*chunks, ending)]
        if revoked is not None:
            said.insert(1, frames.encode_frame(frames.REVOKE, frames.Revoke(revoked)))
        os.write(give, b"".join([*(frames.encode_frame(answer) for answer in answers), *said]))
        inbox = FrameReader(inner)
        wait_until(lambda: revoked is None or inbox.revoked)
        toolbox = WorkerContext(blobs=self.blobs, steps=self.steps, scratch=self.scratch, clock=self.clock)
        StepWorker(toolbox, inbox, FrameWriter(outer)).run()
        os.close(outer)
        os.close(give)
        with os.fdopen(listen, "rb") as pipe:
            heard = [(kind, bytes(payload)) for kind, payload in frames.FrameDecoder().feed(pipe.read())]
        return _without_the_end(heard)

    def take_reports(self, call, *orders):
        heard = self.hears(frames.Chunk(call, list(orders)))
        return [frames.report_decoder.decode(payload) for kind, payload in heard if kind == frames.REPORT]

    def left(self):
        return [path.name for path in self.scratch.iterdir()]


def _without_the_end(heard):
    """Products are stored meanwhile, so that their reports may come after the ending's own frames."""
    last_start = max(at for at, (kind, _) in enumerate(heard) if kind == frames.STARTED)
    ours = [
        kind == frames.REPORT and frames.report_decoder.decode(payload).batch_no == 0
        for kind, payload in heard
    ]
    return [one for at, one in enumerate(heard) if at != last_start and not ours[at]]


def wait_until(condition):
    patience = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < patience
        os.sched_yield()


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """A function that makes a bench."""
    monkeypatch.setattr(worker_module.memory, "limit", lambda _megabytes: None)
    return lambda **parts: Bench(tmp_path, **parts)


class Pool:
    def __init__(self, compute, signal, blobs):
        self.compute = compute
        self.blobs = blobs
        self._signal = signal
        self._kept = []

    async def take_reports(self, count):
        """The next so many, as they come."""
        while len(self._kept) < count:
            assert await self._signal.wait(PATIENCE_SECONDS), f"only {self._kept}"
            self._kept += self.compute.take_reports()
        taken, self._kept = self._kept[:count], self._kept[count:]
        return taken

    async def left_over(self):
        """What else came, once nothing more can: the pool is ended."""
        unstarted = await self.compute.stop(PATIENCE_SECONDS)
        return self._kept + self.compute.take_reports(), unstarted


@pytest.fixture
def pool(tmp_path):
    """A function that opens a pool of real worker processes."""

    @asynccontextmanager
    async def opened(workers=1, step_modules=("quire.testing.steps",), environment=None, **terms):
        (tmp_path / "scratch").mkdir()
        configuration = WorkerConfiguration(
            blobs_root=str(tmp_path / "blobs"),
            s3=None,
            step_modules=step_modules,
            scratch=str(tmp_path / "scratch"),
        )
        signal = LoopSignal()
        compute = LocalCompute(
            command=WORKER_COMMAND,
            environment={**os.environ, **(environment or {})},
            configuration=msgspec.json.encode(configuration),
            workers=workers,
            clock=SystemClock(),
            signal=signal,
            **terms,
        )
        # All orders of a test travel in one chunk, so that some wait in the worker's pipe.
        compute._durations = StepDurations(unknown_seconds=0.0)
        compute.start()
        try:
            async with asyncio.timeout(2 * PATIENCE_SECONDS):
                yield Pool(compute, signal, LocalBlobs(tmp_path / "blobs"))
        finally:
            await compute.stop(0)

    return opened
