"""Works on every batch of the ledger: as a scheduler, as workers, or as both in one process."""

import asyncio

from msgspec import Struct

from quire.batches.context import RunContext
from quire.engine.loop import EngineLoop
from quire.ledger.port import BatchFilter
from quire.model.batch import Batch, Stage
from quire.model.pipelines import to_pipelines

GRACE_SECONDS = 10.0
PAGE = 100


class WorkOptions(Struct, frozen=True, kw_only=True):
    """What this process does. `workers` None: as many as the settings say; 0: none."""

    schedules: bool
    workers: int | None = None
    until_idle: bool = False


async def work(options: WorkOptions, context: RunContext, stop: asyncio.Event) -> None:
    """Run the engine until `stop` is set or, with `until_idle`, until no batch has anything left to do."""

    async def idle() -> bool:
        return await _is_idle(context)

    async with context.start_engine(schedules=options.schedules, workers=options.workers) as loop:
        stopper = asyncio.create_task(stop_on_event(stop, loop))
        try:
            await loop.run(idle if options.until_idle else None)
        finally:
            stopper.cancel()
            await loop.shut_down(GRACE_SECONDS)


async def _is_idle(context: RunContext) -> bool:
    """Nothing waits to be sent, and every batch has ended, is held, still takes uploads, or is left alone
    here.
    """
    pipelines = to_pipelines(context.pipelines)
    if await context.outbox.list_unsent(1):
        return False
    before = None
    while page := await context.records.list_batches(BatchFilter(ended=False, before=before, limit=PAGE)):
        before = page[-1].no
        if any(
            batch.hold is None and not _takes_files(batch) and pipelines.why_left_alone(batch) is None
            for batch in page
        ):
            return False
    return True


def _takes_files(batch: Batch) -> bool:
    """Whether it waits for files that somebody else brings, and for nothing else."""
    flow = batch.flow
    return batch.position.stage is Stage.OPEN or (
        batch.position.stage is Stage.FLOWING
        and batch.manifest_key is None
        and flow is not None
        and not flow.open_tasks
    )


async def stop_on_event(stop: asyncio.Event, loop: EngineLoop) -> None:
    await stop.wait()
    loop.stop()
