"""Watches the loop of a host from a thread: what holds it up is named by order, file and line.

Promise: a loop that has not turned for a second is reported while it still hangs, and again when it turns.
Native code that keeps the interpreter to itself cannot be seen from inside; the pool notices it by unanswered
pings. Must not know: what the orders do.
"""

import asyncio
import sys
import threading
from collections.abc import Coroutine
from contextvars import Context, ContextVar, copy_context
from pathlib import Path
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

from quire.compute.pool import frames
from quire.compute.pool.pipe import FrameWriter
from quire.model.clock import Clock
from quire.model.work import AttemptKey

SILENT_SECONDS = 1.0
BEAT_SECONDS = 0.25

# Code between the loop and a step, by folder.
_PACKAGE = Path(__file__).parents[2]
_MACHINERY = (
    str(Path(asyncio.__file__).parent),
    *(str(_PACKAGE / room) for room in ("assembly", "authoring", "compute")),
    "<",
)

_attempt: ContextVar[AttemptKey | None] = ContextVar("attempt", default=None)


class LoopWatch:
    """Belongs to the loop that is running where it is created."""

    def __init__(self, writer: FrameWriter, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        # Tasks that a step creates inherit its context, so they are known by its attempt.
        self._attempts: WeakKeyDictionary[asyncio.Task[Any], AttemptKey] = WeakKeyDictionary()
        self._loop.set_task_factory(self._create_task)
        self._lock = threading.Lock()
        self._beat_at = clock.monotonic()
        self._reported: frames.BlockedLoop | None = None
        self._has_orders = threading.Event()
        self._beating: asyncio.TimerHandle | None = None
        threading.Thread(target=self._watch, daemon=True).start()

    def start_order(self, attempt_key: AttemptKey, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """A task in a context of its own, which is known by the attempt."""
        context = copy_context()
        context.run(_attempt.set, attempt_key)
        return self._loop.create_task(work, context=context)

    def resume(self) -> None:
        """There are orders: watch the loop."""
        if self._beating is None:
            self._beat()
            self._has_orders.set()

    def rest(self) -> None:
        """There are none: an idle host does not wake up."""
        if self._beating is not None:
            self._beating.cancel()
            self._beating = None
            self._has_orders.clear()
            self._note_turn()

    def _create_task(
        self, loop: asyncio.AbstractEventLoop, work: Any, *, context: Context | None = None, **options: Any
    ) -> "asyncio.Task[Any]":
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, context=context, **options)
        attempt = _attempt.get() if context is None else context.get(_attempt)
        if attempt is not None:
            self._attempts[task] = attempt
        return task

    def _beat(self) -> None:
        self._note_turn()
        self._beating = self._loop.call_later(BEAT_SECONDS, self._beat)

    def _note_turn(self) -> None:
        """The loop turns; say so when it was reported as held up."""
        now = self._clock.monotonic()
        with self._lock:
            if self._reported is not None:
                self._reported = None
                resumed = frames.ResumedLoop(now - self._beat_at)
                self._writer.send(frames.encode_frame(frames.RESUMED, resumed))
            self._beat_at = now

    def _watch(self) -> None:
        pause = threading.Event()  # which is never set
        looked_at = self._clock.monotonic()
        while True:
            if not self._has_orders.is_set():
                self._has_orders.wait()
                looked_at = self._clock.monotonic()
            pause.wait(BEAT_SECONDS)
            now, before = self._clock.monotonic(), looked_at
            looked_at = now
            # When this thread was held up as well, the whole process was.
            if now - before <= SILENT_SECONDS:
                self._look(now)

    def _look(self, now: float) -> None:
        with self._lock:
            silent = now - self._beat_at
            if not self._has_orders.is_set() or silent < SILENT_SECONDS:
                return
            found = self._sample(silent)
            if found is None or (self._reported is not None and _is_same(found, self._reported)):
                return
            self._reported = found
            self._writer.send(frames.encode_frame(frames.BLOCKED, found))

    def _sample(self, silent: float) -> frames.BlockedLoop | None:
        task = asyncio.current_task(self._loop)
        stack = _list_frames(sys._current_frames().get(self._loop_thread))  # noqa: SLF001 made for this
        if not stack or (task is None and stack[-1].f_code.co_name == "select"):
            return None  # it waits, as it should; it is about to turn
        return frames.BlockedLoop(
            None if task is None else self._attempts.get(task), _name_place(stack), silent
        )


def _is_same(found: frames.BlockedLoop, known: frames.BlockedLoop) -> bool:
    return (found.attempt_key, found.place) == (known.attempt_key, known.place)


def _list_frames(innermost: FrameType | None) -> list[FrameType]:
    found = []
    while innermost is not None:
        found.append(innermost)
        innermost = innermost.f_back
    return found[::-1]


def _name_place(stack: list[FrameType]) -> str:
    """The line in the file of the step itself, however deep in a library it hangs."""
    own = [frame for frame in stack if not frame.f_code.co_filename.startswith(_MACHINERY)]
    file = (own or stack[-1:])[0].f_code.co_filename
    frame = [one for one in stack if one.f_code.co_filename == file][-1]
    return f"{Path(file).name}:{frame.f_lineno} in {frame.f_code.co_name}"
