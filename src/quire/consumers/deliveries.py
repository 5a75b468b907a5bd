"""A message that a consumer has leased, and the log entries about it."""

import asyncio
from collections.abc import Awaitable, Sequence
from enum import StrEnum

from msgspec import Struct

from quire.consumers.rules import DeliveryOutcome, DeliveryResult
from quire.model.errors import Lost, Unavailable
from quire.queues.port import LeasedMessage


class DeliveryEvent(StrEnum):
    """The names of log events."""

    RECEIVED = "message_received"
    DONE = "message_done"
    RETRIED = "message_retried"
    DEAD_LETTERED = "message_buried"
    RELEASED = "message_given_back"
    LOST = "lease_lost"
    UNCONFIRMED = "message_unconfirmed"


class DeliveryLogEntry(Struct, frozen=True, kw_only=True):
    """`seconds`: how long the handler ran; for `message_received` how long the message waited."""

    event: DeliveryEvent
    queue: str
    id: str
    delivery: int
    worker: str
    seconds: float
    error_class: str = ""
    error: str = ""


EVENT_OF = {
    DeliveryOutcome.DONE: DeliveryEvent.DONE,
    DeliveryOutcome.RETRIED: DeliveryEvent.RETRIED,
    DeliveryOutcome.DEAD_LETTERED: DeliveryEvent.DEAD_LETTERED,
    DeliveryOutcome.RELEASED: DeliveryEvent.RELEASED,
}


class MessageDelivery:
    """A leased message, from its lease to the moment its result is stored."""

    def __init__(self, leased: LeasedMessage, *, leased_until: float) -> None:
        self.leased = leased
        self.leased_until = leased_until  # by the clock that leases go by
        self.task: asyncio.Future[None] | None = None
        self.result: DeliveryResult | None = None
        self.started_at = 0.0
        self.seconds = 0.0
        self.is_lost = False
        self.is_cancelled = False  # by us: the consumer stops, and the grace is over
        self.is_unanswered = False  # we asked to store its result, and no answer came

    def log_entry(
        self, event: DeliveryEvent, *, worker: str, seconds: float, result: DeliveryResult
    ) -> DeliveryLogEntry:
        return DeliveryLogEntry(
            event=event,
            queue=self.leased.queue,
            id=self.leased.id,
            delivery=self.leased.deliveries,
            worker=worker,
            seconds=round(seconds, 6),
            error_class=result.error_class,
            error=result.error,
        )


async def find_lost(deliveries: Sequence[MessageDelivery], storing: Awaitable[None]) -> set[MessageDelivery]:
    """Those whose lease was gone; all of them where the backend names none."""
    try:
        await storing
    except Lost as lost:
        gone = set(lost.ids)
        return {one for one in deliveries if not gone or one.leased.id in gone}
    return set()


async def run_both(one: Awaitable[None], other: Awaitable[None]) -> None:
    """At the same time, each to its end. Raises an error in preference to Unavailable; where both failed, the
    first one's. Cancelling it cancels both and waits for them.
    """
    outcomes = await asyncio.gather(one, other, return_exceptions=True)
    errors = [outcome for outcome in outcomes if outcome is not None]
    if errors:
        raise min(errors, key=lambda error: isinstance(error, Unavailable))
