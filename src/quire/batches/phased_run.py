"""The way of a folder through a pipeline that goes from phase to phase: all files first, then the batch."""

import asyncio
from collections.abc import Callable, Sequence

from quire.batches.context import RunContext
from quire.batches.submission import close_batch, draft_batch, is_same_pipeline
from quire.batches.uploads import is_unchanged, upload_files
from quire.model.batch import Batch, Stage
from quire.model.pipeline import Pipeline
from quire.tools.folder_scan import ScannedFile


async def submit_files(
    run_key: str,
    pipeline: Pipeline,
    found: Sequence[ScannedFile],
    context: RunContext,
    *,
    earlier: Batch | None,
    continued: Batch | None,
    opened: Callable[[Batch], None],
    stored: Callable[[int], None],
    stop: asyncio.Event,
) -> Batch:
    """The batch of this request, closed with all files; still open when it was stopped before."""
    batch = continued
    if batch is None:
        batch = await context.uploads.open_batch(draft_batch(context, pipeline, run_key=run_key))
    opened(batch)
    if batch.position.stage is not Stage.OPEN:
        return batch  # closed by an earlier run
    whole = await upload_files(
        batch.no,
        found,
        uploads=context.uploads,
        blobs=context.blobs,
        progress=stored,
        stop=stop,
        earlier=earlier,
    )
    if not whole:
        return batch
    return await close_batch(
        batch, pipeline, uploads=context.uploads, blobs=context.blobs, clock=context.clock
    )


async def find_resumable(
    earlier: Batch | None, pipeline: Pipeline, found: Sequence[ScannedFile], context: RunContext
) -> Batch | None:
    """The earlier batch if it can be resumed; otherwise it is abandoned."""
    if earlier is None or (earlier.ended and not _is_undelivered(earlier)):
        return None
    if not is_same_pipeline(earlier, pipeline):
        reason = "the pipeline or its settings have changed since; a newer batch took its place"
    elif earlier.position.stage is Stage.OPEN or await is_unchanged(
        earlier.no, found, uploads=context.uploads
    ):
        return earlier
    else:
        reason = "the folder has changed since; a newer batch took its place"
    await context.uploads.abandon_batch(earlier.no, reason=reason, now=context.clock.now())
    return None


def _is_undelivered(batch: Batch) -> bool:
    return batch.position.stage is Stage.DONE and batch.delivered_at is None
