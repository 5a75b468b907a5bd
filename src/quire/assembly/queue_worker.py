"""`quire worker --from-queue` from settings: queues, a store and worker processes, and no ledger."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from msgspec import Struct, structs

from quire.assembly.blobs import encode_worker_configuration, open_blobs
from quire.assembly.left_alone import Notice
from quire.assembly.machine import usable_memory_mb
from quire.assembly.member_pipelines import MemberPipelines, find_own_pipelines
from quire.assembly.presence import join_home
from quire.assembly.queues import apply_table, open_queues_alone
from quire.assembly.worker import WORKER_COMMAND
from quire.assembly.worker_steps import STEP_MODULES, load_steps
from quire.blobs.probe import probe
from quire.compute.pool.local import LocalCompute
from quire.compute.pool.memory_budget import limit_workers
from quire.consumers.task_worker import QueueWorker, QueueWorkerOptions
from quire.model.queues import QueuePolicy
from quire.model.step import find_step
from quire.settings import Settings, worker_environment
from quire.system import LoopSignal, SystemClock, SystemIds
from quire.tools.sandbox import check_mode
from quire.tools.vips import WORKER_ENVIRONMENT

Trouble = Callable[[str | None], None]


class QueueWorkerContext(Struct, frozen=True):
    worker: QueueWorker
    warnings: tuple[str, ...]


def task_policy(settings: Settings, workers: int) -> QueuePolicy:
    """Without a table of the queue no task is leased ahead: tasks are long, and other workers may be free."""
    name = settings.compute.queue
    plain = QueuePolicy(name=name, max_batch_size=1, dead_letter=f"{name}-dlq")
    return structs.replace(apply_table(plain, name, settings), concurrency=workers)


@asynccontextmanager
async def open_queue_worker(
    settings: Settings,
    workers: int | None = None,
    *,
    pipelines: MemberPipelines | None = None,
    step_modules: tuple[str, ...] = STEP_MODULES,
    trouble: Trouble = lambda _: None,
    notice: Notice = lambda _: None,
) -> AsyncIterator[QueueWorkerContext]:
    """Start a queue worker with its worker processes; they end with the context. `notice` is told once of
    every step whose tasks it leaves to others. Raises Misconfigured when a pipeline cannot be loaded.
    """
    check_mode(settings.sandbox)
    own = (pipelines or find_own_pipelines(settings)).for_workers()
    steps = load_steps(step_modules, own)
    clock, ids = SystemClock(), SystemIds()
    memory_mb = settings.local.memory_mb or usable_memory_mb()
    allowed = limit_workers(workers or settings.worker_count, memory_mb)
    with join_home(settings.home, ids.ulid()) as presence:
        blobs = open_blobs(settings)
        try:
            await probe(blobs, ids)
            async with open_queues_alone(settings, ids) as opened:
                signal = LoopSignal()
                pool = LocalCompute(
                    command=WORKER_COMMAND,
                    environment=worker_environment() | WORKER_ENVIRONMENT,
                    configuration=encode_worker_configuration(settings, step_modules, presence.scratch, own),
                    workers=allowed,
                    clock=clock,
                    signal=signal,
                    memory_mb=memory_mb,
                    price_per_second=settings.local.price_per_second,
                    resources=settings.resources,
                )
                pool.start()
                worker = QueueWorker(
                    opened.queues,
                    blobs,
                    pool,
                    options=QueueWorkerOptions(
                        policy=task_policy(settings, allowed),
                        name=f"queue-{socket.gethostname()}",
                        look_seconds=settings.compute.look_seconds,
                    ),
                    clock=clock,
                    ids=ids,
                    signal=LoopSignal(),
                    pool_signal=signal,
                    sleep=asyncio.sleep,
                    trouble=trouble,
                    notice=notice,
                    knows=lambda call: find_step(steps, call.step, call.version) is not None,
                )
                try:
                    yield QueueWorkerContext(worker, opened.warnings)
                finally:
                    await pool.stop(0)
        finally:
            await blobs.close()
