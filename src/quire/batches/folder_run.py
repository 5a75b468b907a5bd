"""`quire run`: uploads a folder, runs its batch and exports the results, with an outcome for every file.

The same request again resumes its batch, found by a key made of the request. If the folder has changed since,
the batch is abandoned for a new one; finished work comes from the step cache.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from quire.batches import export
from quire.batches.context import RunContext
from quire.batches.export import Summary
from quire.batches.submission import close_batch, draft_batch, is_same_pipeline
from quire.batches.uploads import is_unchanged, upload_files
from quire.batches.work import stop_on_event
from quire.engine.loop import EngineLoop
from quire.model.batch import Batch, PhaseCounts, Stage
from quire.model.errors import Reject, Unavailable
from quire.model.pipeline import Pipeline
from quire.tools.folder_scan import ScannedFile, scan

OBSERVE_EVERY_SECONDS = 0.1
GRACE_SECONDS = 10.0


class RunRequest(Struct, frozen=True, kw_only=True):
    roots: Sequence[Path]
    out: Path
    pipeline: str
    own_folders: Sequence[Path] = ()  # never uploaded, even when they lie inside a root


class RunObserver(Protocol):
    """Called for everything that is worth showing; must return quickly."""

    def scanned(self, files: int, total_bytes: int, passed_over: int) -> None: ...

    def opened(self, batch: Batch, *, resumed: bool) -> None: ...

    def uploaded(self, files: int) -> None: ...

    def progressed(self, counts: Sequence[PhaseCounts]) -> None: ...

    def exported(self, files: int) -> None: ...

    def held(self, batch: Batch) -> None: ...


class RunResult(Struct, frozen=True, kw_only=True):
    """`summary` is None when the run was stopped before its batch ended."""

    batch: Batch | None
    summary: Summary | None
    seconds: float


async def run_folder(
    request: RunRequest, context: RunContext, observer: RunObserver, stop: asyncio.Event
) -> RunResult:
    """Raises Reject for a bad request, Misconfigured when the engine or the output folder cannot be used."""
    began = context.clock.monotonic()
    pipeline = context.pipelines.get(request.pipeline)
    if pipeline is None:
        known = ", ".join(sorted(context.pipelines))
        raise Reject(f"there is no pipeline {request.pipeline!r}; known: {known}", code="unknown_pipeline")
    await asyncio.to_thread(export.prepare, request.out, request.roots, request.own_folders)
    found = await asyncio.to_thread(_scan, request)
    passed_over = sum(one.state != "found" for one in found)
    observer.scanned(len(found), sum(one.size for one in found), passed_over)

    with context.claim_request(_compute_run_key(request)):
        # Workers start while files are being uploaded.
        async with context.start_engine() as loop:
            batch = await _submit_files(request, pipeline, found, context, observer, stop)
            if not stop.is_set():
                batch = await _run_engine(batch, loop, context, observer, stop)
        summary = None
        if batch.ended:
            seconds = context.clock.monotonic() - began
            summary = await export.export_run(
                batch, pipeline, request.out, context, observer.exported, seconds, stop
            )
    return RunResult(batch=batch, summary=summary, seconds=context.clock.monotonic() - began)


def _scan(request: RunRequest) -> list[ScannedFile]:
    return list(scan(request.roots, leave_out=[request.out, *request.own_folders]))


async def _submit_files(
    request: RunRequest,
    pipeline: Pipeline,
    found: Sequence[ScannedFile],
    context: RunContext,
    observer: RunObserver,
    stop: asyncio.Event,
) -> Batch:
    """The batch of this request, closed with all files; still open when it was stopped before."""
    earlier = await context.uploads.find_run(_compute_run_key(request))
    batch = await _find_resumable(earlier, pipeline, found, context)
    resumed = batch is not None
    if batch is None:
        draft = draft_batch(context, pipeline, run_key=_compute_run_key(request))
        batch = await context.uploads.open_batch(draft)
    observer.opened(batch, resumed=resumed)
    if batch.position.stage is not Stage.OPEN:
        return batch  # closed by an earlier run

    whole = await upload_files(
        batch.no,
        found,
        uploads=context.uploads,
        blobs=context.blobs,
        progress=observer.uploaded,
        stop=stop,
        earlier=earlier,
    )
    if not whole:
        return batch
    return await close_batch(
        batch, pipeline, uploads=context.uploads, blobs=context.blobs, clock=context.clock
    )


async def _find_resumable(
    earlier: Batch | None, pipeline: Pipeline, found: Sequence[ScannedFile], context: RunContext
) -> Batch | None:
    """The earlier batch if it can be resumed; otherwise it is abandoned."""
    if earlier is None or not _is_unfinished(earlier):
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


def _is_unfinished(batch: Batch) -> bool:
    """Whether the batch has not ended, or its results were not all exported."""
    return not batch.ended or (batch.position.stage is Stage.DONE and batch.delivered_at is None)


def _compute_run_key(request: RunRequest) -> str:
    asked = [
        request.pipeline,
        *(str(root.resolve()) for root in request.roots),
        "",
        str(request.out.resolve()),
    ]
    return hashlib.sha256("\0".join(asked).encode("utf-8", "surrogateescape")).hexdigest()


async def _run_engine(
    batch: Batch, loop: EngineLoop, context: RunContext, observer: RunObserver, stop: asyncio.Event
) -> Batch:
    last_shown = -OBSERVE_EVERY_SECONDS
    hold = None

    async def observe(now_at: Batch) -> None:
        nonlocal last_shown, hold
        if now_at.hold is not hold:
            hold = now_at.hold
            observer.held(now_at)
        moment = context.clock.monotonic()
        if now_at.ended or moment - last_shown >= OBSERVE_EVERY_SECONDS:
            last_shown = moment
            with suppress(Unavailable):  # the ledger is unreachable: progress is shown when it is back
                observer.progressed(await context.records.count_tasks(now_at.no))

    stopper = asyncio.create_task(stop_on_event(stop, loop))
    try:
        batch = await loop.run_batch(batch.id, observe)
    finally:
        stopper.cancel()
        await loop.shut_down(GRACE_SECONDS)
    return batch
