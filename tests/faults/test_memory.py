"""Large pictures in real workers with a small limit: none exceeds it, one at a time, and the batch ends."""

import asyncio
import os
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import pyvips

from quire.assembly.worker import WORKER_COMMAND
from quire.assembly.worker_blobs import WorkerConfiguration
from quire.blobs import content
from quire.blobs.local import LocalBlobs
from quire.compute.pool.local import LocalCompute
from quire.model.files import File
from quire.model.work import Order, Outcome, StepCall
from quire.system import LoopSignal, SystemClock
from quire.tools import vips

pytestmark = pytest.mark.slow

LIMIT_MB = 320
BUDGET_MB = 512  # for two workers: one large picture fits, two do not
CALL = StepCall(step="image_variants", version=2, memory_mb=LIMIT_MB)


def picture(wide, high):
    ramp = (pyvips.Image.xyz(wide, high)[0] * 7 % 251).cast("uchar")
    return ramp.bandjoin([ramp, ramp]).copy(interpretation="srgb")


class WatchedCompute(LocalCompute):
    """Remembers how many large orders there have been at the same time."""

    most_at_once = 0

    def _feed(self):
        super()._feed()
        self.most_at_once = max(self.most_at_once, sum(bool(hand.held) for hand in self._handles))


@asynccontextmanager
async def workers(folder):
    (folder / "scratch").mkdir()
    configuration = WorkerConfiguration(
        blobs_root=str(folder / "blobs"),
        s3=None,
        step_modules=("quire.steps.registry",),
        scratch=str(folder / "scratch"),
    )
    signal = LoopSignal()
    compute = WatchedCompute(
        command=WORKER_COMMAND,
        environment={**os.environ, **vips.WORKER_ENVIRONMENT},
        configuration=msgspec.json.encode(configuration),
        workers=2,
        clock=SystemClock(),
        signal=signal,
        memory_mb=BUDGET_MB,
    )
    compute.start()
    try:
        async with asyncio.timeout(100):
            yield compute, signal
    finally:
        await compute.stop(0)


def peak_mb(worker):
    """Of the worker or of its decoder, whichever is larger: each has the limit."""
    pid = worker.rpartition("-")[2]
    return max(map(_peak_mb, [pid, *Path("/proc", pid, "task", pid, "children").read_text().split()]))


def _peak_mb(pid):
    status = Path("/proc", pid, "status").read_text()
    (peak,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return int(peak) // 1024


async def test_large_pictures_take_turns_the_largest_is_refused_and_no_worker_exceeds_its_limit(tmp_path):
    whole = {"interlace": True, "subsample_mode": "off"}
    picture(6000, 4000).jpegsave(tmp_path / "large.jpg", **whole)
    picture(6000, 4001).jpegsave(tmp_path / "large too.jpg", **whole)
    picture(8000, 7000).jpegsave(tmp_path / "too large.jpg", **whole)
    picture(8000, 7000).jpegsave(tmp_path / "in lines.jpg")
    picture(400, 300).jpegsave(tmp_path / "small.jpg", **whole)
    names = ["large.jpg", "too large.jpg", "large too.jpg", "in lines.jpg", *["small.jpg"] * 12]
    blobs = LocalBlobs(tmp_path / "blobs")
    orders = []
    for number, name in enumerate(names):
        kept = await content.put_bytes(blobs, (tmp_path / name).read_bytes())
        file = File(key=kept.key, path=name, name=name, size=kept.size, content_type="image/jpeg")
        orders.append(Order(1, number, 1, file))
    async with workers(tmp_path) as (compute, signal):
        await compute.submit(CALL, orders)
        reports = []
        while len(reports) < len(orders):
            await signal.wait()
            reports += compute.take_reports()
        peaks = [peak_mb(hand.name) for hand in compute._handles]
    ended = {one.task_no: one for one in reports}
    assert (ended[1].outcome, ended[1].error_class) == (Outcome.REJECTED, "too_much_memory")
    assert "385 MB" in ended[1].error
    assert "preprocess.memory_mb" in ended[1].error
    others = [one for one in reports if one.task_no != 1]
    assert [(one.task_no, one.error) for one in others if one.outcome is not Outcome.DONE] == []
    assert compute.most_at_once == 1
    assert len(peaks) == 2, "nobody died"
    assert max(peaks) <= LIMIT_MB, peaks
    assert max(peaks) >= 200, "the pictures were large enough to tell"
