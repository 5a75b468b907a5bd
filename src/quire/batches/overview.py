"""The unified status of a batch across all stages, its log, its files and a live view of its events."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from msgspec import Struct, structs

from quire.batches import inspection
from quire.batches.context import BatchContext
from quire.batches.lines import BatchDetails, BatchEvent, FileLine
from quire.model.batch import Batch, Stage
from quire.model.clock import timestamp
from quire.model.errors import Missing

T = TypeVar("T")

PAGE = 1000
MAX_LOGS = 1000


class UnifiedStatus(BatchDetails, frozen=True, kw_only=True):
    """The details of a batch, with the fields of the unified status service."""

    stage: str
    phase: str
    results: dict[str, Any]


class LogEntry(Struct, frozen=True, kw_only=True):
    timestamp: str
    stage: str
    phase: str
    worker_response: dict[str, Any]
    status_changed: bool


class BatchLogs(Struct, frozen=True, kw_only=True):
    batch_id: str
    log_count: int
    logs: list[LogEntry]
    source: str


class FilePage(Struct, frozen=True, kw_only=True):
    """A page; `next` is where the following one begins, None after the last."""

    files: list[FileLine]
    next: str | None


async def get_unified_status(context: BatchContext, batch_id: str) -> UnifiedStatus:
    """Raises Missing."""
    details = await require_batch(inspection.show(context, batch_id))
    batch = await context.batches.get_batch(batch_id)
    return UnifiedStatus(**structs.asdict(details), stage=name_stage(batch), phase=batch.status, results={})


def name_stage(batch: Batch) -> str:
    match batch.position.stage:
        case Stage.OPEN:
            return "ingest"
        case Stage.QUEUED:
            return "queue_preprocessing"
        case Stage.ERROR | Stage.CANCELLED:
            return "error"
        case Stage.DONE:
            return "queue_orchestrator" if batch.hands_over_to else "completed"
        case _:
            return "preprocessing"


async def list_logs(context: BatchContext, batch_id: str) -> BatchLogs:
    """The first thousand. Raises Missing."""
    batch = await require_batch(context.batches.get_batch(batch_id))
    stage, phase, found = "ingest", "", []
    for _, at, kind, data in await context.records.list_events(batch.no, limit=MAX_LOGS):
        before = (stage, phase)
        stage, phase = _advance(kind, data, stage, phase, batch)
        line = LogEntry(
            timestamp=timestamp(at),
            stage=stage,
            phase=phase,
            worker_response={"event": kind, **data},
            status_changed=(stage, phase) != before,
        )
        found.append(line)
    return BatchLogs(batch_id=batch.id, log_count=len(found), logs=found, source="ledger")


_STAGES = {
    "batch_opened": "ingest",
    "batch_finalized": "queue_preprocessing",
    "batch_started": "preprocessing",
    "phase_started": "preprocessing",
    "batch_failed": "error",
    "batch_cancelled": "error",
    "batch_reset": "error",
}


def _advance(kind: str, data: dict[str, Any], stage: str, phase: str, batch: Batch) -> tuple[str, str]:
    if kind in {"batch_done", "batch_processed_elsewhere"}:
        return ("queue_orchestrator" if batch.hands_over_to else "completed"), "DONE"
    return _STAGES.get(kind, stage), str(data.get("phase", phase))


async def list_file_page(
    context: BatchContext, batch_id: str, *, after: str, limit: int, outcome: Any, error_class: str | None
) -> FilePage:
    """Inputs with their outcomes, in order of path. Raises Missing."""
    batch = await require_batch(context.batches.get_batch(batch_id))
    page = await context.records.list_inputs(
        batch.no, after=after, limit=limit, outcome=outcome, error_class=error_class
    )
    return FilePage(
        files=[inspection.build_file_line(record) for record in page],
        next=page[-1].path if len(page) == limit else None,
    )


async def find_blob_key(context: BatchContext, batch_id: str, path: str) -> str:
    """The key of a file's bytes, of an input or of a product. Raises Missing."""
    batch = await require_batch(context.batches.get_batch(batch_id))
    made, _ = await context.records.get_file_history(batch.no, path)
    # The newest of that name: a file that a retry has replaced is not meant.
    for file in reversed(made):
        if file.path == path and file.key and file.gone != 0:
            return file.key
    found = (
        await context.records.list_inputs(batch.no, after=inspection.find_path_before(path), limit=1)
        if path
        else []
    )
    if found and found[0].path == path and found[0].key:
        return found[0].key
    raise Missing(f"batch {batch.id} has no file {path[:200]!r}; list its files to see their paths")


async def watch_batch(
    context: BatchContext, batch_id: str, *, after: int, pause: Callable[[], Awaitable[bool]]
) -> AsyncIterator[BatchEvent | BatchDetails | None]:
    """Events after number `after` and those to come, and the batch's details whenever they have changed,
    until the batch has ended or `pause`, which is awaited between two reads, returns False. Yields None after
    each pause.
    """
    shown: tuple[Any, ...] = ()
    while True:
        # Read first: events up to the end are still yielded after it.
        batch = await require_batch(context.batches.get_batch(batch_id))
        async for event in inspection.list_events(context, batch_id, after=after):
            after = event.no
            yield event
        counts = await context.records.count_tasks(batch.no)
        now = (batch.status, batch.hold, [(one.done, one.failed, one.total) for one in counts])
        if now != shown:
            shown = now
            yield await inspection.show(context, batch_id)
        if batch.ended or not await pause():
            return
        yield None


async def require_batch(call: Awaitable[T]) -> T:
    """Await a call about a batch; an unknown batch is always Missing with the same message."""
    try:
        return await call
    except Missing as error:
        raise Missing("Batch not found", code="unknown_batch") from error
