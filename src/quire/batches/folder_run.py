"""`quire run`: files go in, every one comes out with an end of its own.

The same request again resumes: it finds its batch by a key made of what was asked. A batch that took in
other files than lie there now is given up for a new one; what was finished comes from the step cache.
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
from quire.batches.intake import same_as_noted, take_in
from quire.batches.plans import plan_of
from quire.batches.submission import submit
from quire.engine.loop import EngineLoop
from quire.ledger.port import BatchDraft
from quire.model.batch import Batch, PhaseCounts, Stage
from quire.model.errors import Reject, Unavailable
from quire.model.pipeline import Pipeline
from quire.tools.folder_scan import Found, scan

OBSERVE_EVERY_SECONDS = 0.1
GRACE_SECONDS = 10.0


class Request(Struct, frozen=True, kw_only=True):
    roots: Sequence[Path]
    out: Path
    pipeline: str
    own_folders: Sequence[Path] = ()  # never taken in, even when they lie inside a root


class Watcher(Protocol):
    """Told what happens, for showing it; must return quickly."""

    def scanned(self, files: int, total_bytes: int, passed_over: int) -> None: ...

    def opened(self, batch: Batch, *, resumed: bool) -> None: ...

    def took_in(self, files: int) -> None: ...

    def moved(self, counts: Sequence[PhaseCounts]) -> None: ...

    def laid_out(self, files: int) -> None: ...

    def held(self, batch: Batch) -> None: ...


class Ended(Struct, frozen=True, kw_only=True):
    """`summary` is None when the run was stopped before its batch ended."""

    batch: Batch | None
    summary: Summary | None
    seconds: float


async def run_folder(request: Request, house: RunContext, watcher: Watcher, stop: asyncio.Event) -> Ended:
    """Raises Reject for a bad request, Misconfigured when the house cannot work."""
    began = house.clock.monotonic()
    pipeline = house.pipelines.get(request.pipeline)
    if pipeline is None:
        known = ", ".join(sorted(house.pipelines))
        raise Reject(f"there is no pipeline {request.pipeline!r}; known: {known}", code="unknown_pipeline")
    await asyncio.to_thread(export.prepare, request.out, request.roots, request.own_folders)
    found = await asyncio.to_thread(_scan, request)
    passed_over = sum(one.state != "found" for one in found)
    watcher.scanned(len(found), sum(one.size for one in found), passed_over)

    with house.claiming(_run_key(request)):
        # Workers start while files are being taken in.
        async with house.conducting() as wheel:
            batch = await _prepare(request, pipeline, found, house, watcher, stop)
            if not stop.is_set():
                batch = await _conduct(batch, wheel, house, watcher, stop)
        summary = None
        if batch.ended:
            seconds = house.clock.monotonic() - began
            summary = await export.lay_out(
                batch, pipeline, request.out, house, watcher.laid_out, seconds, stop
            )
    return Ended(batch=batch, summary=summary, seconds=house.clock.monotonic() - began)


def _scan(request: Request) -> list[Found]:
    return list(scan(request.roots, leave_out=[request.out, *request.own_folders]))


async def _prepare(
    request: Request,
    pipeline: Pipeline,
    found: Sequence[Found],
    house: RunContext,
    watcher: Watcher,
    stop: asyncio.Event,
) -> Batch:
    """The batch of this request with everything taken in and its start message on the way."""
    earlier = await house.ledger.find_run(_run_key(request))
    batch = await _resumable(earlier, pipeline, found, house)
    resumed = batch is not None
    if batch is None:
        batch = await _open(request, pipeline, house)
    watcher.opened(batch, resumed=resumed)
    if batch.position.stage is not Stage.OPEN:
        return batch  # taken in by an earlier run

    whole = await take_in(
        batch.no,
        found,
        ledger=house.ledger,
        blobs=house.blobs,
        progress=watcher.took_in,
        stop=stop,
        earlier=earlier,
    )
    if not whole:
        return batch
    return await submit(batch, pipeline, ledger=house.ledger, blobs=house.blobs, clock=house.clock)


async def _resumable(
    earlier: Batch | None, pipeline: Pipeline, found: Sequence[Found], house: RunContext
) -> Batch | None:
    """The earlier batch when it can go on; otherwise it is given up."""
    if earlier is None or not _unfinished(earlier):
        return None
    if earlier.plan != plan_of(pipeline):
        reason = "the pipeline or its settings have changed since; a newer batch took its place"
    elif earlier.position.stage is Stage.OPEN or await same_as_noted(earlier.no, found, ledger=house.ledger):
        return earlier
    else:
        reason = "the folder has changed since; a newer batch took its place"
    await house.ledger.abandon(earlier.no, reason=reason, now=house.clock.now())
    return None


async def _open(request: Request, pipeline: Pipeline, house: RunContext) -> Batch:
    draft = BatchDraft(
        id=house.ids.ulid(),
        run_key=_run_key(request),
        pipeline=pipeline.name,
        pipeline_version=pipeline.version,
        plan=plan_of(pipeline),
        now=house.clock.now(),
        tier=house.defaults.tier,
        tenant=house.defaults.tenant,
        budget=house.defaults.budget,
    )
    return await house.ledger.open_batch(draft)


def _unfinished(batch: Batch) -> bool:
    """Also one whose work is done but whose results were not all laid out."""
    return not batch.ended or (batch.position.stage is Stage.DONE and batch.delivered_at is None)


def _run_key(request: Request) -> str:
    asked = [
        request.pipeline,
        *(str(root.resolve()) for root in request.roots),
        "",
        str(request.out.resolve()),
    ]
    return hashlib.sha256("\0".join(asked).encode("utf-8", "surrogateescape")).hexdigest()


async def _conduct(
    batch: Batch, wheel: EngineLoop, house: RunContext, watcher: Watcher, stop: asyncio.Event
) -> Batch:
    last_shown = -OBSERVE_EVERY_SECONDS
    hold = None

    async def observe(now_at: Batch) -> None:
        nonlocal last_shown, hold
        if now_at.hold is not hold:
            hold = now_at.hold
            watcher.held(now_at)
        moment = house.clock.monotonic()
        if now_at.ended or moment - last_shown >= OBSERVE_EVERY_SECONDS:
            last_shown = moment
            with suppress(Unavailable):  # the ledger is away: there will be news when it is back
                watcher.moved(await house.ledger.counts(now_at.no))

    stopper = asyncio.create_task(_stop_when(stop, wheel))
    try:
        batch = await wheel.conduct(batch.id, observe)
    finally:
        stopper.cancel()
        await wheel.wind_down(GRACE_SECONDS)
    return batch


async def _stop_when(stop: asyncio.Event, wheel: EngineLoop) -> None:
    await stop.wait()
    wheel.stop()
