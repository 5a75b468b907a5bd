"""Ctrl-C and SIGTERM: the first finishes the tasks that are running, the second stops immediately.

Promise: within two seconds of the second signal the process has ended, whatever its threads do, and so have
the processes that it started. Nothing is lost: what was accepted is on disk. A thread of its own hears the
signals, because the main thread may be busy, or wait for a disk that does not answer.
"""

import asyncio
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

TIDY_SECONDS = 1.0  # for the way out by itself: rows, locks and scratch folders are cleaned up
_END = b"\0"
_USUAL = (signal.SIGINT, signal.SIGTERM)
_TERMINAL_RESET = b"\x1b[?1049l\x1b[?25h\n"  # of a screen of its own, and of a hidden cursor


def stop_on_signals(say: Callable[[str], None]) -> asyncio.Event:
    """Set by the first signal. The second loses nothing: the ledger is on disk."""
    stop = asyncio.Event()

    def begin(_: int) -> None:
        say("Stopping: finishing running tasks … (press Ctrl-C again to stop immediately)")
        stop.set()

    def stop_now(_: int) -> None:
        raise KeyboardInterrupt

    _listen(_USUAL, begin, stop_now)
    return stop


def stop_twice_on_signals(
    numbers: Collection[signal.Signals], say: Callable[[signal.Signals], None]
) -> asyncio.Event:
    """The same for a command that has something to give back: from the second signal on it has one second
    left for that.
    """
    stop = asyncio.Event()

    def begin(number: int) -> None:
        say(signal.Signals(number))
        stop.set()

    _listen(numbers, begin, lambda number: say(signal.Signals(number)))
    return stop


def end_on_signals() -> None:
    """For a command that keeps nothing by finishing its work: already the first signal ends it as Ctrl-C
    does, and the second whatever it does.
    """

    def stop_now(_: int) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        _listen(_USUAL, stop_now, stop_now, at_once=True)


def forget_signals() -> None:
    """Signals mean again what they meant before; call it in the main thread. May be repeated."""
    global _watch  # noqa: PLW0603 - signals belong to the process
    if _watch is not None:
        _watch.close()
        _watch = None


def exit_code(interrupted: int) -> int:
    """The exit code of a command that was stopped: `interrupted`, or 143 after a second SIGTERM."""
    stopped_by = None if _watch is None else _watch.stopped_by
    return interrupted if stopped_by is None else 128 + stopped_by


class _SignalWatch:
    def __init__(
        self,
        numbers: Collection[signal.Signals],
        on_first: Callable[[int], None],
        on_second: Callable[[int], None],
        *,
        at_once: bool,
    ) -> None:
        self.stopped_by: int | None = None  # the signal that ends the process
        self._at_once = at_once
        self._on_first, self._on_second = on_first, on_second
        self._loop = asyncio.get_running_loop()
        self._deadline: threading.Timer | None = None
        self._closing = threading.Event()
        self._hears, self._tells = os.pipe()
        for descriptor in (self._hears, self._tells):
            os.set_blocking(descriptor, descriptor == self._hears)
        self._wakeup_before = signal.set_wakeup_fd(self._tells, warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, self._handle) for number in numbers}
        self._numbers = {int(number) for number in numbers}
        threading.Thread(target=self._listen, name="signals", daemon=True).start()

    def close(self) -> None:
        self._closing.set()
        if self._deadline is not None:
            self._deadline.cancel()
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_DFL if before is None else before)
        signal.set_wakeup_fd(self._wakeup_before)
        os.write(self._tells, _END)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """In the main thread, when it comes to it. The other thread has heard the signal already."""
        if self._loop.is_closed() and self.stopped_by is None:
            before: Any = self._before[signal.Signals(number)]
            if callable(before):
                before(number, frame)
            elif before == signal.SIG_DFL:
                _end_now(number)

    def _listen(self) -> None:
        heard = 0
        while (byte := os.read(self._hears, 1)) != _END:
            if byte[0] in self._numbers:
                heard += 1
                self._react(heard, byte[0])
        os.close(self._hears)
        os.close(self._tells)

    def _react(self, heard: int, number: int) -> None:
        if heard > 1 and self._loop.is_closed():
            _end_now(number)
        if heard == 1:
            if self._at_once:
                self.stopped_by = number
                _abandon_reads()
            self._tell(self._on_first, number)
        elif heard == 2:
            self.stopped_by = number
            # Before the rest: a loop that is held up would not hear of it.
            self._deadline = threading.Timer(TIDY_SECONDS, self._end, [number])
            self._deadline.daemon = True
            self._deadline.start()
            _abandon_reads()
            self._tell(self._on_second, number)
        else:
            self._tell(self._on_second, number)

    def _tell(self, told: Callable[[int], None], number: int) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(told, number)

    def _end(self, number: int) -> None:
        if not self._closing.is_set():
            _end_now(number)


_watch: _SignalWatch | None = None


def _listen(
    numbers: Collection[signal.Signals],
    on_first: Callable[[int], None],
    on_second: Callable[[int], None],
    *,
    at_once: bool = False,
) -> None:
    global _watch  # noqa: PLW0603
    forget_signals()
    _watch = _SignalWatch(numbers, on_first, on_second, at_once=at_once)


def _abandon_reads() -> None:
    """Give up reads of shares that do not answer. Commands that read none have not loaded this module, and a
    thread that hears signals must not wait for an import.
    """
    if (shares := sys.modules.get("quire.tools.shares")) is not None:
        shares.this_machine().abandon()


def _end_now(number: int) -> NoReturn:
    """End the process from any thread. Nothing here waits for anything."""
    if (children := sys.modules.get("quire.tools.child_process")) is not None:
        children.kill_all()
    message = b"quire: stopped immediately; run the same command again to resume\n"
    with suppress(OSError):
        if os.isatty(2):
            message = _TERMINAL_RESET + message
        writable = select.poll()
        writable.register(2, select.POLLOUT)
        if writable.poll(0):  # a reader that has stopped reading must not keep us
            os.write(2, message)
    os._exit(128 + number)
