"""A sweep of the queue: listings show which jobs may be out of order, and only those are inspected.

Promises: healthy jobs cost nothing but their place in a listing; any number of sweeps may run at once,
beside any number of workers, as each job is settled under the conditions of
`quire.library.protocol.janitor`; ages are by the store's clock. Must not know: how a job is settled.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field, structs

from quire.library.context import LibraryContext
from quire.library.protocol import layout
from quire.library.protocol.bodies import guess_state
from quire.library.protocol.janitor import SettleOutcome, settle
from quire.model.clock import Clock
from quire.model.errors import Reject, Retry, Stale
from quire.model.objects import ObjectBody, ObjectInfo, Objects
from quire.model.tiers import TIERS

AT_ONCE = 8
CLOCKS, SWEPT = "registry/clock", "registry/swept.json"
PAIR_SECONDS = 30.0  # a state and its marker that were written together are no further apart
CLOCK_SECONDS = 3600.0  # reading the time never takes this long
QUEUED_AGAIN = frozenset({SettleOutcome.REQUEUED, SettleOutcome.REPAIRED})


class ListedMarkers(Struct):
    """The objects of a job in a listing, by their times; 0.0: there is none."""

    tiers: int = 0  # number of its todo markers
    todo: float = 0.0
    tried: bool = False  # its todo marker is not empty
    processing: float = 0.0
    failed: bool = False
    dead: float = 0.0
    state: float = 0.0
    state_size: int = 0


def find_doubt(marks: ListedMarkers, now: float, stale_seconds: float) -> str:
    """The reason to inspect a job; empty when its listing shows nothing wrong."""
    if marks.failed:
        return "failed"
    if marks.processing:
        # Our workers write both with each heartbeat. A published worker that took a job of ours writes
        # only its lock, and must not lose it.
        silent = now - max(marks.state, marks.processing) > stale_seconds
        return "silent" if silent else ""
    if marks.tiers and marks.dead:
        return "contradictory"
    return (_doubt_state if marks.state else _doubt_stateless)(marks, now, stale_seconds)


def _doubt_stateless(marks: ListedMarkers, now: float, stale_seconds: float) -> str:
    """The job waits for its first attempt, or a published tool gave it up. A job that was tried has a state,
    unless it was finished and a marker came too late, or a published tool tried it.
    """
    if marks.dead:
        # A published janitor that was slow may have buried a job that was finished meanwhile.
        return "buried" if now - marks.dead <= stale_seconds else ""
    return "stateless" if marks.tried else ""


def _doubt_state(marks: ListedMarkers, now: float, stale_seconds: float) -> str:
    if not marks.tiers and not marks.dead:
        return "unmarked"
    state = guess_state(marks.state_size)
    # The state of a job that failed or is dead, and a todo marker: a published tool queued it again. Both may
    # have been written at the same moment, so their times show nothing.
    if marks.tiers > 1 or (marks.tiers and state in {"failed", "dead"}):
        return "contradictory"
    # A lock that was deleted too late, a marker that was written too late. An operator who retried a dead job
    # and got no further than its state left the old marker. A published janitor may have deleted a silent
    # job's lock and queued it: that is much later.
    fits = state == ("waiting" if marks.tiers else "dead")
    apart = not 0 <= (marks.todo or marks.dead) - marks.state <= PAIR_SECONDS
    return "displaced" if (apart or not fits) and now - marks.state > stale_seconds else ""


class SettledJob(Struct, frozen=True):
    job: str
    why: str
    done: SettleOutcome | None  # None: the job could not be inspected
    error: str = ""


class SweepReport(Struct, kw_only=True):
    """`seen` counts listed objects; `settled` are the jobs that were inspected."""

    seen: int = 0
    jobs: int = 0
    settled: list[SettledJob] = field(default_factory=list)
    clocks: int = 0
    dry_run: bool = False

    @property
    def counts(self) -> dict[str, int]:
        return dict(Counter("error" if one.done is None else one.done.value for one in self.settled))

    @property
    def requeued(self) -> int:
        return sum(one.done in QUEUED_AGAIN for one in self.settled)

    @property
    def changed(self) -> int:
        return sum(one.done not in {None, SettleOutcome.NOTHING, SettleOutcome.LOST} for one in self.settled)

    def describe(self) -> str:
        return (
            ", ".join(f"{number} {what}" for what, number in sorted(self.counts.items())) or "nothing to do"
        )


class CompactableManifest(Protocol):
    async def compact(self) -> object: ...


async def sweep(
    context: LibraryContext,
    manifest: CompactableManifest | None = None,
    on_event: Callable[[SettledJob], None] = lambda _: None,
    *,
    dry_run: bool = False,
    worker: str = "janitor",
    at_once: int = AT_ONCE,
) -> SweepReport:
    """Sweep once. With `dry_run` the same code reports what it would do, and changes nothing. Raises when the
    listings cannot be read; a job that cannot be settled is reported, and left to the next sweep.
    """
    swept = SweepReport(dry_run=dry_run)
    marks = await _list_markers(context.objects, swept)
    swept.jobs = len(marks)
    if any(one.state or one.processing for one in marks.values()):
        sweep_objects = _SweepObjects(
            context.objects, await context.objects.now(), context.clock, dry_run=dry_run
        )
    else:
        sweep_objects = _SweepObjects(context.objects, 0.0, context.clock, dry_run=dry_run)
    now = await sweep_objects.now()
    stale_seconds = context.rules.stale_seconds
    doubts = ((job, why) for job, one in marks.items() if (why := find_doubt(one, now, stale_seconds)))
    sweep_context = structs.replace(context, objects=sweep_objects)
    async with asyncio.TaskGroup() as group:
        for _ in range(max(1, at_once)):
            group.create_task(_settle_all(sweep_context, worker, doubts, swept, on_event))
    swept.clocks = await _remove_clocks(context.objects, dry_run=dry_run)
    if manifest is not None and not dry_run:
        await manifest.compact()
    return swept


async def _settle_all(
    context: LibraryContext,
    worker: str,
    doubts: Iterator[tuple[str, str]],
    swept: SweepReport,
    on_event: Callable[[SettledJob], None],
) -> None:
    actor = context.actor(worker)
    for job, why in doubts:  # shared by the tasks that run at once
        try:
            settled = SettledJob(job, why, await context.perform(settle(job, actor)))
        except (Retry, Stale, Reject) as error:
            settled = SettledJob(job, why, None, str(error))
        swept.settled.append(settled)
        on_event(settled)


async def _list_markers(objects: Objects, swept: SweepReport) -> dict[str, ListedMarkers]:
    marks: dict[str, ListedMarkers] = {}
    async for page in objects.pages(layout.QUEUE):
        swept.seen += len(page)
        for seen in page:
            _note_marker(marks, seen)
    return marks


def _note_marker(marks: dict[str, ListedMarkers], seen: ObjectInfo) -> None:
    """Ignores objects that are not markers of a job."""
    job = layout.parse_job(seen.key)
    if job is None:
        return
    folder = seen.key[: -len(job) - 1]
    tier = folder.removeprefix(f"{layout.TODO}/")
    if not seen.key.endswith(f"/{job}") or not (folder in _FOLDERS or tier in TIERS):
        return
    one = marks.setdefault(job, ListedMarkers())
    if folder == layout.PROCESSING:
        one.processing = seen.modified_at
    elif folder == layout.STATE:
        one.state, one.state_size = seen.modified_at, seen.size
    elif folder == layout.FAILED:
        one.failed = True
    elif folder == layout.DEAD:
        one.dead = seen.modified_at
    else:
        one.tiers += 1
        one.todo = max(one.todo, seen.modified_at)
        one.tried |= seen.size > 0


_FOLDERS = frozenset({layout.PROCESSING, layout.STATE, layout.FAILED, layout.DEAD})


async def _remove_clocks(objects: Objects, *, dry_run: bool) -> int:
    """Remove what processes left that were killed while they read the store's clock."""
    found = [seen async for page in objects.pages(CLOCKS) for seen in page]
    if not found:
        return 0
    now = max(seen.modified_at for seen in found) if dry_run else await objects.now()
    old = [seen.key for seen in found if now - seen.modified_at > CLOCK_SECONDS]
    if not dry_run:
        await objects.delete(old)
    return len(old)


class SweepSchedule:
    """When a worker should sweep: when no other process did for an interval. Clocks are not compared: each
    sweep rewrites an object, and a worker that finds it unchanged after an interval is due.
    """

    def __init__(self, context: LibraryContext, seconds: float) -> None:
        self._context = context
        self._seconds = seconds
        self._known: str | None = None
        self._next = context.clock.monotonic() + self._pause()
        self._has_looked = False

    async def is_due(self) -> bool:
        now = self._context.clock.monotonic()
        if self._has_looked and now < self._next:
            return False
        seen = await self._context.objects.head(SWEPT)
        version = "" if seen is None else seen.version
        is_due = self._has_looked and version == self._known
        self._has_looked, self._known, self._next = True, version, now + self._pause()
        if is_due:
            body = f'{{"swept_by":"{self._context.ids.ulid()}"}}'.encode()
            self._known = await self._context.objects.put(SWEPT, body)
        return is_due

    def _pause(self) -> float:
        return self._seconds * (0.75 + self._context.ids.fraction() / 2)


class _SweepObjects:
    """The store during one sweep: its clock is read once and continued by ours; in a dry run, writes do
    nothing and report success.
    """

    def __init__(self, objects: Objects, now: float, clock: Clock, *, dry_run: bool) -> None:
        self._objects = objects
        self._ahead = now - clock.monotonic()
        self._clock = clock
        self._dry_run = dry_run

    async def now(self) -> float:
        return self._clock.monotonic() + self._ahead

    async def read(self, key: str) -> ObjectBody | None:
        return await self._objects.read(key)

    async def head(self, key: str) -> ObjectInfo | None:
        return await self._objects.head(key)

    async def create(self, key: str, body: bytes) -> str | None:
        return "dry" if self._dry_run else await self._objects.create(key, body)

    async def create_file(self, key: str, source: Path, *, content_type: str) -> bool:
        return self._dry_run or await self._objects.create_file(key, source, content_type=content_type)

    async def swap(self, key: str, body: bytes, version: str) -> str | None:
        return "dry" if self._dry_run else await self._objects.swap(key, body, version)

    async def put(self, key: str, body: bytes) -> str:
        return "dry" if self._dry_run else await self._objects.put(key, body)

    async def delete(self, keys: Sequence[str]) -> None:
        if not self._dry_run:
            await self._objects.delete(keys)

    def pages(self, folder: str, *, after: str = "") -> AsyncIterator[list[ObjectInfo]]:
        return self._objects.pages(folder, after=after)
