"""The dashboard: an overview of the library, kept up to date by listings in the background.

Promises: a round costs one request per thousand waiting jobs and none per job, except for the running jobs
that are shown, and for these only when they have written something new; results, which only grow in number,
are counted rarely. The view says how old it is. Must not know: how it is drawn.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from quire.library import listing
from quire.library.context import LibraryContext
from quire.library.protocol import layout
from quire.library.protocol.bodies import DeadMarker, FailedMarker, LockMarker, decode
from quire.model.errors import QuireError
from quire.model.objects import ObjectInfo
from quire.model.tiers import TIERS

SHOWN = 15
RATE_SECONDS = 3600.0  # over which throughput is measured
DONE_SECONDS = 300.0  # between two counts of the results; longer where counting takes long
_COST = 20  # a count waits this many times the duration of the last one
_AT_ONCE = 8


class RunningJob(Struct, frozen=True, kw_only=True):
    job: str
    worker: str = ""
    name: str = ""
    tier: str = ""
    stage: str = ""
    percent: float | None = None
    started_at: float = 0.0
    silent_seconds: float = 0.0
    pages: int | None = None
    attempt: int = 1


class FailedJob(Struct, frozen=True, kw_only=True):
    job: str
    error: str
    attempts: int = 0
    at: float = 0.0


class DashboardView(Struct, frozen=True, kw_only=True):
    """`done` is the last count of results plus the jobs seen to finish since; `done_age_seconds` is the age
    of that count.
    """

    todo: Mapping[str, int]
    processing: int
    failed: int
    dead: int
    done: int | None = None
    done_age_seconds: float = 0.0
    running: tuple[RunningJob, ...] = ()
    mishaps: tuple[FailedJob, ...] = ()
    finished: int = 0  # since the dashboard was opened
    watched_seconds: float = 0.0
    per_hour: float | None = None
    eta_seconds: float | None = None
    round_seconds: float = 0.0
    age_seconds: float = 0.0
    trouble: str = ""

    @property
    def waiting(self) -> int:
        return sum(self.todo.values())


class Dashboard:
    """`refresh` lists once, `run` keeps the view up to date; `view` is what is known now, without a
    request.
    """

    def __init__(self, context: LibraryContext, *, shown: int = SHOWN) -> None:
        self._context = context
        self._shown = shown
        self._todo = dict.fromkeys(TIERS, 0)
        self._folders: dict[str, dict[str, ObjectInfo]] = {}
        self._open: set[bytes] | None = None  # unfinished jobs of the previous round
        self._gone: set[bytes] = set()  # jobs seen to finish since
        self._locks: dict[str, tuple[str, LockMarker]] = {}  # by job, with the version that was read
        self._failed_jobs: dict[str, tuple[str, FailedJob]] = {}
        self._finished = 0
        self._samples: deque[tuple[float, int]] = deque()
        self._done: int | None = None
        self._done_at = self._done_seconds = 0.0
        self._done_finished = 0
        self._began = context.clock.monotonic()
        self._round_at = self._round_seconds = 0.0
        self._trouble = ""

    async def refresh(self, *, done: bool = True, mishaps: int = 0) -> DashboardView:
        """One round: list everything; count results if that is due."""
        began = self._context.clock.monotonic()
        counting = asyncio.create_task(self._count_done()) if done and self._is_count_due(began) else None
        try:
            await self._list()
            await self._read_locks()
            await self._read_failures(mishaps)
            if counting is not None:
                await counting
        finally:
            if counting is not None:
                counting.cancel()
        self._round_at = self._context.clock.monotonic()
        self._round_seconds = self._round_at - began
        self._samples.append((self._round_at, self._finished))
        while self._round_at - self._samples[0][0] > RATE_SECONDS:
            self._samples.popleft()
        return self.view()

    async def run(
        self,
        stop: asyncio.Event,
        *,
        every_seconds: float,
        mishaps: int = 0,
        on_round: Callable[[DashboardView], None] = lambda _: None,
    ) -> None:
        """Refresh round after round until `stop`. A store that cannot be reached is reported and tried
        again.
        """
        while not stop.is_set():
            try:
                await self.refresh(mishaps=mishaps)
                self._trouble = ""
            except QuireError as error:
                self._trouble = str(error)
            on_round(self.view())
            # Leave a slow store time between two rounds.
            pause = max(every_seconds, 2 * self._round_seconds)
            try:
                async with asyncio.timeout(pause):
                    await stop.wait()
            except TimeoutError:
                continue

    def view(self) -> DashboardView:
        now = self._context.clock.monotonic()
        processing = self._folders.get(layout.PROCESSING, {})
        rate = self._rate()
        left = sum(self._todo.values()) + len(processing)
        done = None if self._done is None else self._done + self._finished - self._done_finished
        return DashboardView(
            todo=dict(self._todo),
            processing=len(processing),
            failed=len(self._folders.get(layout.FAILED, {})),
            dead=len(self._folders.get(layout.DEAD, {})),
            done=done,
            done_age_seconds=now - self._done_at,
            running=self._running(),
            mishaps=tuple(job for _, job in self._failed_jobs.values()),
            finished=self._finished,
            watched_seconds=now - self._began,
            per_hour=None if rate is None else rate * 3600,
            eta_seconds=left / rate if rate else None,
            round_seconds=self._round_seconds,
            age_seconds=now - self._round_at,
            trouble=self._trouble,
        )

    async def _list(self) -> None:
        first = self._open is None
        found = await listing.list_queue(
            self._context, done=False, on_page=self._count_page if first else None
        )
        self._todo = {tier: len(jobs) for tier, jobs in found.todo.items()}
        self._folders = {
            layout.PROCESSING: dict(found.processing),
            layout.FAILED: dict(found.failed),
            layout.DEAD: dict(found.dead),
        }
        still = {bytes.fromhex(job) for jobs in found.todo.values() for job in jobs}
        still.update(map(bytes.fromhex, (*found.processing, *found.failed)))
        dead = set(map(bytes.fromhex, found.dead))
        # An unfinished job that is in no folder any more has its result. A job that changed folders while
        # they were listed may be missed for a round: it comes back.
        self._gone |= (self._open or set()) - still - dead
        self._gone -= still | dead
        self._finished = len(self._gone)
        self._open = still

    def _count_page(self, tier: str, number: int) -> None:
        """Shows counts while the first round of a large library is under way."""
        self._todo[tier] = number

    async def _read_locks(self) -> None:
        processing = self._folders[layout.PROCESSING]
        shown = self._choose_shown(processing)
        self._locks = {job: known for job, known in self._locks.items() if job in shown}
        wanted = [job for job in shown if self._locks.get(job, ("", None))[0] != processing[job].version]
        for at in range(0, len(wanted), _AT_ONCE):
            some = wanted[at : at + _AT_ONCE]
            bodies = await asyncio.gather(
                *(self._context.objects.read(layout.processing(job)) for job in some)
            )
            for job, found in zip(some, bodies, strict=True):
                if found is not None:
                    self._locks[job] = (found.version, decode(found.body, LockMarker) or LockMarker())

    async def _read_failures(self, most: int) -> None:
        """The latest failed and dead jobs."""
        failed, dead = self._folders[layout.FAILED], self._folders[layout.DEAD]
        both = sorted([*failed.values(), *dead.values()], key=lambda seen: -seen.modified_at)[:most]
        known = self._failed_jobs
        self._failed_jobs = {}
        for seen in both:
            if seen.key in known and known[seen.key][0] == seen.version:
                self._failed_jobs[seen.key] = known[seen.key]
                continue
            found = await self._context.objects.read(seen.key)
            if found is not None:
                self._failed_jobs[seen.key] = (seen.version, _failed_job(seen, found.body))

    async def _count_done(self) -> None:
        began, finished = self._context.clock.monotonic(), self._finished
        number = await listing.count_jobs(self._context.objects, layout.OUT)
        self._done, self._done_at = number, self._context.clock.monotonic()
        self._done_finished, self._done_seconds = finished, self._done_at - began

    def _is_count_due(self, now: float) -> bool:
        wait = max(DONE_SECONDS, _COST * self._done_seconds)
        return self._done is None or now - self._done_at > wait

    def _choose_shown(self, processing: Mapping[str, ObjectInfo]) -> list[str]:
        """Jobs that are shown stay, so that lines do not jump; then the latest."""
        order = sorted(processing, key=lambda job: (job not in self._locks, -processing[job].modified_at))
        return order[: self._shown]

    def _running(self) -> tuple[RunningJob, ...]:
        processing = self._folders.get(layout.PROCESSING, {})
        now = self._context.clock.now()
        jobs = [
            _running_job(job, lock, now - processing[job].modified_at)
            for job, (_, lock) in self._locks.items()
            if job in processing
        ]
        return tuple(sorted(jobs, key=lambda one: (one.started_at, one.job)))

    def _rate(self) -> float | None:
        """Jobs finished per second. None before the second round."""
        if len(self._samples) < 2:
            return None
        (first_at, first), (last_at, last) = self._samples[0], self._samples[-1]
        return (last - first) / (last_at - first_at) if last_at > first_at else None


def _running_job(job: str, lock: LockMarker, silent: float) -> RunningJob:
    progress = lock.progress
    return RunningJob(
        job=job,
        worker=lock.worker,
        name=_read_text(progress.get("original_filename")),
        tier=lock.priority,
        stage=_read_text(progress.get("stage")),
        percent=_read_percent(progress),
        started_at=lock.started / 1000,
        silent_seconds=max(0.0, silent),
        pages=_read_integer(progress.get("page_count")),
        attempt=lock.retries + 1,
    )


def _read_percent(progress: dict[str, Any]) -> float | None:
    """From any of the fields in which workers of different tools write it."""
    inner = progress.get("marker")
    for said in (progress.get("percent"), inner.get("percent") if isinstance(inner, dict) else None):
        if isinstance(said, int | float) and not isinstance(said, bool) and 0 <= said <= 100:
            return float(said)
    done, total = _read_integer(progress.get("done")), _read_integer(progress.get("total"))
    return min(100.0, 100 * done / total) if done is not None and total else None


def _failed_job(seen: ObjectInfo, body: bytes) -> FailedJob:
    job = layout.parse_job(seen.key) or ""
    if seen.key.startswith(f"{layout.DEAD}/"):
        death = decode(body, DeadMarker) or DeadMarker()
        return FailedJob(job=job, error=death.error, attempts=death.total_retries, at=seen.modified_at)
    failure = decode(body, FailedMarker) or FailedMarker()
    return FailedJob(job=job, error=failure.error, attempts=failure.retries + 1, at=seen.modified_at)


def _read_text(said: object) -> str:
    return said[:200] if isinstance(said, str) else ""


def _read_integer(said: object) -> int | None:
    return said if isinstance(said, int) and not isinstance(said, bool) and 0 <= said < 10**9 else None
