"""`quire run`: a folder through a pipeline, with an outcome for every file.

Files are worked on while others are still being scanned and stored, and results are laid out as documents
finish. The same request again resumes its batch, found by a key made of the request. If the folder has
changed since, the batch is abandoned for a new one; finished work comes from the step cache.
"""

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from quire.batches import export
from quire.batches.batch_run import BatchRun, RunFiles, RunObserver, RunResult
from quire.batches.context import RunContext
from quire.batches.intake import can_continue
from quire.batches.submission import draft_batch, is_same_pipeline
from quire.batches.uploads import is_unchanged
from quire.engine.flow import next_waiting_phase
from quire.model.batch import Batch, Stage
from quire.model.errors import Reject
from quire.model.plan import Plan
from quire.tools.folder_scan import FolderListing, check_roots, scan_folders
from quire.tools.shares import this_machine


class RunRequest(Struct, frozen=True, kw_only=True):
    roots: Sequence[Path]
    out: Path
    pipeline: str
    own_folders: Sequence[Path] = ()  # never uploaded, even when they lie inside a root


async def run_folder(
    request: RunRequest, context: RunContext, observer: RunObserver, stop: asyncio.Event
) -> RunResult:
    """Raises Reject for a bad request, Misconfigured when the engine or the output folder cannot be used."""
    began = context.clock.monotonic()
    plan = find_pipeline(request.pipeline, context)
    await asyncio.to_thread(prepare, request)
    with context.claim_request(compute_run_key(request)):
        run = await _begin(request, plan, context, observer, stop)
        return await run.carry_out(began)


def find_pipeline(name: str, context: RunContext) -> Plan:
    pipeline = context.pipelines.get(name)
    if pipeline is None:
        known = ", ".join(sorted(context.pipelines))
        raise Reject(f"there is no pipeline {name!r}; known: {known}", code="unknown_pipeline")
    return pipeline


def prepare(request: RunRequest) -> None:
    """Check the folders before anything is done."""
    check_roots(request.roots)
    export.prepare(request.out, request.roots, request.own_folders)


def scan_request(request: RunRequest) -> Iterator[FolderListing]:
    return scan_folders(request.roots, leave_out=[request.out, *request.own_folders])


async def _begin(
    request: RunRequest, plan: Plan, context: RunContext, observer: RunObserver, stop: asyncio.Event
) -> BatchRun:
    """With the batch of an earlier run of this request if it can be resumed; otherwise that is abandoned."""
    key = compute_run_key(request)
    earlier = await context.uploads.find_run(key)
    listings = scan_request(request)
    continued = None
    if earlier is not None and is_unfinished(earlier):
        known = await asyncio.to_thread(list, listings)
        listings = iter(known)
        continued = await _find_resumable(earlier, plan, context, known)
    batch = continued or await open_flow(plan, context, key)
    observer.opened(batch, resumed=continued is not None)
    files = RunFiles(listings=listings) if is_taking_files(batch) else None
    return BatchRun(batch, plan, request.out, context, observer, stop, files=files, earlier=earlier)


def is_taking_files(batch: Batch) -> bool:
    """Whether its intake is not closed yet."""
    return batch.position.stage is Stage.FLOWING and batch.manifest_key is None


async def open_flow(plan: Plan, context: RunContext, run_key: str) -> Batch:
    """A new batch that flows, its intake open."""
    batch = await context.uploads.open_batch(draft_batch(context, plan, run_key=run_key))
    return await begin_flow(batch, plan, context)


async def begin_flow(batch: Batch, plan: Plan, context: RunContext) -> Batch:
    names = [phase.name for phase in plan.phases]
    waits_at = next_waiting_phase(plan, 0)
    delays = [phase.pace.first_seconds for phase in plan.phases]
    return await context.intake.begin_intake(
        batch, phases=names, waits_at=waits_at, now=context.clock.now(), delays=delays
    )


async def _find_resumable(
    earlier: Batch, plan: Plan, context: RunContext, listings: Sequence[FolderListing]
) -> Batch | None:
    if not is_same_pipeline(earlier, plan):
        reason = "the pipeline or its settings have changed since; a newer batch took its place"
    elif await _is_as_before(earlier, listings, context):
        return await begin_flow(earlier, plan, context) if earlier.position.stage is Stage.OPEN else earlier
    else:
        reason = "the folder has changed since; a newer batch took its place"
    await context.uploads.abandon_batch(earlier.no, reason=reason, now=context.clock.now())
    return None


async def _is_as_before(batch: Batch, listings: Sequence[FolderListing], context: RunContext) -> bool:
    if batch.position.stage is Stage.OPEN or is_taking_files(batch):
        return await can_continue(batch, listings, context)
    found = [one for listing in listings for one in listing.files]
    return await is_unchanged(batch.no, found, uploads=context.uploads)


def is_unfinished(batch: Batch) -> bool:
    """Whether the batch has not ended, or its results were not all exported."""
    return not batch.ended or (batch.position.stage is Stage.DONE and batch.delivered_at is None)


def compute_run_key(request: RunRequest, *more: str) -> str:
    asked = [
        request.pipeline,
        *(str(this_machine().resolve(root)) for root in request.roots),
        "",
        str(request.out.resolve()),
        *more,
    ]
    return hashlib.sha256("\0".join(asked).encode("utf-8", "surrogateescape")).hexdigest()
