"""Leases messages of one queue and hands each to a handler.

Promises: at most `concurrency` handlers run at once, and a bounded number of messages is leased ahead. Leases
are extended from outside the handlers; a handler whose lease is lost is cancelled. A message that no handler
can process becomes a dead letter with the reason, and the consumer continues. An outage of the backend is
waited for. A stopping consumer lets handlers finish within the grace and releases the rest uncounted.

Handlers must not block the event loop: a computation needs a process or a thread of its own.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from typing import Generic, TypeVar

from quire.consumers.deliveries import DeliveryEvent, DeliveryLogEntry, MessageDelivery, find_lost, run_both
from quire.consumers.rules import DONE, RELEASED, DeliveryResult, check_deliveries, decide
from quire.consumers.settlement import Settlements
from quire.model.backoff import backoff_seconds
from quire.model.clock import Clock
from quire.model.errors import Reject, Retry, Unavailable
from quire.model.ids import Ids
from quire.model.queues import QueuePolicy
from quire.model.signal import Signal
from quire.queues.port import LeasedMessage, MessageQueues

# The backend wakes the consumer; this is the safety net, also for messages that are sent with a delay.
LONGEST_WAIT_SECONDS = 2.0
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
GRACE_SECONDS = 10.0
# How long a cancelled handler may take to end; after that its lease runs out by itself.
CANCEL_SECONDS = 5.0

T = TypeVar("T")
Handler = Callable[[T, LeasedMessage], Awaitable[None]]
Trouble = Callable[[str | None], None]  # called once when the backend is away, and with None when it is back


class Consumer(Generic[T]):
    def __init__(
        self,
        queues: MessageQueues,
        policy: QueuePolicy,
        handler: Handler[T],
        *,
        decode: Callable[[bytes], T],
        clock: Clock,
        ids: Ids,
        signal: Signal,
        worker: str = "",
        log: Callable[[DeliveryLogEntry], None] | None = None,
        trouble: Trouble = lambda _: None,
        at_once: Callable[[], int] | None = None,
    ) -> None:
        """`at_once` returns how many handlers may run now, where that is not the policy's `concurrency`."""
        self._queues = queues
        self._policy = policy
        self._handler = handler
        self._decode = decode
        self._clock = clock
        self._ids = ids
        self._signal = signal
        self._worker = worker
        self._log = log
        self._trouble = trouble
        self._at_once = at_once or (lambda: policy.concurrency)
        self._ready: deque[MessageDelivery] = deque()
        self._running: set[MessageDelivery] = set()
        self._settlements = Settlements(
            queues, clock, report=self._report_result, on_release=self._expect_more
        )
        self._startable = 0  # how many of the ready ones may start: their batch is complete
        self._gather_until = 0.0
        self._extend_at = 0.0
        self._has_more = True  # there may be something to lease
        self._next_due: float | None = None
        self._next_due_may_be_ours = False  # we held leases when we asked for it
        self._wait_task: asyncio.Task[None] | None = None
        self._away = False
        self._nudged = False
        self._stopping = False

    def stop(self) -> None:
        """Lease nothing more; `run` returns when running handlers have ended or their grace is over."""
        self._stopping = True
        self._signal.set()

    def _nudge(self) -> None:
        # Once is enough until the loop has run: a signal crosses threads, too expensive for each message.
        if not self._nudged:
            self._nudged = True
            self._signal.set()

    async def _wait_for_nudge(self, seconds: float) -> bool:
        nudged = await self._signal.wait(max(0.0, seconds))
        self._nudged = False
        return nudged

    async def run(self, *, grace_seconds: float = GRACE_SECONDS, until_empty: bool = False) -> None:
        """Until `stop` is called; with `until_empty` also until no message is left, not even delayed."""
        self._extend_at = self._clock.monotonic() + self._policy.lease_seconds / 3
        try:
            while not self._stopping:
                await self._retry_while_away(self._run_once)
                if self._is_busy:
                    continue
                if until_empty and not self._has_messages and not self._has_more:
                    if self._next_due is None:
                        break
                    if self._next_due_may_be_ours:
                        self._expect_more()
                        continue
                await self._sleep()
            await self._finish(grace_seconds)
        finally:
            await self._cancel_all()

    async def _run_once(self) -> None:
        await self._extend_leases()
        if not self._settlements:
            await self._fetch()
        else:
            # At the same time: they take about equally long, and neither needs the other's answer.
            await run_both(self._settlements.settle(), self._fetch())
        self._start_handlers()

    @property
    def _free_places(self) -> int:
        # With batches of one nothing is leased ahead: messages may take long while other consumers are idle.
        most = self._at_once() + self._policy.max_batch_size - 1
        # A result that is being stored frees its place, but not while it cannot be stored.
        ended = len(self._settlements) if self._away else self._settlements.waiting
        return most - len(self._ready) - len(self._running) - ended

    @property
    def _is_busy(self) -> bool:
        return not self._stopping and (bool(self._settlements) or (self._has_more and self._wants_more))

    @property
    def _wants_more(self) -> bool:
        """Not for each single free place: one lease for many messages is far cheaper."""
        free = self._free_places
        return free > 0 and (not self._ready or 2 * free >= self._policy.max_batch_size)

    @property
    def _has_messages(self) -> bool:
        return bool(self._ready or self._running or self._settlements)

    def _expect_more(self) -> None:
        self._has_more = True

    async def _fetch(self) -> None:
        if self._wait_task is not None and self._wait_task.done():
            task, self._wait_task = self._wait_task, None
            self._has_more = True
            with suppress(Unavailable):  # the next call raises it again
                task.result()
        if self._next_due is not None and self._clock.now() >= self._next_due:
            self._next_due, self._has_more = None, True
        if not (self._has_more and self._wants_more):
            return
        # Cleared before we lease: when it is set meanwhile, we lease again.
        self._has_more = False
        try:
            more = await self._lease()
        except BaseException:
            self._has_more = True
            raise
        self._has_more |= more

    async def _lease(self) -> bool:
        """Returns whether there may be more."""
        free, now = self._free_places, self._clock.now()
        leased = await self._queues.lease(
            self._policy.name, limit=free, seconds=self._policy.lease_seconds, now=now, worker=self._worker
        )
        for one in leased:
            self._receive(one, now)
        if self._ready:
            self._start_handlers()
            await asyncio.sleep(0)  # let them start before we ask for anything else
        if len(leased) >= free:
            return True
        if self._wait_task is None:
            # Nothing more now. A message sent before we wait would wake nobody: wait, then lease again.
            waiting = self._queues.wait([self._policy.name], seconds=LONGEST_WAIT_SECONDS)
            self._wait_task = asyncio.ensure_future(waiting)
            self._wait_task.add_done_callback(lambda _: self._nudge())
            await asyncio.sleep(0)  # let it start
            return True
        self._next_due_may_be_ours = self._has_messages
        self._next_due = await self._queues.next_due(self._policy.name, now=self._clock.now())
        return False

    def _receive(self, leased: LeasedMessage, now: float) -> None:
        delivery = MessageDelivery(leased, leased_until=now + self._policy.lease_seconds)
        self._report(DeliveryEvent.RECEIVED, delivery, seconds=max(0.0, now - leased.sent_at))
        delivery.result = check_deliveries(leased.deliveries, self._policy)
        if delivery.result is not None:
            self._settlements.add(delivery)
            return
        if not self._ready:
            self._startable = 0
            self._gather_until = self._clock.monotonic() + self._policy.max_batch_timeout_seconds
        self._ready.append(delivery)

    def _start_handlers(self) -> None:
        while self._ready and len(self._running) < self._at_once() and not self._stopping:
            if not self._startable:
                whole = len(self._ready) >= self._policy.max_batch_size
                if not whole and self._clock.monotonic() < self._gather_until:
                    return
                self._startable = min(len(self._ready), self._policy.max_batch_size)
            self._startable -= 1
            delivery = self._ready.popleft()
            if self._clock.now() >= delivery.leased_until:
                # The backend was away too long to extend it: another consumer may have it.
                self._drop(delivery)
                continue
            delivery.started_at = self._clock.monotonic()
            delivery.task = asyncio.ensure_future(self._work(delivery))
            self._running.add(delivery)

    async def _work(self, delivery: MessageDelivery) -> None:
        result: DeliveryResult | None = None
        try:
            await self._handler(self._decode_body(delivery.leased.body), delivery.leased)
            result = DONE
        except asyncio.CancelledError:
            # If we did not cancel it, something inside the handler was cancelled.
            cancelled = Retry("the handler was cancelled", code="cancelled")
            result = RELEASED if delivery.is_cancelled else self._decide(cancelled, delivery)
        except Exception as error:  # noqa: BLE001 a handler may raise anything, and the consumer continues
            result = self._decide(error, delivery)
        finally:
            delivery.result = result or RELEASED
            delivery.seconds = self._clock.monotonic() - delivery.started_at
            self._on_handled(delivery)

    def _on_handled(self, delivery: MessageDelivery) -> None:
        self._running.discard(delivery)
        if not delivery.is_lost:
            self._settlements.add(delivery)
            self._start_handlers()  # while the loop is busy storing results
        self._nudge()

    def _decide(self, error: Exception, delivery: MessageDelivery) -> DeliveryResult:
        return decide(error, delivery.leased.deliveries, self._policy, self._ids.fraction())

    def _decode_body(self, body: bytes) -> T:
        try:
            return self._decode(body)
        except Reject:
            raise
        except Exception as error:
            raise Reject(f"the message cannot be read: {error}", code="bad_message") from error

    async def _extend_leases(self) -> None:
        """Extend all leases, every third of a lease: two extensions may fail before one is lost."""
        if self._clock.monotonic() < self._extend_at:
            return
        deliveries = [*self._ready, *self._running, *self._settlements]
        now, seconds = self._clock.now(), self._policy.lease_seconds
        if deliveries:
            leased = [delivery.leased for delivery in deliveries]
            lost = await find_lost(deliveries, self._queues.extend(leased, seconds=seconds, now=now))
            for delivery in deliveries:
                if delivery in lost:
                    self._drop(delivery)
                else:
                    delivery.leased_until = now + seconds
        self._extend_at = self._clock.monotonic() + self._policy.lease_seconds / 3

    def _drop(self, delivery: MessageDelivery) -> None:
        """Another consumer has the message, or will."""
        if delivery.result is not None:
            return  # storing its result shows whether it still counts
        delivery.is_lost = True
        if delivery in self._ready:
            self._ready.remove(delivery)
        if delivery.task is not None:
            delivery.task.cancel()
        started_at = delivery.started_at
        seconds = self._clock.monotonic() - started_at if started_at else 0.0
        self._report(DeliveryEvent.LOST, delivery, seconds=seconds)

    async def _sleep(self) -> None:
        now = self._clock.monotonic()
        until = [LONGEST_WAIT_SECONDS, self._extend_at - now]
        if self._ready and not self._startable:
            until.append(self._gather_until - now)
        if self._next_due is not None:
            until.append(self._next_due - self._clock.now())
        if not await self._wait_for_nudge(min(until)):
            self._has_more = True  # the safety net: a message may have been sent with a delay

    @property
    def _longest_pause(self) -> float:
        # An outage shorter than a lease costs no lease: there is time left to extend them.
        return min(LONGEST_PAUSE_SECONDS, self._policy.lease_seconds / 3)

    async def _retry_while_away(self, work: Callable[[], Awaitable[None]]) -> None:
        for tries in count(1):
            try:
                await work()
            except Unavailable as error:
                self._report_trouble(str(error))
                if self._stopping:
                    return
                fraction, longest = self._ids.fraction(), self._longest_pause
                await self._pause(
                    backoff_seconds(tries, first=FIRST_PAUSE_SECONDS, longest=longest, fraction=fraction)
                )
            else:
                self._report_trouble(None)
                return

    async def _pause(self, seconds: float) -> None:
        """Wait the whole time, whatever ends meanwhile, or until we stop."""
        until = self._clock.monotonic() + seconds
        while not self._stopping and (left := until - self._clock.monotonic()) > 0:
            await self._wait_for_nudge(left)

    def _report_trouble(self, trouble: str | None) -> None:
        if (trouble is not None) != self._away:
            self._away = trouble is not None
            self._trouble(trouble)

    async def _finish(self, grace_seconds: float) -> None:
        while self._ready:
            delivery = self._ready.popleft()
            delivery.result = RELEASED
            self._settlements.add(delivery)
        until, cancelled = self._clock.monotonic() + grace_seconds, False
        while self._running or self._settlements:
            away = not await self._store_results()
            left = until - self._clock.monotonic()
            if left <= 0 and (cancelled or not self._running):
                return
            if left <= 0:
                cancelled, until = True, self._clock.monotonic() + CANCEL_SECONDS
                self._cancel_handlers()
            elif self._running or away:
                beat = FIRST_PAUSE_SECONDS if away else self._extend_at - self._clock.monotonic()
                await self._wait_for_nudge(min(left, beat))

    async def _store_results(self) -> bool:
        try:
            await self._settlements.settle()
            await self._extend_leases()
        except Unavailable as error:
            self._report_trouble(str(error))
            return False
        return True

    def _cancel_handlers(self) -> None:
        for delivery in self._running:
            delivery.is_cancelled = True
            if delivery.task is not None:
                delivery.task.cancel()

    async def _cancel_all(self) -> None:
        """Cancel everything that still runs; its leases run out by themselves."""
        self._stopping = True
        tasks = [delivery.task for delivery in self._running if delivery.task is not None]
        tasks += [] if self._wait_task is None else [self._wait_task]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CANCEL_SECONDS)
        self._wait_task = None

    def _report_result(self, event: DeliveryEvent, delivery: MessageDelivery, result: DeliveryResult) -> None:
        self._report(event, delivery, seconds=delivery.seconds, result=result)

    def _report(
        self,
        event: DeliveryEvent,
        delivery: MessageDelivery,
        *,
        seconds: float,
        result: DeliveryResult = DONE,
    ) -> None:
        if self._log is not None:
            self._log(delivery.log_entry(event, worker=self._worker, seconds=seconds, result=result))
