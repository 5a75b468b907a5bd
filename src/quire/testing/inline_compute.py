"""Compute without processes: for tests in one process."""

from collections.abc import Callable

from quire.model.signal import Signal
from quire.model.work import Order, Outcome, Report, StepCall, StepResult

Judge = Callable[[Order], tuple[Outcome, StepResult | None]]


class InlineCompute:
    """Every order ends as soon as it is submitted; `seen` lists the orders that ran."""

    def __init__(self, judge: Judge, signal: Signal, room: int = 3) -> None:
        self._judge = judge
        self._signal = signal
        self._room = room
        self._reports: list[Report] = []
        self.seen: list[Order] = []

    def capacity(self, compute: str = "", call: StepCall | None = None) -> int:  # noqa: ARG002 the only one
        return self._room - len(self._reports)

    async def submit(self, call: StepCall, orders: list[Order]) -> None:
        for order in orders:
            self.seen.append(order)
            outcome, result = self._judge(order)
            names = (order.batch_no, order.task_no, order.attempt)
            words = ("", "") if outcome is Outcome.DONE else (outcome.value, f"{call.step}: {outcome.value}")
            self._reports.append(Report(*names, outcome, 1.0, 0.0, "inline", result, *words))
        self._signal.set()

    def take_reports(self) -> list[Report]:
        taken, self._reports = self._reports, []
        return taken

    def revoke(self, batch_no: int) -> None:
        self._reports = [report for report in self._reports if report.batch_no != batch_no]

    async def stop(self, grace_seconds: float) -> list[Order]:
        _ = grace_seconds
        return []
