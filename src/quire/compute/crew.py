"""One worker process as the pool sees it: what it was given, what it is on, and how it ended."""

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import Mapping, Sequence

from quire.compute import frames
from quire.model.clock import Clock
from quire.model.errors import Misconfigured
from quire.model.work import Order, Report, StepCall

READ_BYTES = 1 << 18
LAST_WORDS_BYTES = 4096
START_SECONDS = 60.0
Given = tuple[StepCall, Order]


class Hand:
    """Orders start in the order they were given, so a STARTED needs no name."""

    def __init__(self, process: asyncio.subprocess.Process, clock: Clock) -> None:
        self._process = process
        self._clock = clock
        self._unframer = frames.Unframer()
        self._last_words = b""
        self._stderr = asyncio.create_task(self._listen_to_stderr())
        self.unstarted: deque[Given] = deque()
        self.started: dict[int, Given] = {}  # by task number, until reported
        self.current: Given | None = None  # the one whose step is running
        self.current_since = 0.0
        self.chunks_waiting = 0
        self._left_in_chunk: deque[int] = deque()
        self.overdue = False

    @classmethod
    async def hire(
        cls, command: Sequence[str], environment: Mapping[str, str], greeting: bytes, clock: Clock
    ) -> "Hand":
        """Start a process and wait until it is ready for work. Raises Misconfigured when it is not."""
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=dict(environment),
            )
        except OSError as error:
            raise Misconfigured(
                f"a worker process cannot be started: {error.strerror}; raise the limits of processes, open "
                "files or memory, or set fewer workers"
            ) from error
        hand = cls(process, clock)
        hand._write(_greeting_frame(greeting))
        try:
            heard = await asyncio.wait_for(hand.hear(), START_SECONDS)
        except TimeoutError:
            heard = None
        if heard is None:
            hand.kill()
            await hand.ending()
            raise Misconfigured(f"a worker process did not start: {hand.last_words() or 'it said nothing'}")
        return hand

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def orders_out(self) -> int:
        return len(self.unstarted) + len(self.started)

    def give(self, call: StepCall, orders: Sequence[Order]) -> None:
        self.unstarted.extend((call, order) for order in orders)
        self._left_in_chunk.append(len(orders))
        self.chunks_waiting += 1
        self._write(frames.frame(frames.CHUNK, frames.Chunk(call, list(orders))))

    async def hear(self) -> list[Report] | None:
        """What it said next: reports, perhaps none; None when it is gone."""
        stdout = self._process.stdout
        data = await stdout.read(READ_BYTES) if stdout else b""
        if not data:
            return None
        reports = []
        for kind, payload in self._unframer.feed(data):
            if kind == frames.STARTED:
                self._note_start()
            elif kind == frames.COMPUTED:
                self.current = None
            elif kind == frames.REPORT:
                reports.append(self._note_report(frames.report_decoder.decode(payload)))
        return reports

    def stop(self) -> None:
        """Finish the order you are on, then end."""
        self._write(frames.frame(frames.STOP))

    def kill(self) -> None:
        # Not Process.kill: that looks whether the process has ended and may take its exit code away from the
        # thread that waits for it.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)

    async def ending(self) -> str:
        """How the process ended, in words; waits for it."""
        code = await self._process.wait()
        await self._stderr
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def last_words(self) -> str:
        return self._last_words.decode(errors="replace").strip()

    def _write(self, data: bytes) -> None:
        # A dead process is noticed where we read; what could not be written was never started.
        if self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(data)

    def _note_start(self) -> None:
        self.current = self.unstarted.popleft()
        self.current_since = self._clock.monotonic()
        self.started[self.current[1].task_no] = self.current
        self._left_in_chunk[0] -= 1
        if self._left_in_chunk[0] == 0:
            self._left_in_chunk.popleft()
            self.chunks_waiting -= 1

    def _note_report(self, report: Report) -> Report:
        self.started.pop(report.task_no, None)
        if self.current is not None and self.current[1].task_no == report.task_no:
            self.current = None
        return report

    async def _listen_to_stderr(self) -> None:
        stderr = self._process.stderr
        while stderr is not None and (said := await stderr.read(LAST_WORDS_BYTES)):
            self._last_words = (self._last_words + said)[-LAST_WORDS_BYTES:]


def _greeting_frame(greeting: bytes) -> bytes:
    return len(greeting).to_bytes(4, "little") + frames.HELLO + greeting
