"""The suite of computes on a queue of every store: orders go out as messages, and a worker reports."""

import asyncio
import os
from contextlib import asynccontextmanager
from functools import partial

import msgspec
import pytest
from tests.servers.postgres import fresh_schema

from quire.assembly.queues import open_queues_at
from quire.assembly.worker import WORKER_COMMAND
from quire.assembly.worker_blobs import WorkerConfiguration
from quire.blobs.local import LocalBlobs
from quire.compute.pool.local import LocalCompute
from quire.compute.queue.compute import QueueCompute, QueueComputeOptions
from quire.compute.queue.envelopes import derive_ledger_id
from quire.consumers.task_worker import QueueWorker, QueueWorkerOptions
from quire.model.queues import QueuePolicy
from quire.system import LoopSignal, SystemClock, SystemIds
from quire.testing.compute_suite import PATIENCE_SECONDS, ComputeBench, ComputeSuite

pytestmark = [pytest.mark.slow]
LEDGER_ID = derive_ledger_id(b"a secret", "a ledger")
LOOK_SECONDS = 0.1


def configuration(folder):
    return msgspec.json.encode(
        WorkerConfiguration(
            blobs_root=str(folder / "blobs"),
            s3=None,
            step_modules=("quire.testing.steps",),
            scratch=str(folder / "scratch"),
        )
    )


@asynccontextmanager
async def working(queues, folder, workers, queue):
    """A worker on the queue, as `quire worker --from-queue` has it."""
    signal = LoopSignal()
    pool = LocalCompute(
        command=WORKER_COMMAND,
        environment=dict(os.environ),
        configuration=configuration(folder),
        workers=workers,
        clock=SystemClock(),
        signal=signal,
    )
    pool.start()
    policy = QueuePolicy(name=queue, max_batch_size=1, lease_seconds=30.0, concurrency=workers)
    worker = QueueWorker(
        queues,
        LocalBlobs(folder / "blobs"),
        pool,
        options=QueueWorkerOptions(policy=policy, name="queue-test", look_seconds=LOOK_SECONDS),
        clock=SystemClock(),
        ids=SystemIds(),
        signal=LoopSignal(),
        pool_signal=signal,
        sleep=asyncio.sleep,
    )
    running = asyncio.create_task(worker.run(grace_seconds=0))
    try:
        yield worker
    finally:
        worker.stop()
        await running
        await pool.stop(0)


@asynccontextmanager
async def opened_on(url, folder, workers):
    (folder / "scratch").mkdir()
    ids = SystemIds()
    name = f"tasks-{ids.ulid()}"
    signal = LoopSignal()
    # Each with a connection of its own, as processes have.
    async with open_queues_at(url, ids) as far, open_queues_at(url, ids) as here:
        blobs = LocalBlobs(folder / "blobs")
        compute = QueueCompute(
            here.queues,
            blobs,
            sender=f"{LEDGER_ID}-{ids.ulid()}",
            options=QueueComputeOptions(queue=name, max_out=60, look_seconds=LOOK_SECONDS),
            clock=SystemClock(),
            signal=signal,
            sleep=asyncio.sleep,
        )
        compute.start()
        try:
            async with asyncio.timeout(2 * PATIENCE_SECONDS), working(far.queues, folder, workers, name):
                yield ComputeBench(compute, signal, blobs)
        finally:
            await compute.stop(0)


class TestOnSqlite(ComputeSuite):
    @pytest.fixture
    def opened(self, tmp_path):
        return partial(opened_on, f"sqlite:///{tmp_path}/queues.db", tmp_path)


@pytest.mark.service
class TestOnPostgres(ComputeSuite):
    @pytest.fixture
    def opened(self, tmp_path, postgres_server):
        return partial(opened_on, fresh_schema(postgres_server), tmp_path)


@pytest.mark.service
class TestOnRedis(ComputeSuite):
    @pytest.fixture
    def opened(self, tmp_path, redis_server):
        return partial(opened_on, redis_server, tmp_path)
