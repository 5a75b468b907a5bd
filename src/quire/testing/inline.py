"""Compute without processes, and a ledger that crashes when told to: for simulations in one process."""

from collections.abc import Awaitable, Callable
from typing import Any

from quire.ledger.port import Ledger
from quire.model.signal import Signal
from quire.model.work import Order, Outcome, Report, StepCall, StepResult

Judge = Callable[[Order], tuple[Outcome, StepResult | None]]


class InlineCompute:
    """Every order is done as soon as it is handed over; `seen` remembers which ran."""

    def __init__(self, judge: Judge, signal: Signal, room: int = 3) -> None:
        self._judge = judge
        self._signal = signal
        self._room = room
        self._reports: list[Report] = []
        self.seen: list[Order] = []

    def room(self) -> int:
        return self._room - len(self._reports)

    async def hand(self, call: StepCall, orders: list[Order]) -> None:
        for order in orders:
            self.seen.append(order)
            outcome, result = self._judge(order)
            names = (order.batch_no, order.task_no, order.attempt)
            words = ("", "") if outcome is Outcome.DONE else (outcome.value, f"{call.step}: {outcome.value}")
            self._reports.append(Report(*names, outcome, 1.0, 0.0, "inline", result, *words))
        self._signal.set()

    def reports(self) -> list[Report]:
        taken, self._reports = self._reports, []
        return taken

    def revoke(self, batch_no: int) -> None:
        self._reports = [report for report in self._reports if report.batch_no != batch_no]

    async def stop(self, grace_seconds: float) -> list[Order]:
        _ = grace_seconds
        return []


class CrashError(BaseException):
    """The process is gone. Not an Exception: nothing may catch it on the way."""


WRITES = frozenset(
    {
        "apply",
        "claim",
        "settle",
        "give_back",
        "clear_alarm",
        "sent",
        "finalize",
        "evict",
        "send",
        "lease",
        "acknowledge",
    }
)


class Crashing:
    """Any port with a crash at its n-th write: before it happens, or after it is durable."""

    def __init__(self, inner: Any, countdown: "Countdown") -> None:
        self._inner = inner
        self._countdown = countdown

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in WRITES:
            return found

        async def write(*arguments: Any, **named: Any) -> Any:
            return await self._countdown.around(lambda: found(*arguments, **named))

        return write


class Countdown:
    def __init__(self, crash_at: int, *, after: bool) -> None:
        self._left = crash_at
        self._after = after

    async def around(self, write: Callable[[], Awaitable[Any]]) -> Any:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise CrashError
        answer = await write()
        if self._left == 0:
            raise CrashError
        return answer


def crashing(ledger: Ledger, countdown: Countdown) -> Ledger:
    return Crashing(ledger, countdown)
