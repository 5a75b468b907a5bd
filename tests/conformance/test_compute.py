"""The suite of computes on worker processes of this machine, and on a host of coroutines."""

import asyncio
import os
from contextlib import asynccontextmanager

import msgspec
import pytest

from quire.assembly.worker import WORKER_COMMAND
from quire.assembly.worker_blobs import WorkerConfiguration
from quire.blobs.local import LocalBlobs
from quire.compute.pool.local import LocalCompute
from quire.model.work import StepCall
from quire.system import LoopSignal, SystemClock
from quire.testing.compute_suite import PATIENCE_SECONDS, ComputeBench, ComputeSuite


@pytest.mark.slow
class TestLocalCompute(ComputeSuite):
    @pytest.fixture
    def opened(self, tmp_path):
        @asynccontextmanager
        async def opened(workers):
            (tmp_path / "scratch").mkdir()
            configuration = WorkerConfiguration(
                blobs_root=str(tmp_path / "blobs"),
                s3=None,
                step_modules=("quire.testing.steps", "quire.testing.async_steps"),
                scratch=str(tmp_path / "scratch"),
            )
            signal = LoopSignal()
            compute = LocalCompute(
                command=WORKER_COMMAND,
                environment=dict(os.environ),
                configuration=msgspec.json.encode(configuration),
                workers=workers,
                clock=SystemClock(),
                signal=signal,
            )
            compute.start()
            try:
                async with asyncio.timeout(2 * PATIENCE_SECONDS):
                    yield ComputeBench(compute, signal, LocalBlobs(tmp_path / "blobs"))
            finally:
                await compute.stop(0)

        return opened


@pytest.mark.slow
class TestAsyncHosts(TestLocalCompute):
    """One at a time: the suite counts on it. What many at once do is in the tests of hosts."""

    misbehave = StepCall(step="misbehave_async", version=1, asynchronous=True, at_once=1)
    copy = StepCall(step="copy_async", version=1, asynchronous=True)
    noop = StepCall(step="noop_async", version=1, asynchronous=True)
