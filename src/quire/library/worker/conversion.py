"""One conversion in a process of its own: native code may crash, hang or eat memory there, and nowhere
else.

The process gets the name of a file with its `ConversionOrder` as its last argument, and writes lines of
JSON to its standard output (`ConversionProgress`). Promises: it is a process group of its own that does not
outlive us, with a memory limit; it is killed as a group when it takes too long, shows no progress for too
long, or when whoever waits is cancelled; whatever becomes of it is told in words. Must not know: what it
converts, nor the bucket.
"""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from quire.compute.pool.child_limits import shimmed
from quire.model.clock import Clock

OWN_COMMAND = (sys.executable, "-m", "quire.library.worker.conversion_process")
MAX_LINE_BYTES = 256 << 10
LOG_BYTES = 64 << 10
KILL_SECONDS = 10.0  # after which what still holds a pipe is not waited for
LONGEST_SECONDS = 7 * 24 * 3600.0  # whatever number of pages a document claims to have
MOST_FREE_SECONDS = 1e9
_LAST_WORDS_CHARACTERS = 300

_Pages = Annotated[int, Meta(ge=0, le=10_000_000)]


class SourceInfo(Struct, frozen=True, kw_only=True):
    """What the archive is to tell of its source."""

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
    """A line of the process: how far it is, or why it gives up."""

    stage: str = ""
    done: _Pages = 0
    total: _Pages = 0
    silent: bool = False  # the next sign comes when all pages are done
    error: str = ""
    traceback: str = ""
    trouble: bool = False  # of this machine, not of the document: a tool is missing


class ConversionLimits(Struct, frozen=True, kw_only=True):
    """`silent_seconds`: without any sign of progress."""

    seconds: float = 3600.0
    seconds_per_page: float = 60.0
    silent_seconds: float = 3600.0
    memory_mb: int = 4096

    def allowed(self, pages: int) -> float:
        return min(max(self.seconds, self.seconds_per_page * pages), max(self.seconds, LONGEST_SECONDS))


class ConversionResult(Struct, frozen=True, kw_only=True):
    """`error` is empty when the process says that all went well. `log` is the end of what else it said."""

    error: str = ""
    traceback: str = ""
    log: str = ""
    stage: str = "converting"
    trouble: bool = False


class ConverterCommand(Struct, frozen=True, kw_only=True):
    """`environment` is all that the process gets: where programs and libraries are, and no keys."""

    words: Sequence[str]
    environment: Mapping[str, str]


class Conversion:
    """`on_sign` is told of each step."""

    def __init__(
        self,
        command: ConverterCommand,
        limits: ConversionLimits,
        clock: Clock,
        on_sign: Callable[[ConversionProgress], None],
    ) -> None:
        self._command = command
        self._limits = limits
        self._clock = clock
        self._on_sign = on_sign
        self._log = bytearray()
        self._half = bytearray()  # of a line
        self._last = ConversionProgress(stage="converting")
        self._told = ConversionProgress()
        self._moved_at = 0.0

    async def run(self, order: ConversionOrder, folder: Path) -> ConversionResult:
        """In `folder`, which is the process's own. Raises OSError when it cannot be started."""
        paper = folder / "order.json"
        await asyncio.to_thread(paper.write_bytes, msgspec.json.encode(order))
        scratch = folder / "scratch"
        await asyncio.to_thread(scratch.mkdir, exist_ok=True)
        process, listening = await self._start(paper, scratch)
        ending = asyncio.create_task(process.wait())
        try:
            overdue = await self._watch(ending)
        finally:
            _kill(process.pid)  # and whatever it left behind in its group
            await ending
            _, late = await asyncio.wait(listening, timeout=KILL_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)
        return self._ended(overdue, ending.result())

    async def _start(
        self, paper: Path, scratch: Path
    ) -> tuple[asyncio.subprocess.Process, list[asyncio.Task[None]]]:
        # Pipes of our own: those of the library would be waited for as long as anybody holds them open.
        signs, signs_end = os.pipe()
        words, words_end = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *shimmed((*self._command.words, str(paper)), self._limits.memory_mb),
                cwd=scratch,
                env={**self._command.environment, "TMPDIR": str(scratch)},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=signs_end,
                stderr=words_end,
                start_new_session=True,
            )
        except BaseException:
            os.close(signs)
            os.close(words)
            raise
        finally:
            os.close(signs_end)
            os.close(words_end)
        listening = [
            asyncio.create_task(_listen(signs, self._heard)),
            asyncio.create_task(_listen(words, self._noted)),
        ]
        return process, listening

    async def _watch(self, ending: asyncio.Task[int]) -> str:
        """Why it must be ended; empty when it has ended."""
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
            await asyncio.wait({ending}, timeout=min(left, MOST_FREE_SECONDS))
        return ""

    def _heard(self, piece: bytes) -> None:
        *lines, rest = (bytes(self._half) + piece).split(b"\n")
        self._half = bytearray(rest[: MAX_LINE_BYTES + 1])
        for line in lines:
            self._line(line)

    def _line(self, line: bytes) -> None:
        try:
            sign = msgspec.json.decode(line, type=ConversionProgress) if len(line) <= MAX_LINE_BYTES else None
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            sign = None
        if sign is None:
            self._noted(line[:1000] + b"\n")
        elif sign.error:
            self._told = sign
        else:
            if (sign.stage, sign.done) != (self._last.stage, self._last.done):
                self._moved_at = self._clock.monotonic()
            self._last = sign
            self._on_sign(sign)

    def _noted(self, piece: bytes) -> None:
        self._log += piece
        del self._log[:-LOG_BYTES]

    def _ended(self, overdue: str, code: int) -> ConversionResult:
        log = self._log.decode(errors="replace").strip()
        error = overdue
        if not overdue and code:
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            words = f"; its last words: {log[-_LAST_WORDS_CHARACTERS:]}" if log else ""
            error = self._told.error or f"the converting process ended with {how}{words}"
        told = ConversionProgress() if overdue else self._told
        return ConversionResult(
            error=error,
            traceback=told.traceback,
            log=log,
            stage=self._last.stage or "converting",
            trouble=told.trouble,
        )


async def _listen(descriptor: int, take: Callable[[bytes], None]) -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    try:
        while piece := await reader.read(1 << 16):
            take(piece)
    finally:
        transport.close()


def _kill(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
