"""`quire run --watch`: goes on looking at folders, and makes one batch of what has arrived whenever it has
become quiet.

A file is taken when it has stopped growing, and once, unless it changes. What was taken is known from the
batches in the ledger, so a watch that was killed goes on where it was. Of the other files of a folder the
names are listed in every batch, so results of several batches lie beside each other without replacing one
another.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress

from msgspec import Struct

from quire.batches.batch_run import BatchRun, RunFiles, RunObserver, RunResult
from quire.batches.context import RunContext
from quire.batches.folder_run import (
    RunRequest,
    compute_run_key,
    find_pipeline,
    is_taking_files,
    is_unfinished,
    open_flow,
    prepare,
    scan_request,
)
from quire.batches.uploads import load_uploads
from quire.ledger.port import Upload
from quire.model.batch import Batch, Stage
from quire.model.plan import Plan, digest_of
from quire.tools.folder_scan import FolderListing, ScannedFile

SHORTEST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 1.0
SCAN_SHARE = 10  # a scan is followed by a pause of this many times its own length
LONGEST_WAIT_SECONDS = 30.0  # in a folder that is never quiet

Observe = Callable[[], AbstractContextManager[RunObserver]]
Tell = Callable[[RunResult], None]


class WatchRequest(Struct, frozen=True, kw_only=True):
    """`settle_seconds`: how long size and time of a file must stay as they are before it is taken."""

    run: RunRequest
    settle_seconds: float = 2.0


class WatchResult(Struct, frozen=True, kw_only=True):
    """`failed` counts the files that failed in all batches. `last` is the last batch, if it was stopped or
    held before its end, or could not continue.
    """

    batches: int
    failed: int
    last: RunResult | None = None


async def watch_folder(
    request: WatchRequest, context: RunContext, observe: Observe, tell: Tell, stop: asyncio.Event
) -> WatchResult:
    """Until `stop` is set, or a batch is held or cannot continue. `tell` is called after each batch. Raises
    what `run_folder` raises.
    """
    plan = find_pipeline(request.run.pipeline, context)
    await asyncio.to_thread(prepare, request.run)
    key = compute_run_key(request.run, "watch", str(plan.version), digest_of(plan))
    with context.claim_request(key):
        return await _Watch(request, plan, key, context, observe, tell, stop).go_on()


class _Watch:
    def __init__(
        self,
        request: WatchRequest,
        plan: Plan,
        key: str,
        context: RunContext,
        observe: Observe,
        tell: Tell,
        stop: asyncio.Event,
    ) -> None:
        self._request = request
        self._plan = plan
        self._key = key
        self._context = context
        self._observe = observe
        self._tell = tell
        self._stop = stop
        self._arrivals = Arrivals(request.settle_seconds)
        self._batches = self._failed = 0

    async def go_on(self) -> WatchResult:
        last = await self._resume()
        clock = self._context.clock
        while last is None and not self._stop.is_set():
            began = clock.monotonic()
            listings = await asyncio.to_thread(lambda: list(scan_request(self._request.run)))
            chosen = self._arrivals.choose(listings, clock.monotonic())
            if chosen:
                last = await self._run(_select_files(listings, chosen))
                self._arrivals.keep(chosen.values())
            else:
                await self._pause(SCAN_SHARE * (clock.monotonic() - began))
        return WatchResult(batches=self._batches, failed=self._failed, last=last)

    async def _resume(self) -> RunResult | None:
        """What was taken before, and the batch that is not finished yet."""
        for batch in await self._context.intake.list_runs(self._key):
            if is_taking_files(batch) or batch.position.stage is Stage.OPEN:
                # Its files are taken again; what was done of them comes from the step cache.
                reason = "the watch was stopped before all of its files were there; a newer batch takes them"
                await self._context.uploads.abandon_batch(
                    batch.no, reason=reason, now=self._context.clock.now()
                )
                continue
            if batch.manifest_key is None or batch.position.stage is Stage.ERROR:
                continue
            if is_unfinished(batch) and (last := await self._run(None, batch)) is not None:
                return last
            uploads = await load_uploads(self._context.uploads, batch.no)
            self._arrivals.remember(uploads.values())
        return None

    async def _run(self, files: RunFiles | None, continued: Batch | None = None) -> RunResult | None:
        """None: the batch has come to its end, and others may follow."""
        began = self._context.clock.monotonic()
        batch = continued or await open_flow(self._plan, self._context, self._key)
        with self._observe() as observer:
            observer.opened(batch, resumed=continued is not None)
            result = await BatchRun(
                batch,
                self._plan,
                self._request.run.out,
                self._context,
                observer,
                self._stop,
                files=files,
                keeps_report=True,
            ).carry_out(began)
        if result.summary is None:
            return result
        self._batches += 1
        self._failed += result.summary.counts["failed"]
        self._tell(result)
        return result if result.batch is not None and result.batch.position.stage is Stage.ERROR else None

    async def _pause(self, least: float) -> None:
        pause = min(LONGEST_PAUSE_SECONDS, self._request.settle_seconds / 4)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), max(SHORTEST_PAUSE_SECONDS, pause, least))


class Arrivals:
    """Which files are new, and which of these have stopped growing. It is told what is there, and when."""

    def __init__(self, settle_seconds: float) -> None:
        self._settle_seconds = settle_seconds
        self._taken: dict[str, str] = {}
        self._seen: dict[str, tuple[str, float]] = {}  # new files: what they look like, and since when
        self._waiting_since: float | None = None

    def remember(self, uploads: Iterable[Upload]) -> None:
        """These were taken by earlier batches."""
        for upload in uploads:
            self._taken[upload.path] = upload.stamp or f"{upload.state}:{upload.error_class}"

    def keep(self, files: Iterable[ScannedFile]) -> None:
        """These have been taken as they were."""
        for one in files:
            self._taken[one.path] = _mark(one)
            self._seen.pop(one.path, None)

    def choose(self, listings: Sequence[FolderListing], now: float) -> dict[str, ScannedFile]:
        """The files of the next batch, by path; none: it is not time yet."""
        new = {
            one.path: one
            for listing in listings
            for one in listing.files
            if self._taken.get(one.path) != _mark(one)
        }
        before, self._seen = self._seen, {}
        for path, one in new.items():
            mark, since = before.get(path, ("", now))
            self._seen[path] = (mark, since) if mark == _mark(one) else (_mark(one), now)
        settled = {
            path: one for path, one in new.items() if now - self._seen[path][1] >= self._settle_seconds
        }
        if all(one.state == "skipped" for one in settled.values()):
            self._waiting_since = None
            return {}
        if self._waiting_since is None:
            self._waiting_since = now
        patience = max(LONGEST_WAIT_SECONDS, self._settle_seconds)
        if len(settled) < len(new) and now - self._waiting_since < patience:
            return {}
        self._waiting_since = None
        return settled


def _mark(one: ScannedFile) -> str:
    """What a file looks like from outside; of one that is not accepted, why."""
    return one.stamp or f"{one.state}:{one.error_class}"


def _select_files(listings: Sequence[FolderListing], chosen: dict[str, ScannedFile]) -> RunFiles:
    """The folders with something new."""
    some = [listing for listing in listings if any(one.path in chosen for one in listing.files)]
    return RunFiles(listings=iter(some), takes=lambda one: one.path in chosen)
