"""What is done with a message after a delivery. Pure: chance is handed in.

A permanent error (Reject, Misconfigured) makes it a dead letter at once. Any other error is taken for a
passing fault: the message is delivered again until the limit of the policy. When a database of ours is away,
the delivery does not count.
"""

from enum import StrEnum

from msgspec import Struct

from quire.model.errors import Misconfigured, QuireError, Reject, Retry, Unavailable
from quire.model.queues import QueuePolicy

# An error may carry a whole document; its stored text must stay small beside the message.
LONGEST_ERROR = 2000


class DeliveryOutcome(StrEnum):
    DONE = "done"
    RETRIED = "retried"
    DEAD_LETTERED = "dead_lettered"
    RELEASED = "released"  # as if the delivery had not happened


class DeliveryResult(Struct, frozen=True, kw_only=True):
    outcome: DeliveryOutcome
    delay_seconds: float = 0.0
    error_class: str = ""
    error: str = ""


DONE = DeliveryResult(outcome=DeliveryOutcome.DONE)
RELEASED = DeliveryResult(outcome=DeliveryOutcome.RELEASED)


def decide(error: Exception, deliveries: int, policy: QueuePolicy, fraction: float) -> DeliveryResult:
    """The result of a delivery, the last of `deliveries`, whose handler raised `error`."""
    known = error if isinstance(error, QuireError) else _unexpected(error)
    text = str(known)[:LONGEST_ERROR]
    redelivery = policy.redelivery
    if isinstance(known, Unavailable):
        # Our own database is away, for every message alike: an hour of that must not use up their deliveries.
        outcome, delay = DeliveryOutcome.RELEASED, redelivery.delay_seconds(deliveries, fraction)
        return DeliveryResult(outcome=outcome, delay_seconds=delay, error_class=known.code, error=text)
    next_delay = redelivery.next_delay_seconds(
        deliveries,
        fraction,
        is_permanent=isinstance(known, Reject | Misconfigured),
        requested_seconds=(known.delay_seconds or 0.0) if isinstance(known, Retry) else 0.0,
    )
    if next_delay is None:
        outcome = DeliveryOutcome.DEAD_LETTERED
        return DeliveryResult(outcome=outcome, error_class=known.code, error=text)
    outcome = DeliveryOutcome.RETRIED
    return DeliveryResult(outcome=outcome, delay_seconds=next_delay, error_class=known.code, error=text)


def _unexpected(error: Exception) -> Retry:
    return Retry(f"{type(error).__name__}: {error}", code="handler_error")


def check_deliveries(deliveries: int, policy: QueuePolicy) -> DeliveryResult | None:
    """The result of a message that comes again although its last delivery should have settled it: each
    consumer that had it died or lost the lease. No handler gets it once more. None: it is within the limit.
    """
    if deliveries <= policy.max_deliveries:
        return None
    error = (
        f"delivered {deliveries - 1} times, and the last consumer neither finished nor gave up: it died, "
        "hung or lost its lease; look into its history, then replay or discard it"
    )
    outcome = DeliveryOutcome.DEAD_LETTERED
    return DeliveryResult(outcome=outcome, error_class="too_many_deliveries", error=error)
