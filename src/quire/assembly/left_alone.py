"""Batches that this process leaves alone: their pipeline is not here, or is another one of the same name, or
an earlier version of Quire is still at work on them.

Promise: each such pipeline is named once, with what to do about it. Must not know: where it is shown.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from msgspec import Struct

from quire.authoring.code_digest import warn_of_other_code
from quire.ledger.port import BatchFilter, RecordStore
from quire.model.batch import Batch
from quire.model.errors import Retry
from quire.model.former import describe_wait, is_former
from quire.model.pipelines import Pipelines, stored_plan

LOOK_SECONDS = 60.0
PAGE = 100

Notice = Callable[[str], None]
_log = logging.getLogger("quire.engine")


class NoticedBatch(Struct, frozen=True):
    """`is_left_alone`: nothing is done for it here. Otherwise it is a warning about the code of its steps."""

    batch: Batch
    text: str
    is_left_alone: bool


async def list_noticed(records: RecordStore, pipelines: Pipelines) -> AsyncIterator[NoticedBatch]:
    """Batches that have not ended, newest first, as far as there is something to say about them."""
    before = None
    while page := await records.list_batches(BatchFilter(ended=False, before=before, limit=PAGE)):
        before = page[-1].no
        for batch in page:
            noticed = _look_at(batch, pipelines) or await _look_at_former(batch, records)
            if noticed is not None:
                yield noticed


def _look_at(batch: Batch, pipelines: Pipelines) -> NoticedBatch | None:
    if (reason := pipelines.why_left_alone(batch)) is not None:
        return NoticedBatch(batch, f"{reason}. Its batches are left alone here", is_left_alone=True)
    plan, here = stored_plan(batch), pipelines.of(batch)
    if plan is None:
        return None
    present = getattr(here, "code_digest", "")
    warning = warn_of_other_code(plan.name, plan.version, plan.code_digest, present)
    return (
        None if warning is None else NoticedBatch(batch, f"batch {batch.id}: {warning}", is_left_alone=False)
    )


async def _look_at_former(batch: Batch, records: RecordStore) -> NoticedBatch | None:
    """Batches that an earlier version has begun wait until its processes have ended."""
    older = await records.list_older_members() if is_former(batch) else []
    if not older:
        return None
    return NoticedBatch(batch, f"batch {batch.id}: {describe_wait(older)}", is_left_alone=True)


@asynccontextmanager
async def watching_batches(
    records: RecordStore, pipelines: Pipelines, notice: Notice, *, look_seconds: float = LOOK_SECONDS
) -> AsyncIterator[None]:
    """While it is open, look at the batches now and then, and pass on what is new."""
    watch = asyncio.create_task(_watch(records, pipelines, notice, look_seconds))
    try:
        yield
    finally:
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch


async def _watch(records: RecordStore, pipelines: Pipelines, notice: Notice, look_seconds: float) -> None:
    said: set[tuple[str, str]] = set()
    while True:
        try:
            async for noticed in list_noticed(records, pipelines):
                # The plan, not the batch: a thousand batches of one pipeline are one message.
                key = (noticed.batch.pipeline, noticed.batch.plan)
                if key not in said:
                    said.add(key)
                    _log.warning("batch_noticed %s", noticed.text)
                    notice(noticed.text)
        except Retry:
            pass  # the ledger is away; the engine says so
        except Exception:  # noqa: BLE001 - what is only for people must not end the work
            _log.exception("batches_not_looked_at")
        await asyncio.sleep(look_seconds)


async def find_code_warnings(records: RecordStore, pipelines: Pipelines, name: str) -> list[str]:
    """For a new batch of this pipeline: whether the code has changed since the last one of its version, so
    that results of the former code would be used.
    """
    here = pipelines[name]
    for batch in await records.list_batches(BatchFilter(limit=PAGE)):
        if (batch.pipeline, batch.pipeline_version) == (here.name, here.version):
            plan = stored_plan(batch)
            stored = "" if plan is None else plan.code_digest
            warning = warn_of_other_code(name, here.version, stored, getattr(here, "code_digest", ""))
            return [] if warning is None else [warning]
    return []
