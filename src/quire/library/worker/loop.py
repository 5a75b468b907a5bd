"""A worker of the library: one job after the other, until there is nothing more to do or it is told to stop.

Promises: told to stop, it gives its job back uncounted before it ends; a store that cannot be reached is
waited for, one that refuses us is tried a few times and then named; nobody has to run a janitor, as workers
look after the queue now and then, one of them at a time. Must not know: signals, settings, the terminal.
"""

import asyncio
import shutil
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path

from msgspec import Struct, field

from quire.library import janitor
from quire.library.context import LibraryContext
from quire.library.protocol import lifecycle
from quire.library.protocol.janitor import SettleOutcome, recover_after_restart
from quire.library.protocol.lifecycle import JobCandidate
from quire.library.worker import run_windows, slots
from quire.library.worker.conversion import ConversionLimits, ConverterCommand
from quire.library.worker.heartbeat import PASSING
from quire.library.worker.job_run import (
    JobOutcome,
    JobReport,
    JobRun,
    JobRunContext,
)
from quire.library.worker.picker import JobPicker, idle_seconds
from quire.library.worker.registration import WorkerRegistration
from quire.library.worker.run_windows import RunWindow
from quire.library.worker.source import SourceLookup
from quire.model.errors import Misconfigured, QuireError

SHUTDOWN, WINDOW_CLOSED = "graceful_shutdown", "schedule_window_closed"
MOST_REFUSALS = 5  # in a row, of the store or of this machine
LOOK_SECONDS = 60.0  # at the local time, which may jump


class WorkerEventKind(StrEnum):
    STARTED = "started"
    CLAIMED = "claimed"
    ENDED = "ended"  # `report` tells how
    IDLE = "idle"
    CLOSED = "closed"  # outside the run windows
    SWEPT = "swept"
    TROUBLE = "trouble"
    RECOVERED = "recovered"  # a job of the process before
    WOULD_CLAIM = "would_claim"
    STOPPED = "stopped"


class WorkerEvent(Struct, frozen=True, kw_only=True):
    """For whoever watches."""

    kind: WorkerEventKind
    worker: str
    job: str = ""
    text: str = ""
    report: JobReport | None = None


def local_seconds(now: float) -> float:
    """Of the day, by the clock on the wall."""
    wall = time.localtime(now)
    return wall.tm_hour * 3600.0 + wall.tm_min * 60 + wall.tm_sec


class WorkerOptions(Struct, frozen=True, kw_only=True):
    """`command` is what converts, and gets the name of an order; `environment` is all that it gets beside.
    `most_jobs` 0 is without end. `sweep_seconds` 0 is a third of the time after which a job is stale.
    """

    worker: str
    command: tuple[str, ...]
    scratch: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    converting: dict[str, object] = field(default_factory=dict)
    memory_mb: int = 4096
    silent_seconds: float = 0.0  # 0: as long as a conversion without pages may take
    run_once: bool = False
    dry_run: bool = False
    most_jobs: int = 0
    windows: tuple[RunWindow, ...] = ()
    abort_outside: bool = False
    sweep: bool = True
    sweep_seconds: float = 0.0
    patience_seconds: float = 1.0
    local: Callable[[float], float] = local_seconds


class WorkerReport(Struct, kw_only=True):
    worker: str = ""
    fates: dict[JobOutcome, int] = field(default_factory=dict)
    last: JobReport | None = None

    @property
    def jobs(self) -> int:
        return sum(self.fates.values())


async def work(
    context: LibraryContext,
    options: WorkerOptions,
    stop: asyncio.Event,
    *,
    on_event: Callable[[WorkerEvent], None] = lambda _: None,
    recall: SourceLookup | None = None,
) -> WorkerReport:
    """Until `stop`, or until what was asked for is done. Raises Misconfigured when the store or this machine
    refuses for good.
    """
    slot = await asyncio.to_thread(slots.take_slot, options.scratch, options.worker)
    try:
        return await _Worker(context, options, stop, slot, on_event, recall).run()
    finally:
        slot.close()


class _Worker:
    def __init__(
        self,
        context: LibraryContext,
        options: WorkerOptions,
        stop: asyncio.Event,
        slot: slots.WorkerSlot,
        on_event: Callable[[WorkerEvent], None],
        recall: SourceLookup | None,
    ) -> None:
        self._context = context
        self._options = options
        self._stop = stop
        self._slot = slot
        self._name = slot.name
        self._on_event = on_event
        self._actor = context.actor(slot.name)
        self._picker = JobPicker(context.objects, context.clock, context.ids, salt=context.ids.ulid())
        self._registration = WorkerRegistration(context, slot.name)
        every = options.sweep_seconds or context.rules.stale_seconds / 3
        self._watch = janitor.SweepSchedule(context, every)
        self._empty = self._away = self._denied = self._troubled = 0  # in a row
        self._swept = False
        self._worked = WorkerReport(worker=slot.name)
        rules = context.rules
        self._bench = JobRunContext(
            context=context,
            worker=slot.name,
            scratch=options.scratch / slot.name,
            command=ConverterCommand(words=options.command, environment=options.environment),
            limits=ConversionLimits(
                seconds=rules.conversion_seconds,
                seconds_per_page=rules.seconds_per_page,
                silent_seconds=options.silent_seconds or rules.conversion_seconds,
                memory_mb=options.memory_mb,
            ),
            options=options.converting,
            recall=recall,
            patience_seconds=options.patience_seconds,
        )

    async def run(self) -> WorkerReport:
        if self._options.dry_run:
            return await self._rehearse()
        await asyncio.to_thread(_recreate_folder, self._bench.scratch)
        self._tell(WorkerEventKind.STARTED)
        try:
            await self._recover()
            await self._registration.update("active")
            while not self._stop.is_set() and not self._enough():
                if not await self._turn():
                    break
        finally:
            await self._registration.update("stopped")
            self._tell(WorkerEventKind.STOPPED)
        return self._worked

    async def _turn(self) -> bool:
        """One look, and one job when there is one. False: there is nothing more to do."""
        if not self._open():
            await self._outside()
            return True
        try:
            if self._options.sweep and await self._watch.due():
                await self._sweep()
            candidate = await self._picker.pick()
            going_on = candidate is not None or await self._nothing()
            report = None if candidate is None else await self._try(candidate)
        except PASSING as error:
            await self._refused(error)
            return True
        self._away = self._denied = 0
        if report is not None:
            self._troubled = self._troubled + 1 if report.trouble else 0
            if report.trouble:
                await self._trouble(report.trouble, self._troubled)
        return going_on

    async def _try(self, candidate: JobCandidate) -> JobReport | None:
        """None: it was not to be had."""
        held = await self._context.perform(lifecycle.claim(candidate, self._actor))
        if held is None:
            self._picker.missed(candidate)
            return None
        self._slot.note(held.id, held.job.attempt, held.job.started)
        self._picker.won()
        self._empty = 0
        self._tell(WorkerEventKind.CLAIMED, held.id)
        await self._registration.update("processing", held.id)
        report = await JobRun(self._bench, held).carry(self._interrupted)
        if report.fate is not JobOutcome.ABANDONED:  # then the next process may get through
            self._slot.clear()
        self._count(report)
        self._tell(WorkerEventKind.ENDED, report.job, report=report)
        if report.trouble:
            self._picker.missed(candidate)
        return report

    async def _nothing(self) -> bool:
        if self._options.run_once:
            # Whoever starts one worker for one job at a time has nobody else to look after the queue.
            swept, self._swept = self._swept, True
            return not swept and self._options.sweep and await self._sweep() > 0
        self._empty += 1
        await self._registration.update("idle")
        seconds = idle_seconds(self._empty, self._context.ids.fraction())
        self._tell(WorkerEventKind.IDLE, text=f"{seconds:.0f}")
        await self._wait(seconds)
        return True

    async def _sweep(self) -> int:
        """How many jobs it brought back."""
        swept = await janitor.sweep(self._context, worker=self._name)
        if swept.changed:
            self._tell(WorkerEventKind.SWEPT, text=swept.in_words())
            self._picker.forget()
        return swept.requeued

    async def _recover(self) -> None:
        """The job that the process before us had when it died; its attempt stays counted."""
        left = self._slot.left()
        if left is None:
            return
        try:
            done = await self._context.perform(
                recover_after_restart(left.job, left.attempt, left.started, self._actor)
            )
        except QuireError as error:
            self._tell(WorkerEventKind.TROUBLE, left.job, str(error))  # then a janitor will
            return
        self._slot.clear()
        if done is not SettleOutcome.NOTHING:
            self._tell(WorkerEventKind.RECOVERED, left.job, done.value)

    async def _rehearse(self) -> WorkerReport:
        candidate = await self._picker.pick()
        if candidate is None:
            self._tell(WorkerEventKind.IDLE)
        else:
            self._tell(WorkerEventKind.WOULD_CLAIM, candidate.id, candidate.tier)
        return self._worked

    async def _refused(self, error: QuireError) -> None:
        """By the store: one that is away comes back, one that does not let us in needs a person."""
        if isinstance(error, Misconfigured):
            self._denied += 1
            await self._trouble(str(error), self._denied)
        else:
            self._away += 1
            self._tell(WorkerEventKind.TROUBLE, text=str(error))
            await self._pause(self._away)

    async def _trouble(self, text: str, number: int) -> None:
        """It does not pass by itself. Waits, and longer each time; raises when it was met too often."""
        self._tell(WorkerEventKind.TROUBLE, text=text)
        if number >= MOST_REFUSALS or self._options.run_once:
            raise Misconfigured(
                f"The worker {self._name} stops after {number} refusals in a row: {text} Jobs that it had "
                "are taken up by others.",
                code="worker_refused",
            )
        await self._pause(number)

    async def _pause(self, number: int) -> None:
        seconds = idle_seconds(number, self._context.ids.fraction())
        await self._wait(seconds * min(1.0, self._options.patience_seconds))

    async def _interrupted(self) -> str:
        while True:
            closes = None
            if self._options.abort_outside:
                closes = run_windows.seconds_until_closed(self._options.windows, self._moment())
            if closes is not None and closes <= 0:
                return WINDOW_CLOSED
            if await self._wait(LOOK_SECONDS if closes is None else min(closes, LOOK_SECONDS)):
                return SHUTDOWN

    async def _outside(self) -> None:
        await self._registration.update("idle")
        opens = run_windows.seconds_until_open(self._options.windows, self._moment())
        self._tell(WorkerEventKind.CLOSED, text=f"{opens:.0f}")
        await self._wait(min(opens, LOOK_SECONDS))

    async def _wait(self, seconds: float) -> bool:
        """Whether it was told to stop."""
        try:
            async with asyncio.timeout(seconds):
                return await self._stop.wait()
        except TimeoutError:
            return False

    def _open(self) -> bool:
        return run_windows.is_open(self._options.windows, self._moment())

    def _moment(self) -> float:
        return self._options.local(self._context.clock.now())

    def _enough(self) -> bool:
        most = 1 if self._options.run_once else self._options.most_jobs
        return bool(most) and self._worked.jobs >= most

    def _count(self, report: JobReport) -> None:
        self._worked.fates[report.fate] = self._worked.fates.get(report.fate, 0) + 1
        self._worked.last = report
        if report.fate is JobOutcome.DONE:
            self._registration.count_completed(report.size, report.seconds)
        elif report.fate in {JobOutcome.FAILED, JobOutcome.DEAD}:
            self._registration.count_failed()

    def _tell(
        self, kind: WorkerEventKind, job: str = "", text: str = "", report: JobReport | None = None
    ) -> None:
        self._on_event(WorkerEvent(kind=kind, worker=self._name, job=job, text=text, report=report))


def _recreate_folder(folder: Path) -> None:
    """Of what a process before us left there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
