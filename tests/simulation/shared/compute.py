"""Simulated compute: orders take simulated time and end as the world says, or as chance does.

It keeps the promise of the port (one report for each order, unless it is revoked, given back, or the process
dies) and adds what a world of callbacks brings: reports that come twice, late, at the wrong house, or forged.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from msgspec import Struct, structs

from quire.model.work import Order, Outcome, Report, StepCall
from tests.simulation.shared.chaos import Chaos
from tests.simulation.shared.kernel import EPOCH, Kernel, SimSignal, checkpoint, pause

FAILURES = (Outcome.ERRED, Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.OUT_OF_MEMORY)
FORGED = "forged"
COROUTINES = 6  # of one step that run at once in one process


class Execution(Struct, frozen=True):
    """A step that ran, as it happened."""

    batch_no: int
    task_no: int
    attempt: int
    key: str | None
    outcome: Outcome


class Steps(Protocol):
    """What steps do, the same for all processes; remembers what ran. `shaken` are tasks that failed though
    they need not, and how often.
    """

    shaken: dict[tuple[int, int], int]
    ran: list[Execution]
    begun: set[tuple[int, int, int]]

    def key(self, call: StepCall, order: Order) -> str | None: ...

    def execute(self, call: StepCall, order: Order, seconds: float, worker: str, now: float) -> Report: ...

    def may_be_late(self, report: Report) -> bool:
        """Whether an attempt that was given up for lost time may have succeeded after all."""
        ...

    def report(
        self, call: StepCall, order: Order, outcome: Outcome, seconds: float, worker: str, now: float
    ) -> Report: ...


class SimCompute:
    def __init__(
        self,
        *,
        name: str,
        kernel: Kernel,
        steps: Steps,
        chaos: Chaos,
        signal: SimSignal,
        workers: int,
        backlog: int,
        slowness: float,
        elsewhere: Callable[[Report], None],
        on_hand: Callable[[StepCall, Order], None],
    ) -> None:
        self._name = name
        self._kernel = kernel
        self._steps = steps
        self._chaos = chaos
        self._signal = signal
        self._workers = workers
        self._backlog = backlog
        self._slowness = slowness
        self._elsewhere = elsewhere
        self._on_hand = on_hand
        self._waiting: deque[tuple[StepCall, Order]] = deque()
        self._running: dict[int, tuple[StepCall, Order, float]] = {}
        self._arrived: list[Report] = []
        self._count = 0
        self._dead = False

    def capacity(self, compute: str = "", call: StepCall | None = None) -> int:  # noqa: ARG002 the only one
        """Coroutines have room of their own, by step; so have steps with a limit."""
        if call is not None and (call.asynchronous or call.at_once):
            here = [one for one, *_ in (*self._waiting, *self._running.values())]
            limit = call.at_once or COROUTINES
            return max(0, limit - sum(one.step == call.step for one in here))
        out = sum(not one.asynchronous for one, *_ in (*self._waiting, *self._running.values()))
        return max(0, self._workers + self._backlog - out)

    async def submit(self, call: StepCall, orders: list[Order]) -> None:
        await checkpoint()
        for order in orders:
            self._on_hand(call, order)
            self._waiting.append((call, order))
        self._begin()
        await checkpoint()

    def take_reports(self) -> list[Report]:
        taken, self._arrived = self._arrived, []
        return taken

    def revoke(self, batch_no: int) -> None:
        self._waiting = deque(one for one in self._waiting if one[1].batch_no != batch_no)
        self._running = {no: one for no, one in self._running.items() if one[1].batch_no != batch_no}
        self._arrived = [report for report in self._arrived if report.batch_no != batch_no]
        self._begin()

    async def stop(self, grace_seconds: float) -> list[Order]:
        unstarted = [order for _, order in self._waiting]
        self._waiting.clear()
        end = self._kernel.time + grace_seconds
        while self._running and self._kernel.time < end:
            await pause(self._kernel, min(0.5, grace_seconds))
        for call, order, began in self._running.values():
            self._arrived.append(self._report(call, order, Outcome.INTERRUPTED, self._kernel.time - began))
        self._running.clear()
        return unstarted

    def die(self) -> None:
        """With its process: what was running gives no report, unless its worker outlived the house."""
        self._dead = True
        for call, order, began in self._running.values():
            if self._chaos.happens(self._chaos.rates.echoes):
                report = self._steps.execute(call, order, 1.0, self._name, EPOCH + began)
                if report.outcome is Outcome.DONE:
                    self._later(report, self._elsewhere)
        self._running.clear()

    def deliver(self, report: Report) -> None:
        if not self._dead:
            self._arrived.append(report)
            self._signal.set()

    def _begin(self) -> None:
        busy = sum(not call.asynchronous for call, *_ in self._running.values())
        waiting, self._waiting = self._waiting, deque()
        for call, order in waiting:
            if not call.asynchronous:
                if busy >= self._workers:
                    self._waiting.append((call, order))
                    continue
                busy += 1
            self._count += 1
            self._running[self._count] = (call, order, self._kernel.time)
            self._steps.begun.add((order.batch_no, order.task_no, order.attempt))
            seconds = self._kernel.chance.random() * self._slowness
            self._kernel.after(seconds, partial(self._end, self._count))

    def _end(self, number: int) -> None:
        if self._dead or number not in self._running:
            return
        call, order, began = self._running.pop(number)
        seconds = self._kernel.time - began
        report = self._steps.execute(call, order, seconds, self._name, EPOCH + began)
        self.deliver(report)
        self._disturb(call, order, report)
        self._begin()

    def _disturb(self, call: StepCall, order: Order, report: Report) -> None:
        rates = self._chaos.rates
        if self._chaos.happens(rates.echoes):
            self._later(report, self.deliver)
        if report.outcome is Outcome.DONE and self._chaos.happens(rates.echoes):
            # A failure would be judged there without knowing how many came before: nobody routes it so.
            self._later(report, self._elsewhere)
        if self._steps.may_be_late(report) and self._chaos.happens(0.5):
            late = self._report(call, order, Outcome.DONE, report.seconds)
            self._later(late, self.deliver)
        if self._chaos.happens(rates.forged):
            for forgery in _forgeries(report):
                self._later(forgery, self.deliver)

    def _later(self, report: Report, deliver: Callable[[Report], None]) -> None:
        self._kernel.after(self._kernel.chance.choice((0.1, 2.0, 12.0)), partial(deliver, report))

    def _report(self, call: StepCall, order: Order, outcome: Outcome, seconds: float) -> Report:
        return self._steps.report(call, order, outcome, seconds, self._name, EPOCH + self._kernel.time)


def _forgeries(report: Report) -> list[Report]:
    """Successes that nobody had: of an attempt that never was, of a task and a batch that do not exist."""
    forged = structs.replace(
        report, outcome=Outcome.DONE, worker=FORGED, result=None, error_class="", error=""
    )
    return [
        structs.replace(forged, attempt=report.attempt + 1000),
        structs.replace(forged, attempt=0),
        structs.replace(forged, task_no=report.task_no + 1000),
        structs.replace(forged, batch_no=report.batch_no + 1000),
    ]
