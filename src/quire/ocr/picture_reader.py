"""Reads pictures in worker processes: each picture is one order, its text comes back with the report.

Promises: a crash, a hang or too much memory of an engine costs its own picture; a crash is tried once more,
in a fresh process; no text of a picture stays in the store. Must not know: where pictures come from.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from quire.blobs.port import Blobs
from quire.compute.pool.values import load_value
from quire.model.envelopes import OcrErrorCode
from quire.model.errors import QuireError, Reject, Retry, Unavailable
from quire.model.files import File
from quire.model.page_text import PageText
from quire.model.signal import Signal
from quire.model.work import Compute, Order, Outcome, Report, StepCall, StepResult
from quire.ocr.port import PictureWish
from quire.steps.ocr import service_steps

TRIES = 2
_LONGEST_WAIT_SECONDS = 5.0
_AGAIN = frozenset({Outcome.CRASHED, Outcome.INTERRUPTED, Outcome.ERRED})
# The fault of this machine: nothing about the picture.
_MACHINE_FAULTS = frozenset({"missing_tool", "wrong_option", "misconfigured", "unknown_step"})
# Codes of the reader that are codes of the contract already; all others mean: no picture that can be read.
_CONTRACT = frozenset({OcrErrorCode.UNSUPPORTED_MEDIA, OcrErrorCode.ENGINE_ERROR, OcrErrorCode.BAD_REQUEST})


class PoolPictureReader:
    """Several pictures at once, as many as `at_once`. `blobs` is the folder in which the pictures lie."""

    def __init__(
        self,
        compute: Compute,
        signal: Signal,
        blobs: Blobs,
        *,
        reading: Mapping[str, Any],
        timeout_seconds: float,
        memory_mb: int,
        at_once: int,
    ) -> None:
        """`reading` is how pictures are read, as the step's option."""
        self._compute = compute
        self._signal = signal
        self._blobs = blobs
        self._reading = dict(reading)
        self._timeout_seconds = timeout_seconds
        self._memory_mb = memory_mb
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Report]] = {}
        self._places = asyncio.Semaphore(at_once)
        self._broken = ""

    @property
    def is_broken(self) -> bool:
        return bool(self._broken)

    async def run(self) -> None:
        """Hand out the reports as they arrive, until cancelled. Raises what the compute raises when it can
        start no process; from then on `read` raises Unavailable.
        """
        try:
            while True:
                for report in self._compute.take_reports():
                    waiting = self._waiting.pop(report.task_no, None)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(report)
                await self._signal.wait(_LONGEST_WAIT_SECONDS)
        except BaseException as error:
            self._broken = str(error) or type(error).__name__
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(_out_of_order(self._broken))
            raise

    async def read(self, path: Path, wish: PictureWish) -> PageText:
        """Raises Reject or Retry, with a code of the contract; Unavailable when no process can be started."""
        async with self._places:
            for tried in range(1, TRIES + 1):
                report = await self._run_order(path, wish)
                if report.outcome not in _AGAIN or tried == TRIES or report.error_class in _MACHINE_FAULTS:
                    break
        if report.result is None:
            raise _explain(report)
        return await self._take_text(report.result)

    async def _run_order(self, path: Path, wish: PictureWish) -> Report:
        if self._broken:
            raise _out_of_order(self._broken)
        number = next(self._numbers)
        call = StepCall(
            step=service_steps.READ_PICTURE,
            version=service_steps.VERSION,
            options={
                service_steps.READING: self._reading | ({"tiers": wish.tiers} if wish.tiers else {}),
                service_steps.LANGUAGE: wish.language,
                service_steps.PLACES: wish.places,
            },
            timeout_seconds=self._timeout_seconds,
            memory_mb=self._memory_mb,
        )
        source = File(
            key=path.name,
            path=path.name,
            name=path.name,
            size=(await asyncio.to_thread(path.stat)).st_size,
            content_type="application/octet-stream",
        )
        waiting = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        try:
            # A batch of its own for each: so that one that nobody waits for any more can be taken back.
            await self._compute.submit(call, [Order(number, number, 1, source)])
            found: Report = await waiting
        except asyncio.CancelledError:
            self._compute.revoke(number)
            raise
        finally:
            self._waiting.pop(number, None)
        return found

    async def _take_text(self, result: StepResult) -> PageText:
        if result.value is None:
            raise _machine_fault("the reader gave no text")
        try:
            found = await load_value(self._blobs, result.value)
            return msgspec.convert(found[service_steps.TEXT], PageText)
        except (QuireError, msgspec.ValidationError, TypeError, KeyError) as error:
            # It comes from a process that has read an untrusted picture.
            raise _machine_fault("the reader gave something else than a text") from error
        finally:
            if result.value.key:
                with suppress(QuireError):
                    await self._blobs.delete(result.value.key)


def _explain(report: Report) -> QuireError:
    """Why there is no text, as an error of the contract."""
    if report.error_class in _MACHINE_FAULTS:
        return _machine_fault(report.error)
    if report.outcome is Outcome.REJECTED:
        code = report.error_class if report.error_class in _CONTRACT else OcrErrorCode.UNSUPPORTED_MEDIA
        return Reject(report.error, code=code)
    if report.outcome in {Outcome.TIMED_OUT, Outcome.OUT_OF_MEMORY}:
        # The same picture would do the same again.
        return Reject(report.error, code=OcrErrorCode.ENGINE_ERROR)
    return Retry(report.error, code=OcrErrorCode.ENGINE_ERROR)


def _out_of_order(why: str) -> Unavailable:
    return Unavailable(f"no process can be started that reads pictures: {why}", code="reader_unavailable")


def _machine_fault(why: str) -> Retry:
    return Retry(why, code=OcrErrorCode.INTERNAL_ERROR)
