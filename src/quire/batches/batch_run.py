"""Carries one batch of `quire run` to its end: its files come in, its tasks run and its results are laid out,
all at the same time.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from quire.batches import export
from quire.batches.context import RunContext
from quire.batches.export import Summary
from quire.batches.intake import Intake, IntakeProgress, Takes
from quire.batches.layout import Layout
from quire.batches.uploads import FileReader, load_trusted
from quire.batches.work import stop_on_event
from quire.engine.loop import EngineLoop
from quire.model.batch import Batch, PhaseCounts
from quire.model.errors import Stale, Unavailable
from quire.model.plan import Plan
from quire.tools.folder_scan import FolderListing

OBSERVE_EVERY_SECONDS = 0.1
GRACE_SECONDS = 10.0


class RunObserver(Protocol):
    """Called for everything that is worth showing; must return quickly."""

    def scanned(self, files: int, total_bytes: int, passed_over: int, *, whole: bool) -> None:
        """What the scan has found so far; `whole`: it has come to its end."""
        ...

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


class RunFiles(Struct, frozen=True, kw_only=True):
    """The files of one batch: all of the listings, or those that `takes` chooses. `listings` is read once."""

    listings: Iterator[FolderListing]
    takes: Takes = lambda _: True


class BatchRun:
    """`files` None: all files of the batch are in it. Files that have not changed since the batch `earlier`
    are not read again. `keeps_report`: its report is also kept by its own name, beside those of others.
    """

    def __init__(
        self,
        batch: Batch,
        plan: Plan,
        out: Path,
        context: RunContext,
        observer: RunObserver,
        stop: asyncio.Event,
        *,
        files: RunFiles | None = None,
        earlier: Batch | None = None,
        keeps_report: bool = False,
    ) -> None:
        self._batch = batch
        self._plan = plan
        self._out = out
        self._context = context
        self._observer = observer
        self._stop = stop
        self._files = files
        self._earlier = earlier
        self._keeps_report = keeps_report
        self._ending = asyncio.Event()
        self._layout = Layout(
            batch.no,
            out,
            intake=context.intake,
            blobs=context.blobs,
            clock=context.clock,
            progress=observer.exported,
        )

    async def carry_out(self, began: float) -> RunResult:
        """`began` is the moment at which the request was made. Raises what the intake, the engine or the
        writing of results cannot get over.
        """
        clock = self._context.clock
        batch = self._batch
        if not batch.ended:
            async with self._context.start_engine() as loop:
                batch = await self._run_beside(loop)
        summary = None
        if batch.ended:
            summary = await export.export_run(
                batch,
                self._out,
                self._context,
                self._observer.exported,
                clock.monotonic() - began,
                self._stop,
                self._layout,
                keeps_report=self._keeps_report,
            )
        return RunResult(batch=batch, summary=summary, seconds=clock.monotonic() - began)

    async def _run_beside(self, loop: EngineLoop) -> Batch:
        """The engine, with the intake and the laying out of results beside it: what fails ends all three."""

        def end_loop(task: "asyncio.Task[None]") -> None:
            if not task.cancelled() and task.exception() is not None:
                loop.stop()

        stopper = asyncio.create_task(stop_on_event(self._stop, loop))
        beside = [asyncio.create_task(self._bring_files(loop)), asyncio.create_task(self._layout.run())]
        for task in beside:
            task.add_done_callback(end_loop)
        try:
            batch = await run_engine(self._batch, loop, self._context, self._observer, self._layout.hurry)
        finally:
            stopper.cancel()
            self._ending.set()
            self._layout.finish()
            await asyncio.gather(loop.shut_down(GRACE_SECONDS), _end_all(beside))
        for task in beside:
            if not task.cancelled():
                task.result()
        return batch

    async def _bring_files(self, loop: EngineLoop) -> None:
        if self._files is None:
            return
        reader = FileReader(self._context.blobs, await load_trusted(self._context.uploads, self._earlier))
        intake = Intake(
            self._batch,
            self._plan,
            self._context,
            reader,
            changed=loop.notify_tasks,
            scanned=self._show_scan,
            stored=self._observer.uploaded,
            stop=self._ending,
        )
        with suppress(Stale):  # somebody has ended the batch: the engine notices
            await intake.run(self._files.listings, self._files.takes)

    def _show_scan(self, so_far: IntakeProgress) -> None:
        self._observer.scanned(so_far.files, so_far.total_bytes, so_far.passed_over, whole=so_far.whole)


async def run_engine(
    batch: Batch, loop: EngineLoop, context: RunContext, observer: RunObserver, turned: Callable[[], None]
) -> Batch:
    """Until the batch ends or is held, or the loop is stopped. `turned` is called whenever tasks may have
    ended.
    """
    last_shown = -OBSERVE_EVERY_SECONDS
    hold = None

    async def observe(now_at: Batch) -> None:
        nonlocal last_shown, hold
        turned()
        if now_at.hold is not hold:
            hold = now_at.hold
            observer.held(now_at)
        moment = context.clock.monotonic()
        if now_at.ended or moment - last_shown >= OBSERVE_EVERY_SECONDS:
            last_shown = moment
            with suppress(Unavailable):  # the ledger is unreachable: progress is shown when it is back
                observer.progressed(await context.records.count_tasks(now_at.no))

    return await loop.run_batch(batch.id, observe)


async def _end_all(tasks: "Sequence[asyncio.Task[None]]") -> None:
    """Wait for what is being stored and written; what takes longer is given up and left to the next run."""
    _, late = await asyncio.wait(tasks, timeout=GRACE_SECONDS)
    for task in late:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
