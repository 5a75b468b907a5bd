"""A worker of the library: one job after the other, until there is nothing left to do or it is told to
stop.

Promises: told to stop, it releases its job without counting the attempt before it ends; it waits for a
store that cannot be reached, and tries one that refuses it a few times before it names the fault; nobody
has to run a janitor, as workers sweep the queue now and then, one of them at a time. Must not know:
signals, settings, the terminal.
"""

import asyncio
import shutil
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from msgspec import Struct, field

from quire.library import janitor
from quire.library.context import LibraryContext
from quire.library.protocol.janitor import SettleOutcome, claim_or_settle, recover_after_restart
from quire.library.protocol.lifecycle import HeldJob, JobCandidate
from quire.library.worker import run_windows, slots
from quire.library.worker.conversion import ConversionContext, ConversionLimits, StartCompute
from quire.library.worker.heartbeat import TRANSIENT
from quire.library.worker.job_run import JobOutcome, JobReport, JobRun, JobRunContext
from quire.library.worker.picker import JobPicker, idle_seconds
from quire.library.worker.registration import WorkerRegistration
from quire.library.worker.run_windows import RunWindow
from quire.library.worker.source import SourceLookup
from quire.model.errors import Misconfigured, QuireError

SHUTDOWN, WINDOW_CLOSED = "graceful_shutdown", "schedule_window_closed"
MAX_REFUSALS = 5  # in a row, by the store or by this machine
CLOCK_SECONDS = 60.0  # between two looks at the local time, which may jump


class WorkerEventKind(StrEnum):
    STARTED = "started"
    CLAIMED = "claimed"
    ENDED = "ended"  # `report` has the outcome
    IDLE = "idle"
    CLOSED = "closed"  # outside the run windows
    SWEPT = "swept"
    TROUBLE = "trouble"
    RECOVERED = "recovered"  # a job of the previous process
    WOULD_CLAIM = "would_claim"
    STOPPED = "stopped"


class WorkerEvent(Struct, frozen=True, kw_only=True):
    """What a worker reports while it works."""

    kind: WorkerEventKind
    worker: str
    job: str = ""
    text: str = ""
    report: JobReport | None = None


def local_seconds(now: float) -> float:
    """Seconds since midnight, local time."""
    local = time.localtime(now)
    return local.tm_hour * 3600.0 + local.tm_min * 60 + local.tm_sec


class WorkerOptions(Struct, frozen=True, kw_only=True):
    """`start_compute` starts what conversions run on; `converting` are the options of their step. `most_jobs`
    0 means no limit. `sweep_seconds` 0 means a third of the time after which a job is stale.
    """

    worker: str
    start_compute: StartCompute
    scratch: Path
    converting: dict[str, object] = field(default_factory=dict)
    memory_mb: int = 4096
    silent_seconds: float = 0.0  # 0: the limit of a conversion without pages
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
    outcomes: dict[JobOutcome, int] = field(default_factory=dict)
    last: JobReport | None = None

    @property
    def jobs(self) -> int:
        return sum(self.outcomes.values())


async def work(
    context: LibraryContext,
    options: WorkerOptions,
    stop: asyncio.Event,
    *,
    on_event: Callable[[WorkerEvent], None] = lambda _: None,
    lookup: SourceLookup | None = None,
) -> WorkerReport:
    """Work until `stop`, or until the requested jobs are done. Raises Misconfigured when the store or this
    machine keeps refusing.
    """
    slot = await asyncio.to_thread(slots.take_slot, options.scratch, options.worker)
    try:
        return await _Worker(context, options, stop, slot, on_event, lookup).run()
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
        lookup: SourceLookup | None,
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
        self._schedule = janitor.SweepSchedule(context, every)
        # Each counts in a row: empty polls, unanswered requests, refusals by the store, by this machine.
        self._empty = self._unanswered = self._denied = self._troubled = 0
        self._has_swept = False
        self._totals = WorkerReport(worker=slot.name)
        rules = context.rules
        self._run_context = JobRunContext(
            context=context,
            worker=slot.name,
            scratch=options.scratch / slot.name,
            conversion=ConversionContext(
                start=options.start_compute,
                limits=ConversionLimits(
                    seconds=rules.conversion_seconds,
                    seconds_per_page=rules.seconds_per_page,
                    silent_seconds=options.silent_seconds or rules.conversion_seconds,
                    memory_mb=options.memory_mb,
                ),
                options=options.converting,
            ),
            lookup=lookup,
            patience_seconds=options.patience_seconds,
        )

    async def run(self) -> WorkerReport:
        if self._options.dry_run:
            return await self._show_next()
        await asyncio.to_thread(_recreate_folder, self._run_context.scratch)
        self._tell(WorkerEventKind.STARTED)
        try:
            await self._recover()
            await self._registration.update("active")
            while not self._stop.is_set() and not self._is_finished():
                if not await self._take_turn():
                    break
        finally:
            await self._registration.update("stopped")
            self._tell(WorkerEventKind.STOPPED)
        return self._totals

    async def _take_turn(self) -> bool:
        """Look for a job once, and run it. False: there is nothing left to do."""
        if not self._is_open():
            await self._wait_for_window()
            return True
        try:
            if self._options.sweep and await self._schedule.is_due():
                await self._sweep()
            candidate = await self._picker.pick()
            goes_on = candidate is not None or await self._wait_for_jobs()
            report = None if candidate is None else await self._run_job(candidate)
        except TRANSIENT as error:
            await self._wait_for_store(error)
            return True
        self._unanswered = self._denied = 0
        if report is not None:
            self._troubled = self._troubled + 1 if report.trouble else 0
            if report.trouble:
                await self._count_refusal(report.trouble, self._troubled)
        return goes_on

    async def _run_job(self, candidate: JobCandidate) -> JobReport | None:
        """None: the job could not be claimed."""
        held = await self._context.perform(claim_or_settle(candidate, self._actor))
        if held is SettleOutcome.REQUEUED:  # it waits now, perhaps in another priority
            self._picker.forget()
        elif not isinstance(held, HeldJob):
            self._picker.skip(candidate)
        if not isinstance(held, HeldJob):
            return None
        self._slot.write(held.id, held.job.attempt, held.job.started)
        self._picker.reset_misses()
        self._empty = 0
        self._tell(WorkerEventKind.CLAIMED, held.id)
        await self._registration.update("processing", held.id)
        report = await JobRun(self._run_context, held).run(self._wait_for_interrupt)
        if report.outcome is not JobOutcome.ABANDONED:  # then the next process may recover it
            self._slot.clear()
        self._count(report)
        self._tell(WorkerEventKind.ENDED, report.job, report=report)
        if report.trouble:
            self._picker.skip(candidate)
        return report

    async def _wait_for_jobs(self) -> bool:
        if self._options.run_once:
            # With one worker process per job, no other process sweeps the queue.
            has_swept, self._has_swept = self._has_swept, True
            return not has_swept and self._options.sweep and await self._sweep() > 0
        self._empty += 1
        await self._registration.update("idle")
        seconds = idle_seconds(self._empty, self._context.ids.fraction())
        self._tell(WorkerEventKind.IDLE, text=f"{seconds:.0f}")
        await self._wait(seconds)
        return True

    async def _sweep(self) -> int:
        """Sweep the queue; returns how many jobs were queued again."""
        swept = await janitor.sweep(self._context, worker=self._name)
        if swept.changed:
            self._tell(WorkerEventKind.SWEPT, text=swept.describe())
            self._picker.forget()
        # It may have refused them a moment ago, for what the sweep put right.
        self._picker.readmit(one.job for one in swept.settled if one.done in janitor.QUEUED_AGAIN)
        return swept.requeued

    async def _recover(self) -> None:
        """Take back the job of the previous process of this name, which died; its attempt stays counted."""
        left = self._slot.read()
        if left is None:
            return
        try:
            done = await self._context.perform(
                recover_after_restart(left.job, left.attempt, left.started, self._actor)
            )
        except QuireError as error:
            self._tell(WorkerEventKind.TROUBLE, left.job, str(error))  # a janitor will recover it
            return
        self._slot.clear()
        if done is not SettleOutcome.NOTHING:
            self._tell(WorkerEventKind.RECOVERED, left.job, done.value)

    async def _show_next(self) -> WorkerReport:
        candidate = await self._picker.pick()
        if candidate is None:
            self._tell(WorkerEventKind.IDLE)
        else:
            self._tell(WorkerEventKind.WOULD_CLAIM, candidate.id, candidate.tier)
        return self._totals

    async def _wait_for_store(self, error: QuireError) -> None:
        """An unreachable store comes back; one that denies access needs an operator."""
        if isinstance(error, Misconfigured):
            self._denied += 1
            await self._count_refusal(str(error), self._denied)
        else:
            self._unanswered += 1
            self._tell(WorkerEventKind.TROUBLE, text=str(error))
            await self._pause(self._unanswered)

    async def _count_refusal(self, text: str, number: int) -> None:
        """Wait longer after each refusal in a row; raises Misconfigured after too many."""
        self._tell(WorkerEventKind.TROUBLE, text=text)
        if number >= MAX_REFUSALS or self._options.run_once:
            raise Misconfigured(
                f"The worker {self._name} stops after {number} refusals in a row: {text} Other workers "
                "recover its jobs.",
                code="worker_refused",
            )
        await self._pause(number)

    async def _pause(self, number: int) -> None:
        seconds = idle_seconds(number, self._context.ids.fraction())
        await self._wait(seconds * min(1.0, self._options.patience_seconds))

    async def _wait_for_interrupt(self) -> str:
        while True:
            closes = None
            if self._options.abort_outside:
                closes = run_windows.seconds_until_closed(self._options.windows, self._local_time())
            if closes is not None and closes <= 0:
                return WINDOW_CLOSED
            if await self._wait(CLOCK_SECONDS if closes is None else min(closes, CLOCK_SECONDS)):
                return SHUTDOWN

    async def _wait_for_window(self) -> None:
        await self._registration.update("idle")
        opens = run_windows.seconds_until_open(self._options.windows, self._local_time())
        self._tell(WorkerEventKind.CLOSED, text=f"{opens:.0f}")
        await self._wait(min(opens, CLOCK_SECONDS))

    async def _wait(self, seconds: float) -> bool:
        """Wait; True when the worker is told to stop meanwhile."""
        try:
            async with asyncio.timeout(seconds):
                return await self._stop.wait()
        except TimeoutError:
            return False

    def _is_open(self) -> bool:
        return run_windows.is_open(self._options.windows, self._local_time())

    def _local_time(self) -> float:
        return self._options.local(self._context.clock.now())

    def _is_finished(self) -> bool:
        most = 1 if self._options.run_once else self._options.most_jobs
        return bool(most) and self._totals.jobs >= most

    def _count(self, report: JobReport) -> None:
        self._totals.outcomes[report.outcome] = self._totals.outcomes.get(report.outcome, 0) + 1
        self._totals.last = report
        if report.outcome is JobOutcome.DONE:
            self._registration.count_completed(report.size, report.seconds)
        elif report.outcome in {JobOutcome.FAILED, JobOutcome.DEAD}:
            self._registration.count_failed()

    def _tell(
        self, kind: WorkerEventKind, job: str = "", text: str = "", report: JobReport | None = None
    ) -> None:
        self._on_event(WorkerEvent(kind=kind, worker=self._name, job=job, text=text, report=report))


def _recreate_folder(folder: Path) -> None:
    """Empty the folder of what a previous process left."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
