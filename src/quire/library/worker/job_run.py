"""One job from its claim to its end: fetched, converted, checked and committed; or failed, released, lost.

Promises: whatever happens, the job is done, failed with its reason, released without counting the attempt,
or left to a janitor; nothing is written about a job that was lost; no process and no file of the job is
left. Must not know: how jobs are found.
"""

import asyncio
import shutil
import traceback
from collections.abc import Awaitable, Callable
from enum import StrEnum
from math import inf
from pathlib import Path
from tempfile import mkdtemp
from typing import TypeVar

from msgspec import Struct

from quire.library import logs
from quire.library.context import LibraryContext
from quire.library.protocol import lifecycle
from quire.library.protocol.lifecycle import HeldJob
from quire.library.worker import conversion
from quire.library.worker.conversion import (
    Conversion,
    ConversionContext,
    ConversionProgress,
    ConversionResult,
    SourceInfo,
)
from quire.library.worker.heartbeat import TRANSIENT, Heartbeat
from quire.library.worker.source import FetchedSource, SourceLookup, fetch
from quire.model.backoff import backoff_seconds
from quire.model.clock import timestamp
from quire.model.errors import QuireError, Reject, Retry

T = TypeVar("T")

FRESH_SECONDS = 10.0  # a heartbeat this recent is good enough to commit on
TRIES = 6


class JobOutcome(StrEnum):
    DONE = "done"
    FAILED = "failed"  # it will be retried
    DEAD = "dead"
    RELEASED = "released"
    LOST = "lost"  # another worker has it, or it is done
    ABANDONED = "abandoned"  # the store did not answer; a janitor will settle the job


class JobReport(Struct, frozen=True, kw_only=True):
    outcome: JobOutcome
    job: str
    error: str = ""
    size: int = 0
    seconds: float = 0.0
    trouble: str = ""  # a fault of this machine or the store: other jobs would fail too


class JobRunContext(Struct, frozen=True, kw_only=True):
    """What every run of a worker needs. `patience_seconds` is the first pause after a request that failed."""

    context: LibraryContext
    worker: str
    scratch: Path
    conversion: ConversionContext
    lookup: SourceLookup | None = None
    patience_seconds: float = 1.0


WaitForInterrupt = Callable[[], Awaitable[str]]


class JobRun:
    """The run of one job that was just claimed."""

    def __init__(self, run_context: JobRunContext, held: HeldJob) -> None:
        self._run_context = run_context
        self._context = run_context.context
        self._held = held
        self._actor = run_context.context.actor(run_context.worker)
        self._began = run_context.context.clock.monotonic()
        self._stage = "downloading"
        self._source: FetchedSource | None = None
        self._last_progress = ConversionProgress()

    async def run(self, wait_for_interrupt: WaitForInterrupt) -> JobReport:
        """`wait_for_interrupt` returns with a reason when the job must be released."""
        folder = Path(await asyncio.to_thread(mkdtemp, prefix="job-", dir=self._run_context.scratch))
        try:
            return await self._supervise(folder, wait_for_interrupt)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _supervise(self, folder: Path, wait_for_interrupt: WaitForInterrupt) -> JobReport:
        async with Heartbeat(self._context, self._held, self._actor, self._progress) as heartbeat:
            making = asyncio.create_task(self._fetch_and_convert(folder))
            halting = asyncio.ensure_future(wait_for_interrupt())
            losing = asyncio.create_task(heartbeat.lost.wait())
            try:
                await asyncio.wait({making, halting, losing}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                ready = making.done()
                for task in (making, halting, losing):
                    task.cancel()
                await asyncio.gather(making, halting, losing, return_exceptions=True)
            # Check that the job is still ours before a result or a state is written.
            is_held = await heartbeat.is_held(FRESH_SECONDS)
        self._held = heartbeat.held
        if not is_held:
            return self._report(JobOutcome.LOST)
        if not ready:
            reason = "" if halting.cancelled() else halting.result()
            return await self._release(reason)
        return await self._conclude(making.result(), folder / conversion.RESULT)

    async def _fetch_and_convert(self, folder: Path) -> ConversionResult:
        """Never raises unless cancelled: errors are part of the result."""
        try:
            source = self._source = await self._repeat(
                lambda: fetch(
                    self._context.blobs, self._held.id, folder / conversion.SOURCE, self._run_context.lookup
                )
            )
            self._stage = conversion.CONVERTING
            return await self._convert(source, folder)
        except OSError as error:  # of this machine: its disk is full, or it cannot start a process
            return ConversionResult(error=f"{error.strerror or error}", stage=self._stage, trouble=True)
        except Exception as error:  # noqa: BLE001 - the job fails with it, the worker continues
            known = isinstance(error, QuireError)
            reason = str(error) if known else f"{type(error).__name__}: {error}"
            trace = "".join(traceback.format_exception(error))
            return ConversionResult(
                error=reason or "the conversion failed", traceback=trace, stage=self._stage
            )

    async def _convert(self, source: FetchedSource, folder: Path) -> ConversionResult:
        about = SourceInfo(
            hash=self._held.id,
            original_filename=source.name,
            worker_id=self._run_context.worker,
            converted_at=timestamp(self._context.clock.now()),
            size_bytes=source.size,
            tags=source.tags,
        )
        return await Conversion(self._run_context.conversion, self._set_progress).run(about, folder)

    def _set_progress(self, progress: ConversionProgress) -> None:
        self._last_progress = progress

    def _progress(self) -> dict[str, object]:
        last, source = self._last_progress, self._source
        shown: dict[str, object] = {"stage": last.stage or self._stage, "elapsed_seconds": self._elapsed()}
        if source is not None:
            shown |= {"original_filename": source.name, "file_size_bytes": source.size}
        if last.total:
            percent = round(100 * min(1.0, last.done / last.total), 1)
            shown["page_count"] = last.total
            shown["marker"] = {"current": last.done, "total": last.total, "percent": percent}
        return shown

    async def _conclude(self, ended: ConversionResult, result: Path) -> JobReport:
        if ended.trouble:
            report = await self._release("worker_trouble")
            return JobReport(outcome=report.outcome, job=report.job, error=ended.error, trouble=ended.error)
        if ended.error:
            return await self._fail(ended)
        self._stage = "uploading"
        try:
            done = await self._repeat(lambda: self._finish(result))
        except Reject as error:  # a result that the store refuses, in this attempt and any other
            return await self._fail(ConversionResult(error=str(error), log=ended.log, stage=self._stage))
        except QuireError as error:
            return self._report(JobOutcome.ABANDONED, error=str(error), trouble=str(error))
        # A result that existed already: the job is done, but not by us.
        return self._report(JobOutcome.DONE if done else JobOutcome.LOST)

    async def _finish(self, result: Path) -> bool:
        done = await self._context.perform(lifecycle.finish(self._held), result=result)
        if done is None:
            raise Retry("it is unknown whether the result was stored")
        return done

    async def _fail(self, ended: ConversionResult) -> JobReport:
        try:
            job = await self._repeat(
                lambda: self._context.perform(lifecycle.fail(self._held, self._actor, ended.error))
            )
        except QuireError as error:
            return self._report(JobOutcome.ABANDONED, error=ended.error, trouble=str(error))
        if job is None:
            return self._report(JobOutcome.LOST, error=ended.error)
        failure = logs.ErrorContext(
            stage=ended.stage,
            worker_id=self._run_context.worker,
            retry_count=max(0, job.charged - 1),
            max_retries=self._context.rules.max_retries,
        )
        await logs.write_error(
            self._context,
            self._held.id,
            error=ended.error,
            traceback=ended.traceback,
            log=ended.log,
            failure=failure,
        )
        return self._report(JobOutcome.DEAD if job.state == "dead" else JobOutcome.FAILED, error=ended.error)

    async def _release(self, reason: str) -> JobReport:
        try:
            job = await self._repeat(
                lambda: self._context.perform(lifecycle.release(self._held, self._actor, reason))
            )
        except QuireError as error:
            return self._report(JobOutcome.ABANDONED, error=reason, trouble=str(error))
        return self._report(JobOutcome.RELEASED if job is not None else JobOutcome.LOST, error=reason)

    async def _repeat(self, act: Callable[[], Awaitable[T]]) -> T:
        """Repeat for a while if the store does not answer. Repeating is safe: every write names the version
        that it replaces.
        """
        for number in range(1, TRIES):
            try:
                return await act()
            except TRANSIENT:
                chance = 0.5 + self._context.ids.fraction()
                patience = self._run_context.patience_seconds
                await asyncio.sleep(chance * backoff_seconds(number, first=patience, longest=inf))
        return await act()

    def _report(self, outcome: JobOutcome, *, error: str = "", trouble: str = "") -> JobReport:
        size = 0 if self._source is None else self._source.size
        return JobReport(
            outcome=outcome,
            job=self._held.id,
            error=error,
            size=size,
            seconds=self._elapsed(),
            trouble=trouble,
        )

    def _elapsed(self) -> float:
        return round(self._context.clock.monotonic() - self._began, 3)
