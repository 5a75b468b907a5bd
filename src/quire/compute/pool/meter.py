"""The meter of one order: sends the costs and the progress of its step to the pool.

Promise: a step that shows progress in every turn of a loop pays for a lock and a read of the clock, not for a
write. Costs are sent while the step still runs, so that they are known even when the step is killed.
"""

import threading
from decimal import Decimal
from math import inf
from operator import index
from typing import Protocol

from msgspec import Struct

from quire.compute.pool import frames
from quire.model.clock import Clock
from quire.model.cost import LARGEST, LARGEST_AMOUNT, NO_COST, Cost, Money, parse_money, to_micros
from quire.model.work import AttemptKey

# Between two PROGRESS frames. The pool allows for it: the last one before a stall may not have been sent.
PROGRESS_INTERVAL_SECONDS = 0.25


class FrameSink(Protocol):
    """Where frames go: the pipe to the pool, or nowhere."""

    def send(self, data: bytes = b"") -> None: ...


class Nowhere:
    """No pool listens: what a step has spent is in the callback of its task."""

    def send(self, data: bytes = b"") -> None:
        """Ignored."""


class MeterChannel:
    """Shared by the meters of one worker, which has tens of thousands of them."""

    def __init__(self, writer: FrameSink, clock: Clock) -> None:
        self.writer = writer
        self.clock = clock
        # A thread that a step left behind must not send for the next order.
        self.lock = threading.Lock()


class OrderMeter:
    # Defaults of the class: most orders never set them, and an order has to cost microseconds.
    bytes_in = 0
    bytes_out = 0
    _tokens_in = 0
    _tokens_out = 0
    _money = Decimal(0)
    _done = 0
    _total = 0
    _spent = False
    _closed = False

    _attempt_key: AttemptKey | None = None

    def __init__(self, channel: MeterChannel, began: float, attempt_key: AttemptKey | None = None) -> None:
        """Frames name the attempt when it is given: where many orders run at once."""
        self._channel = channel
        self._shown_at = began  # STARTED counts as progress
        if attempt_key is not None:
            self._attempt_key = attempt_key

    def spend(self, *, tokens_in: int = 0, tokens_out: int = 0, money: Money = 0.0) -> None:
        with self._channel.lock:
            if self._closed:
                return
            more_in, more_out = _count(self._tokens_in, tokens_in), _count(self._tokens_out, tokens_out)
            amount = self._money + parse_money(money)
            if amount > LARGEST_AMOUNT:
                raise ValueError(f"with {money!r} it is more money than can be counted")
            self._tokens_in, self._tokens_out, self._money = more_in, more_out, amount
            self._spent = True
            # At once and always: each call stands for a paid answer, and the step may crash next.
            self._channel.writer.send(frames.encode_frame(frames.SPENT, self._name(self.cost())))

    def take(self, spent: Cost) -> None:
        """What the step has spent in all, as another process has counted it."""
        with self._channel.lock:
            if self._closed:
                return
            self._tokens_in, self._tokens_out = spent.tokens_in, spent.tokens_out
            self._money = Decimal(spent.money_micros) / 1_000_000
            self._spent = True
            self._channel.writer.send(frames.encode_frame(frames.SPENT, self._name(self.cost())))

    def progress(self, done: int = 0, total: int = 0) -> None:
        # Checked before the lock: a number that cannot be sent must fail here, in the step's own line.
        done, total = _count(0, done), _count(0, total)
        with self._channel.lock:
            if total and not self._total:
                self._shown_at = -inf  # how much there is to do is told at once: time limits may follow it
            self._done, self._total = done, total
            self._send_progress()

    def show_life(self) -> None:
        """Progress without numbers: bytes are arriving for the step."""
        with self._channel.lock:
            self._send_progress()

    def close(self) -> None:
        """The step has ended; threads that it left running are ignored."""
        with self._channel.lock:
            self._closed = True

    def cost(self) -> Cost:
        if not (self._spent or self.bytes_in or self.bytes_out):
            return NO_COST
        money = to_micros(self._money) if self._money else 0
        return Cost(self.bytes_in, self.bytes_out, self._tokens_in, self._tokens_out, money)

    def _send_progress(self) -> None:
        now = self._channel.clock.monotonic()
        if not self._closed and now - self._shown_at >= PROGRESS_INTERVAL_SECONDS:
            self._shown_at = now
            shown = frames.ProgressFrame(self._done, self._total)
            self._channel.writer.send(frames.encode_frame(frames.PROGRESS, self._name(shown)))

    def _name(self, content: Cost | frames.ProgressFrame) -> Struct:
        """The content of a frame, with the attempt where frames name it."""
        if self._attempt_key is None:
            return content
        if isinstance(content, Cost):
            return frames.AttemptSpending(self._attempt_key, content)
        return frames.AttemptProgress(self._attempt_key, content.done, content.total)


def _count(known: int, more: int) -> int:
    """The sum of two counts. Whole numbers only: the pool could not decode others."""
    amount = index(more)
    if not 0 <= amount <= LARGEST - known:
        raise ValueError(f"{more!r} is not a number that can be counted")
    return known + amount
