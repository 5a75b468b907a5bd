"""The meter of one order: what its step spends, and its signs of life on their way to the pool.

Promise: a step that shows progress in every turn of a loop pays for a lock and a look at the clock, not for a
write. What was spent is told while the step still runs, so that it is known of a step that is killed too.
"""

import threading
from decimal import Decimal
from operator import index

from quire.compute.pool import frames
from quire.compute.pool.pipe import Outbox
from quire.model.clock import Clock
from quire.model.cost import LARGEST, LARGEST_AMOUNT, NO_COST, Cost, Money, exact, micros

# Between two signs. The pool allows for it: the last sign before a silence may be one that was not sent.
TELL_SECONDS = 0.25


class Line:
    """What the meters of one worker share; they come and go by the ten thousand."""

    def __init__(self, outbox: Outbox, clock: Clock) -> None:
        self.outbox = outbox
        self.clock = clock
        # A thread that a step left behind must not speak for the next order.
        self.lock = threading.Lock()


class OrderMeter:
    # Defaults of the class: most orders never touch them, and an order is to cost microseconds.
    bytes_in = 0
    bytes_out = 0
    _tokens_in = 0
    _tokens_out = 0
    _money = Decimal(0)
    _done = 0
    _total = 0
    _spent = False
    _closed = False

    def __init__(self, line: Line, began: float) -> None:
        self._line = line
        self._life_told_at = began  # STARTED was the first sign

    def spend(self, *, tokens_in: int = 0, tokens_out: int = 0, money: Money = 0.0) -> None:
        with self._line.lock:
            if self._closed:
                return
            more_in, more_out = _count(self._tokens_in, tokens_in), _count(self._tokens_out, tokens_out)
            amount = self._money + exact(money)
            if amount > LARGEST_AMOUNT:
                raise ValueError(f"with {money!r} it is more money than can be counted")
            self._tokens_in, self._tokens_out, self._money = more_in, more_out, amount
            self._spent = True
            # At once and always: behind each call stands an answer that was paid for, and the next thing the
            # step does may be its last.
            self._line.outbox.send(frames.frame(frames.SPENT, self.cost()))

    def progress(self, done: int = 0, total: int = 0) -> None:
        # Checked before the lock: what cannot be sent must fail here, in the step's own line.
        done, total = _count(0, done), _count(0, total)
        with self._line.lock:
            self._done, self._total = done, total
            self._show_life()

    def pulse(self) -> None:
        """Life of our own making: bytes are arriving for the step."""
        with self._line.lock:
            self._show_life()

    def close(self) -> None:
        """The step has ended; whatever of it still runs is not listened to."""
        with self._line.lock:
            self._closed = True

    def cost(self) -> Cost:
        if not (self._spent or self.bytes_in or self.bytes_out):
            return NO_COST
        money = micros(self._money) if self._money else 0
        return Cost(self.bytes_in, self.bytes_out, self._tokens_in, self._tokens_out, money)

    def _show_life(self) -> None:
        now = self._line.clock.monotonic()
        if not self._closed and now - self._life_told_at >= TELL_SECONDS:
            self._life_told_at = now
            self._line.outbox.send(frames.frame(frames.PROGRESS, frames.Progress(self._done, self._total)))


def _count(known: int, more: int) -> int:
    """Whole numbers only: half a token would be unreadable for the pool."""
    amount = index(more)
    if not 0 <= amount <= LARGEST - known:
        raise ValueError(f"{more!r} is not a number that can be counted")
    return known + amount
