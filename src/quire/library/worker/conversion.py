"""One conversion in a process of its own, where native code may crash, hang or run out of memory.

The process gets the path of a file with its `ConversionOrder` as its last argument, and writes lines of
JSON (`ConversionProgress`) to its standard output. Promises: the process leads a group of its own that does
not outlive us, with a memory limit; the group is killed when the conversion takes too long, shows no
progress for too long, or is cancelled; every end is reported in words. Must not know: what is converted,
nor the bucket.
"""

import asyncio
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from quire.model.clock import Clock
from quire.tools.child_process import ChildProcess, describe_exit

COMMAND = (sys.executable, "-m", "quire.library.worker.conversion_process")
MAX_LINE_BYTES = 256 << 10
LOG_BYTES = 64 << 10
KILL_SECONDS = 10.0  # after which a pipe that is still open is abandoned
LONGEST_SECONDS = 7 * 24 * 3600.0  # however many pages a document claims to have
MAX_WAIT_SECONDS = 1e9
_QUOTED_LOG_CHARACTERS = 300

_Pages = Annotated[int, Meta(ge=0, le=10_000_000)]


class SourceInfo(Struct, frozen=True, kw_only=True):
    """What the archive records about its source."""

    hash: str
    original_filename: str
    worker_id: str
    converted_at: str
    size_bytes: int
    tags: tuple[str, ...] = ()


class ConversionOrder(Struct, frozen=True, kw_only=True):
    source: str
    target: str
    about: SourceInfo
    options: dict[str, Any] = field(default_factory=dict)


class ConversionProgress(Struct, frozen=True, kw_only=True):
    """A line of the process: its progress, or the error that ends it."""

    stage: str = ""
    done: _Pages = 0
    total: _Pages = 0
    silent: bool = False  # the next line comes when all pages are done
    error: str = ""
    traceback: str = ""
    trouble: bool = False  # the fault of this machine, not of the document: a tool is missing


class ConversionLimits(Struct, frozen=True, kw_only=True):
    """`silent_seconds` is the longest time without progress."""

    seconds: float = 3600.0
    seconds_per_page: float = 60.0
    silent_seconds: float = 3600.0
    memory_mb: int = 4096

    def allowed(self, pages: int) -> float:
        return min(max(self.seconds, self.seconds_per_page * pages), max(self.seconds, LONGEST_SECONDS))


class ConversionResult(Struct, frozen=True, kw_only=True):
    """`error` is empty when the conversion succeeded. `log` is the end of the process's other output."""

    error: str = ""
    traceback: str = ""
    log: str = ""
    stage: str = "converting"
    trouble: bool = False


class ConverterCommand(Struct, frozen=True, kw_only=True):
    """`environment` is complete: the process inherits nothing else, and no keys."""

    words: Sequence[str]
    environment: Mapping[str, str]


class Conversion:
    """`on_progress` is called for each line of progress."""

    def __init__(
        self,
        command: ConverterCommand,
        limits: ConversionLimits,
        clock: Clock,
        on_progress: Callable[[ConversionProgress], None],
    ) -> None:
        self._command = command
        self._limits = limits
        self._clock = clock
        self._on_progress = on_progress
        self._log = bytearray()
        self._rest = bytearray()  # the unfinished last line
        self._last = ConversionProgress(stage="converting")
        self._failure = ConversionProgress()
        self._moved_at = 0.0

    async def run(self, order: ConversionOrder, folder: Path) -> ConversionResult:
        """Run in `folder`, which belongs to the process. Raises OSError when it cannot be started."""
        order_file = folder / "order.json"
        await asyncio.to_thread(order_file.write_bytes, msgspec.json.encode(order))
        scratch = folder / "scratch"
        await asyncio.to_thread(scratch.mkdir, exist_ok=True)
        process = await ChildProcess.start(
            (*self._command.words, str(order_file)),
            {**self._command.environment, "TMPDIR": str(scratch)},
            folder=scratch,
            memory_mb=self._limits.memory_mb,
            stdout=True,
            on_stderr=self._add_log,
        )
        listening = asyncio.create_task(self._listen(process))
        ending = asyncio.create_task(process.wait())
        try:
            overdue = await self._watch(ending)
        finally:
            process.kill()
            await ending
            await asyncio.wait({listening}, timeout=KILL_SECONDS)
            listening.cancel()
            process.close()
            await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)
        return self._build_result(overdue, ending.result())

    async def _listen(self, process: ChildProcess) -> None:
        while piece := await process.read():
            self._take_output(piece)

    async def _watch(self, ending: asyncio.Task[int]) -> str:
        """The reason to kill the process; empty when it has ended."""
        began = self._moved_at = self._clock.monotonic()
        while not ending.done():
            now, pages = self._clock.monotonic(), self._last.total
            allowed = self._limits.allowed(pages)
            if now - began >= allowed:
                return f"the conversion was stopped after {allowed:.0f} seconds, the limit for {pages} pages"
            silent = allowed if self._last.silent else self._limits.silent_seconds
            if now - self._moved_at >= silent:
                return f"the conversion was stopped: it showed no progress for {silent:.0f} seconds"
            left = min(began + allowed, self._moved_at + silent) - now
            await asyncio.wait({ending}, timeout=min(left, MAX_WAIT_SECONDS))
        return ""

    def _take_output(self, piece: bytes) -> None:
        *lines, rest = (bytes(self._rest) + piece).split(b"\n")
        self._rest = bytearray(rest[: MAX_LINE_BYTES + 1])
        for line in lines:
            self._take_line(line)

    def _take_line(self, line: bytes) -> None:
        try:
            progress = (
                msgspec.json.decode(line, type=ConversionProgress) if len(line) <= MAX_LINE_BYTES else None
            )
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            progress = None
        if progress is None:
            self._add_log(line[:1000] + b"\n")
        elif progress.error:
            self._failure = progress
        else:
            if (progress.stage, progress.done) != (self._last.stage, self._last.done):
                self._moved_at = self._clock.monotonic()
            self._last = progress
            self._on_progress(progress)

    def _add_log(self, piece: bytes) -> None:
        self._log += piece
        del self._log[:-LOG_BYTES]

    def _build_result(self, overdue: str, code: int) -> ConversionResult:
        log = self._log.decode(errors="replace").strip()
        error = overdue
        if not overdue and code:
            quote = f"; its last output: {log[-_QUOTED_LOG_CHARACTERS:]}" if log else ""
            error = self._failure.error or f"the converting process ended with {describe_exit(code)}{quote}"
        failure = ConversionProgress() if overdue else self._failure
        return ConversionResult(
            error=error,
            traceback=failure.traceback,
            log=log,
            stage=self._last.stage or "converting",
            trouble=failure.trouble,
        )
