"""What becomes of a message after a delivery. Pure: chance is handed in.

Permanent errors (Reject, Misconfigured) bury it at once; everything else is taken for a passing fault and
tried again, until the policy's limit is reached. A database of ours that is away counts for nothing.
"""

from enum import StrEnum

from msgspec import Struct

from quire.model.errors import Misconfigured, QuireError, Reject, Retry, Unavailable
from quire.model.queues import QueuePolicy

# An error may carry a whole document; what is kept of it must stay small beside the message.
LONGEST_ERROR = 2000


class Fate(StrEnum):
    DONE = "done"
    AGAIN = "again"
    BURIED = "buried"
    GIVEN_BACK = "given_back"  # the delivery did not happen


class Ruling(Struct, frozen=True, kw_only=True):
    fate: Fate
    delay_seconds: float = 0.0
    error_class: str = ""
    error: str = ""


DONE = Ruling(fate=Fate.DONE)
GIVEN_BACK = Ruling(fate=Fate.GIVEN_BACK)


def ruled(error: Exception, deliveries: int, policy: QueuePolicy, fraction: float) -> Ruling:
    """After a handler raised `error` on this delivery."""
    known = error if isinstance(error, QuireError) else _surprise(error)
    text = str(known)[:LONGEST_ERROR]
    if isinstance(known, Unavailable):
        # Our own database is away, for every message alike: an hour of that must not bury them all.
        delay = policy.delay(deliveries, fraction)
        return Ruling(fate=Fate.GIVEN_BACK, delay_seconds=delay, error_class=known.code, error=text)
    if isinstance(known, Reject | Misconfigured) or deliveries >= policy.max_deliveries:
        return Ruling(fate=Fate.BURIED, error_class=known.code, error=text)
    asked = (known.delay_seconds or 0.0) if isinstance(known, Retry) else 0.0
    delay = max(asked, policy.delay(deliveries, fraction))
    return Ruling(fate=Fate.AGAIN, delay_seconds=delay, error_class=known.code, error=text)


def _surprise(error: Exception) -> Retry:
    return Retry(f"{type(error).__name__}: {error}", code="handler_error")


def overdue(deliveries: int, policy: QueuePolicy) -> Ruling | None:
    """For a message that comes again although its last delivery should have settled it: whoever had it died,
    or lost the lease, each time. It is not handed out once more.
    """
    if deliveries <= policy.max_deliveries:
        return None
    error = (
        f"delivered {deliveries - 1} times, and the last consumer neither finished nor gave up: it died, "
        "hung or lost its lease; look into its history, then replay or discard it"
    )
    return Ruling(fate=Fate.BURIED, error_class="too_many_deliveries", error=error)
