"""One host process as the pool sees it: its orders, whether its loop turns, and what holds it up."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import groupby

from quire.compute.failures import AttemptFailure
from quire.compute.hosts.busy_time import BusyTime
from quire.compute.hosts.order import HostedOrder
from quire.compute.pool import frames
from quire.compute.pool.child import WorkerProcess
from quire.model.clock import Clock
from quire.model.errors import Misconfigured
from quire.model.work import AttemptKey, Order, Report

START_SECONDS = 60.0
# A loop that has not answered a ping for so long does not turn.
DEAF_SECONDS = 1.0
OnProgress = Callable[[Order, int, int], None]
OnBlocked = Callable[[HostedOrder | None, frames.BlockedLoop], None]


class HostHandle:
    """`orders` holds all that were given and have not ended. An order that ignores its cancellation is taken
    out, and the host is drained: it gets no more, and is killed when the others have ended.
    """

    def __init__(self, process: WorkerProcess, clock: Clock, *, is_alone: bool = False) -> None:
        self._process = process
        self._clock = clock
        self._decoder = frames.FrameDecoder()
        self.is_alone = is_alone  # it runs one order at a time
        self.orders: dict[AttemptKey, HostedOrder] = {}
        self.is_draining = False
        self.is_killed = False
        self.spares_others = False  # killed for the fault of another: what else was running is innocent
        self.has_started_any = False
        self.given_up = 0  # orders that ignored their cancellation, whose coroutines go on
        self.blocked: frames.BlockedLoop | None = None
        self.on_progress: OnProgress | None = None
        self.on_blocked: OnBlocked | None = None
        self._busy = BusyTime()
        self._busy_from: dict[AttemptKey, float] = {}
        self._pinged_at: float | None = None  # when the ping was sent that is not answered yet

    @classmethod
    async def start(
        cls, process: WorkerProcess, configuration: bytes, clock: Clock, *, is_alone: bool
    ) -> "HostHandle":
        """Configure a process and wait until it is ready. Raises Misconfigured when it is not."""
        handle = cls(process, clock, is_alone=is_alone)
        process.write(frames.encode_hello(frames.HOST, configuration))
        try:
            received = await asyncio.wait_for(handle.receive(), START_SECONDS)
        except TimeoutError:
            received = None
        if received is None:
            handle.kill()
            await handle.wait()
            said = handle.read_stderr() or "it wrote nothing"
            raise Misconfigured(f"a process for coroutines did not start: {said}")
        return handle

    @property
    def name(self) -> str:
        return self._process.name

    @property
    def takes_orders(self) -> bool:
        return not self.is_draining and not self.is_killed

    @property
    def is_held_by_none(self) -> bool:
        """When the loop does not turn: is that the fault of none of its orders, but of one that has ended or
        was given up? An order that may be the cause has a time limit that will end it.
        """
        running = (one.started is not None and not one.is_computed for one in self.orders.values())
        return self.culprit is None and (self.given_up > 0 or not any(running))

    @property
    def culprit(self) -> HostedOrder | None:
        """The order that holds up the loop, as far as it is known."""
        if self.is_alone and len(self.orders) == 1:
            return next(iter(self.orders.values()))
        if self.blocked is None or self.blocked.attempt_key is None:
            return None
        return self.orders.get(self.blocked.attempt_key)

    def give(self, some: Sequence[HostedOrder]) -> None:
        """Start these orders now."""
        for call, group in groupby(some, key=lambda one: one.call):
            given = list(group)
            self.orders.update((one.attempt_key, one) for one in given)
            chunk = frames.Chunk(call, [one.order for one in given])
            self._process.write(frames.encode_frame(frames.CHUNK, chunk))

    async def receive(self) -> list[tuple[HostedOrder, Report]] | None:
        """The orders that have ended, with their reports; None when the process is gone."""
        data = await self._process.read()
        if not data:
            return None
        ended = []
        for kind, payload in self._decoder.feed(data):
            if kind == frames.REPORT:
                report = frames.report_decoder.decode(payload)
                if (one := self.orders.get(report.attempt_key)) is not None:
                    self.remove(one)
                    ended.append((one, report))
            else:
                self._note(kind, payload)
        return ended

    def remove(self, one: HostedOrder) -> None:
        """The order has ended, or is given up."""
        del self.orders[one.attempt_key]
        began = self._busy_from.pop(one.attempt_key, None)
        if began is not None:
            one.paid_seconds += self._busy.end(began, self._clock.monotonic())

    def cancel(self, one: HostedOrder, failure: AttemptFailure | None = None) -> None:
        """Ask an order to end, because of `failure`."""
        if one.cancelled_at is None and not one.is_computed:
            one.cancelled_at = self._clock.monotonic()
            one.failure = failure
            self._process.write(frames.encode_frame(frames.CANCEL, one.attempt_key))

    def cancel_exceeding(self, now: float) -> None:
        """Ask the orders to end that have exceeded a time limit. While one is known to hold up the loop, the
        time of the others does not count.
        """
        holding = self.culprit if self.blocked is not None else None
        for one in self.orders.values():
            if one.is_running and (holding is None or one is holding):
                failure = one.find_exceeded(now)
                if failure is not None:
                    self.cancel(one, failure)

    def find_stuck(self, now: float, cancel_seconds: float) -> list[HostedOrder]:
        """Orders that have not ended though they were asked to so long ago."""
        return [
            one
            for one in self.orders.values()
            if one.cancelled_at is not None
            and not one.is_computed
            and now - one.cancelled_at > cancel_seconds
        ]

    def ping(self) -> None:
        """Ask whether the loop turns, where that matters: something is to end or to start."""
        waiting = (one for one in self.orders.values() if one.started is None or one.cancelled_at is not None)
        if self._pinged_at is None and (self.given_up or any(waiting)):
            self._pinged_at = self._clock.monotonic()
            self._process.write(frames.PING_FRAME)

    def is_deaf(self, now: float, seconds: float = DEAF_SECONDS) -> bool:
        """Has the loop not turned for so long? Known only while it is pinged."""
        return self._pinged_at is not None and now - self._pinged_at > seconds

    def stop(self) -> None:
        """Let the host end when its orders have."""
        self.is_draining = True
        self._process.write(frames.encode_frame(frames.STOP))

    def kill(self) -> None:
        self.is_killed = True
        self._process.kill()

    async def wait(self) -> str:
        """Wait for the end of the process; how it ended, in words."""
        return await self._process.wait()

    def read_stderr(self) -> str:
        return self._process.read_stderr()

    @property
    def is_lost(self) -> bool:
        """Has it gone with its machine? Known after `wait`."""
        return self._process.is_lost

    def _note(self, kind: bytes, payload: memoryview) -> None:
        if kind in {frames.STARTED, frames.COMPUTED}:
            self._note_stage(kind, frames.attempt_decoder.decode(payload))
        elif kind == frames.PROGRESS:
            self._note_progress(frames.attempt_progress_decoder.decode(payload))
        elif kind == frames.SPENT:
            self._note_spending(frames.attempt_spending_decoder.decode(payload))
        elif kind == frames.PONG:
            self._pinged_at = None
        elif kind == frames.BLOCKED:
            self._note_blocked(frames.blocked_decoder.decode(payload))
        elif kind == frames.RESUMED:
            self._note_resumed(frames.resumed_decoder.decode(payload).seconds)

    def _find(self, attempt_key: AttemptKey) -> HostedOrder | None:
        """None for one that was given up, whose coroutine goes on."""
        return self.orders.get(attempt_key)

    def _note_stage(self, kind: bytes, attempt_key: AttemptKey) -> None:
        self.has_started_any = True
        one = self._find(attempt_key)
        if one is not None and kind == frames.STARTED:
            now = self._clock.monotonic()
            one.start(now)
            self._busy_from[attempt_key] = self._busy.start(now)
        elif one is not None:
            one.is_computed = True

    def _note_spending(self, spending: frames.AttemptSpending) -> None:
        one = self._find(spending.attempt_key)
        if one is not None:
            one.spent = spending.cost

    def _note_progress(self, shown: frames.AttemptProgress) -> None:
        one = self._find(shown.attempt_key)
        if one is not None:
            one.alive_at = self._clock.monotonic()
            one.progress = frames.ProgressFrame(shown.done, shown.total)
            if self.on_progress is not None:
                self.on_progress(one.order, shown.done, shown.total)

    def _note_blocked(self, blocked: frames.BlockedLoop) -> None:
        self.blocked = blocked
        if self.on_blocked is not None:
            self.on_blocked(self.culprit, blocked)

    def _note_resumed(self, seconds: float) -> None:
        culprit, now = self.blocked and self.blocked.attempt_key, self._clock.monotonic()
        self.blocked = None
        for one in self.orders.values():
            if culprit is not None and one.attempt_key != culprit:
                one.excuse(seconds, now)
