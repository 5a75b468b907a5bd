"""One job from its claim to its end: fetched, converted, checked, committed; or failed, given back, lost.

Promises: whatever happens, the job is done, failed with its reason, given back uncounted, or left for a
janitor; of a job that was lost nothing is written; no process and no file of it is left. Must not know: how
jobs are found.
"""

import asyncio
import shutil
import traceback
from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from tempfile import mkdtemp
from typing import TypeVar

from msgspec import Struct, field

from quire.library import archives, logs
from quire.library.context import LibraryContext
from quire.library.protocol import lifecycle
from quire.library.protocol.lifecycle import HeldJob
from quire.library.worker.conversion import (
    Conversion,
    ConversionLimits,
    ConversionOrder,
    ConversionProgress,
    ConversionResult,
    ConverterCommand,
    SourceInfo,
)
from quire.library.worker.heartbeat import PASSING, Heartbeat
from quire.library.worker.source import FetchedSource, SourceLookup, fetch
from quire.model.clock import timestamp
from quire.model.errors import QuireError, Reject, Retry

T = TypeVar("T")

FRESH_SECONDS = 10.0  # a beat this old is good enough to commit on
TRIES = 6


class JobOutcome(StrEnum):
    DONE = "done"
    FAILED = "failed"  # it will be tried again
    DEAD = "dead"
    RELEASED = "released"
    LOST = "lost"  # somebody else has it
    ABANDONED = "abandoned"  # the store could not be told; a janitor will see to it


class JobReport(Struct, frozen=True, kw_only=True):
    fate: JobOutcome
    job: str
    error: str = ""
    size: int = 0
    seconds: float = 0.0
    trouble: str = ""  # of this machine or the store: others would meet it too


class JobRunContext(Struct, frozen=True, kw_only=True):
    """What a worker works with. `patience_seconds` is waited after the first answer that did not come."""

    context: LibraryContext
    worker: str
    scratch: Path
    command: ConverterCommand
    limits: ConversionLimits
    options: dict[str, object] = field(default_factory=dict)
    recall: SourceLookup | None = None
    patience_seconds: float = 1.0


class _Conversion(Struct, frozen=True, kw_only=True):
    ended: ConversionResult
    result: Path
    source: FetchedSource | None = None


Interrupted = Callable[[], Awaitable[str]]


class JobRun:
    """On one job that was just claimed."""

    def __init__(self, bench: JobRunContext, held: HeldJob) -> None:
        self._bench = bench
        self._context = bench.context
        self._held = held
        self._actor = bench.context.actor(bench.worker)
        self._began = bench.context.clock.monotonic()
        self._stage = "downloading"
        self._source: FetchedSource | None = None
        self._sign = ConversionProgress()

    async def carry(self, interrupted: Interrupted) -> JobReport:
        """`interrupted` returns with a reason when the job must be given back."""
        folder = Path(await asyncio.to_thread(mkdtemp, prefix="job-", dir=self._bench.scratch))
        try:
            return await self._carried(folder, interrupted)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _carried(self, folder: Path, interrupted: Interrupted) -> JobReport:
        async with Heartbeat(self._context, self._held, self._actor, self._progress) as beating:
            making = asyncio.create_task(self._make(folder))
            halting = asyncio.ensure_future(interrupted())
            losing = asyncio.create_task(beating.lost.wait())
            try:
                await asyncio.wait({making, halting, losing}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                ready = making.done()
                for task in (making, halting, losing):
                    task.cancel()
                await asyncio.gather(making, halting, losing, return_exceptions=True)
            # A result is worth a look whether it is still wanted; and so is a state that is to be written.
            still = await beating.fresh(FRESH_SECONDS)
        self._held = beating.held
        if not still:
            return self._report(JobOutcome.LOST)
        if not ready:
            reason = "" if halting.cancelled() else halting.result()
            return await self._release(reason)
        return await self._concluded(making.result())

    async def _make(self, folder: Path) -> _Conversion:
        """Never raises but for being cancelled: what went wrong is in what it made."""
        result = folder / "result.zip"
        try:
            source = self._source = await self._patiently(
                lambda: fetch(self._context.blobs, self._held.id, folder / "source.pdf", self._bench.recall)
            )
            self._stage = "converting"
            ended = await self._convert(source, result, folder)
            if not ended.error:
                self._stage = "packaging"
                wrong = await asyncio.to_thread(archives.find_fault, result, self._held.id)
                ended = ConversionResult(error=wrong, log=ended.log, stage=self._stage)
        except OSError as error:  # of this machine: its disk is full, or it has no context for a process
            ended = ConversionResult(error=f"{error.strerror or error}", stage=self._stage, trouble=True)
        except Exception as error:  # noqa: BLE001 - the job fails with it, the worker goes on
            known = isinstance(error, QuireError)
            reason = str(error) if known else f"{type(error).__name__}: {error}"
            trace = "".join(traceback.format_exception(error))
            ended = ConversionResult(error=reason or "it failed", traceback=trace, stage=self._stage)
        return _Conversion(ended=ended, result=result, source=self._source)

    async def _convert(self, source: FetchedSource, result: Path, folder: Path) -> ConversionResult:
        about = SourceInfo(
            hash=self._held.id,
            original_filename=source.name,
            worker_id=self._bench.worker,
            converted_at=timestamp(self._context.clock.now()),
            size_bytes=source.size,
            tags=source.tags,
        )
        order = ConversionOrder(
            source=str(source.path), target=str(result), about=about, options=self._bench.options
        )
        conversion = Conversion(self._bench.command, self._bench.limits, self._context.clock, self._signed)
        return await conversion.run(order, folder)

    def _signed(self, sign: ConversionProgress) -> None:
        self._sign = sign

    def _progress(self) -> dict[str, object]:
        sign, source = self._sign, self._source
        told: dict[str, object] = {"stage": sign.stage or self._stage, "elapsed_seconds": self._elapsed()}
        if source is not None:
            told |= {"original_filename": source.name, "file_size_bytes": source.size}
        if sign.total:
            percent = round(100 * min(1.0, sign.done / sign.total), 1)
            told["page_count"] = sign.total
            told["marker"] = {"current": sign.done, "total": sign.total, "percent": percent}
        return told

    async def _concluded(self, made: _Conversion) -> JobReport:
        if made.ended.trouble:
            report = await self._release("worker_trouble")
            return JobReport(
                fate=report.fate, job=report.job, error=made.ended.error, trouble=made.ended.error
            )
        if made.ended.error:
            return await self._fail(made.ended)
        self._stage = "uploading"
        try:
            done = await self._patiently(lambda: self._finish(made.result))
        except Reject as error:  # a result that the store does not take, at this attempt or any other
            return await self._fail(ConversionResult(error=str(error), log=made.ended.log, stage=self._stage))
        except QuireError as error:
            return self._report(JobOutcome.ABANDONED, error=str(error), trouble=str(error))
        # Not ours when there was one already: the job is done either way, and was not done by us.
        return self._report(JobOutcome.DONE if done else JobOutcome.LOST)

    async def _finish(self, result: Path) -> bool:
        done = await self._context.perform(lifecycle.finish(self._held), result=result)
        if done is None:
            raise Retry("nobody knows whether the result was stored")
        return done

    async def _fail(self, ended: ConversionResult) -> JobReport:
        try:
            job = await self._patiently(
                lambda: self._context.perform(lifecycle.fail(self._held, self._actor, ended.error))
            )
        except QuireError as error:
            return self._report(JobOutcome.ABANDONED, error=ended.error, trouble=str(error))
        if job is None:
            return self._report(JobOutcome.LOST, error=ended.error)
        failure = logs.ErrorContext(
            stage=ended.stage,
            worker_id=self._bench.worker,
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
            job = await self._patiently(
                lambda: self._context.perform(lifecycle.release(self._held, self._actor, reason))
            )
        except QuireError as error:
            return self._report(JobOutcome.ABANDONED, error=reason, trouble=str(error))
        return self._report(JobOutcome.RELEASED if job is not None else JobOutcome.LOST, error=reason)

    async def _patiently(self, act: Callable[[], Awaitable[T]]) -> T:
        """Again and again while the store does not answer, for a while. Repeating is safe: every write names
        the version that it is to replace.
        """
        for number in range(1, TRIES):
            try:
                return await act()
            except PASSING:
                chance = 0.5 + self._context.ids.fraction()
                await asyncio.sleep(self._bench.patience_seconds * 2 ** (number - 1) * chance)
        return await act()

    def _report(self, fate: JobOutcome, *, error: str = "", trouble: str = "") -> JobReport:
        size = 0 if self._source is None else self._source.size
        return JobReport(
            fate=fate, job=self._held.id, error=error, size=size, seconds=self._elapsed(), trouble=trouble
        )

    def _elapsed(self) -> float:
        return round(self._context.clock.monotonic() - self._began, 3)
