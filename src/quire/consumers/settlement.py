"""Stores the results of deliveries: acknowledges, releases or dead-letters each message.

Promises: a result whose storing was not answered stays and is stored again; each result is reported once. It
may run while the consumer leases more messages. Must not know: leasing and handlers.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence

from quire.consumers.deliveries import EVENT_OF, DeliveryEvent, MessageDelivery, find_lost
from quire.consumers.rules import DONE, RELEASED, DeliveryOutcome, DeliveryResult
from quire.model.clock import Clock
from quire.model.errors import Unavailable
from quire.queues.port import MessageQueues


class Settlements:
    def __init__(
        self,
        queues: MessageQueues,
        clock: Clock,
        *,
        report: Callable[[DeliveryEvent, MessageDelivery, DeliveryResult], None],
        on_release: Callable[[], None],
    ) -> None:
        """`on_release` is called after a release: the message may be due at once, or before anything else."""
        self._queues = queues
        self._clock = clock
        self._report = report
        self._on_release = on_release
        self._waiting: dict[MessageDelivery, None] = {}
        self._storing: dict[MessageDelivery, None] = {}

    def __iter__(self) -> Iterator[MessageDelivery]:
        yield from self._storing
        yield from self._waiting

    def __len__(self) -> int:
        return len(self._storing) + len(self._waiting)

    @property
    def waiting(self) -> int:
        """How many are not being stored yet."""
        return len(self._waiting)

    def add(self, delivery: MessageDelivery) -> None:
        self._waiting[delivery] = None

    async def settle(self) -> None:
        """Store all results that are there now. Raises Unavailable; then the rest waits for the next call."""
        self._storing, self._waiting = self._waiting, {}
        try:
            done = [one for one in self._storing if one.result is DONE]
            if done:
                leased = [one.leased for one in done]
                await self._await_stored(done, self._queues.acknowledge(leased, now=self._clock.now()))
            for one in list(self._storing):
                await self._await_stored([one], self._store(one, one.result or RELEASED))
        finally:
            self._waiting, self._storing = self._storing | self._waiting, {}

    async def _await_stored(self, deliveries: Sequence[MessageDelivery], storing: Awaitable[None]) -> None:
        try:
            lost = await find_lost(deliveries, storing)
        except Unavailable:
            for one in deliveries:
                one.is_unanswered = True
            raise
        for one in deliveries:
            del self._storing[one]
            result = one.result or RELEASED
            event = EVENT_OF[result.outcome]
            if one in lost:
                # Where an earlier answer was lost, our own storing may have ended the lease.
                event = DeliveryEvent.UNCONFIRMED if one.is_unanswered else DeliveryEvent.LOST
            self._report(event, one, result)

    async def _store(self, delivery: MessageDelivery, result: DeliveryResult) -> None:
        now = self._clock.now()
        if result.outcome is DeliveryOutcome.DEAD_LETTERED:
            await self._queues.dead_letter(
                delivery.leased, now=now, reason=result.error, error_class=result.error_class
            )
            return
        try:
            await self._queues.release(
                delivery.leased,
                now=now,
                delay_seconds=result.delay_seconds,
                error_class=result.error_class,
                error=result.error,
                counted=result.outcome is not DeliveryOutcome.RELEASED,
            )
        finally:
            self._on_release()
