"""Simulated time and simulated processes: coroutines stepped by hand, in an order that chance decides.

There is no event loop and no thread. A coroutine gives up control where it awaits `checkpoint()` or a signal;
who goes on is drawn from one random number generator, so the same seed gives the same run.
"""

import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from random import Random
from typing import Any

from msgspec import Struct

EPOCH = 1_700_000_000.0
STEP_SECONDS = 0.01
TRACE_LINES = 60


class Crash(BaseException):
    """The process is gone, here and now. Not an Exception: nothing may catch it on the way."""


class Sleep(Struct, frozen=True):
    until: float
    signal: "SimSignal | None" = None


class _Pass:
    """Awaiting it hands control, and perhaps a wish to sleep, to the kernel."""

    def __init__(self, wish: Sleep | None = None) -> None:
        self._wish = wish

    def __await__(self) -> Generator[Sleep | None, None, None]:
        yield self._wish


def checkpoint() -> _Pass:
    """Anything may happen here: others go on, this process is stopped or killed."""
    return _Pass()


class SimProcess:
    def __init__(self, name: str, coroutine: Coroutine[Any, Any, None]) -> None:
        self.name = name
        self.coroutine = coroutine
        self.sleep: Sleep | None = None
        self.stopped_until = 0.0  # like SIGSTOP: it neither sees nor does anything before
        self.alive = True
        self.died_of: BaseException | None = None

    def kill(self) -> None:
        self.alive = False
        self.coroutine.close()

    def ready_at(self) -> float:
        """When it can go on; its signal is a reason at any time."""
        if self.sleep is None or (self.sleep.signal is not None and self.sleep.signal.is_set):
            return self.stopped_until
        return max(self.stopped_until, self.sleep.until)


class Kernel:
    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.time = 1000.0  # what monotonic clocks say
        self.wall = 0.0  # how wrong the wall clocks are
        self.steps = 0
        self.processes: list[SimProcess] = []
        self.interfere: Callable[[SimProcess], None] = lambda _process: None
        self.crashed: Callable[[SimProcess], None] = lambda _process: None
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._timer_count = 0
        self.trace: deque[str] = deque(maxlen=TRACE_LINES)

    def spawn(self, name: str, coroutine: Coroutine[Any, Any, None]) -> SimProcess:
        process = SimProcess(name, coroutine)
        self.processes.append(process)
        return process

    def at(self, moment: float, call: Callable[[], None]) -> None:
        self._timer_count += 1
        heapq.heappush(self._timers, (moment, self._timer_count, call))

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self.at(self.time + seconds, call)

    def note(self, who: str, what: str) -> None:
        self.trace.append(f"{self.steps:>6} {self.time:9.2f} {who}: {what}")

    def step(self) -> bool:
        """Let one process go on; False when nobody ever will."""
        self.processes = [process for process in self.processes if process.alive]
        moments = [(process.ready_at(), process) for process in self.processes]
        ready = [process for moment, process in moments if moment <= self.time]
        if not ready:
            nexts = [moment for moment, _ in moments] + [moment for moment, _, _ in self._timers[:1]]
            if not nexts:
                return False
            self._pass_to(min(nexts))
            return True
        self.steps += 1
        self._pass_to(self.time + self.chance.random() * STEP_SECONDS)
        process = ready[int(self.chance.random() * len(ready))]
        self.interfere(process)
        if process.alive and process.stopped_until <= self.time:
            self._go_on(process)
        return True

    def close(self) -> None:
        for process in self.processes:
            process.kill()

    def _go_on(self, process: SimProcess) -> None:
        process.sleep = None
        try:
            process.sleep = process.coroutine.send(None)
        except StopIteration:
            process.alive = False
        except Crash:
            process.alive = False
            self.crashed(process)
        except Exception as error:  # noqa: BLE001 - whoever checks the run decides whether it may
            process.alive = False
            process.died_of = error

    def _pass_to(self, moment: float) -> None:
        while self._timers and self._timers[0][0] <= moment:
            due, _, call = heapq.heappop(self._timers)
            self.time = max(self.time, due)
            call()
        self.time = max(self.time, moment)


class SimClock:
    """A machine's clocks: the wall clock may be wrong and may jump, the other never goes back."""

    def __init__(self, kernel: Kernel, skew: float = 0.0) -> None:
        self._kernel = kernel
        self._skew = skew

    def now(self) -> float:
        return EPOCH + self._kernel.time + self._kernel.wall + self._skew

    def monotonic(self) -> float:
        return self._kernel.time


class SimSignal:
    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.is_set = False

    def set(self) -> None:
        self.is_set = True

    async def wait(self, timeout_seconds: float | None = None) -> bool:
        if not self.is_set:
            until = float("inf") if timeout_seconds is None else self._kernel.time + timeout_seconds
            await _Pass(Sleep(until, self))
        else:
            await checkpoint()
        was_set, self.is_set = self.is_set, False
        return was_set


async def pause(kernel: Kernel, seconds: float) -> None:
    await _Pass(Sleep(kernel.time + seconds))


class SimIds:
    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._count = 0

    def ulid(self) -> str:
        self._count += 1
        return f"{self._count:026d}"

    def fraction(self) -> float:
        return self._chance.random()


def run_alone(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The answer of a coroutine that meets nobody."""
    while True:
        try:
            coroutine.send(None)
        except StopIteration as end:
            return end.value
