"""Queues of small messages, delivered at least once, never lost.

A consumer that does not acknowledge a message in time loses its lease, and the message is delivered again
with its delivery count raised. A dead letter stays, with its whole history, until an operator acts.

Time is handed in: leases, delays and ages go by the caller's clock, in every adapter. Every writing method is
atomic and as durable as the adapter says when it returns; each may be repeated.
"""

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

MAX_MESSAGE_BYTES = 128 * 1024
# How long an id is remembered after its message was acknowledged or discarded.
DEDUPE_SECONDS = 24 * 3600.0
URGENT, NORMAL, LEAST = 1, 3, 5
# The error class of messages whose stored bytes have changed since they were sent.
DAMAGED = "damaged_message"


class Message(Struct, frozen=True, kw_only=True):
    """`id` makes sending repeatable: the same id in the same queue is one message within the window.
    `priority` is 1 (first) to 5 (last); equal ones are delivered in the order they became due.
    """

    id: str
    body: bytes
    priority: int = NORMAL


class LeasedMessage(Struct, frozen=True, kw_only=True):
    """`token` proves the lease; `deliveries` includes this delivery."""

    queue: str
    id: str
    body: bytes
    deliveries: int
    token: str
    priority: int = NORMAL
    sent_at: float = 0.0


class FailedDelivery(Struct, frozen=True, kw_only=True):
    """An entry in the history of a message. `ending` is released, buried, expired, replayed."""

    delivery: int
    at: float
    ending: str
    worker: str = ""
    error_class: str = ""
    error: str = ""


class QueuedMessage(Struct, frozen=True, kw_only=True):
    """A message in its queue, as operators see it: inspecting it is no delivery."""

    queue: str
    id: str
    body: bytes
    priority: int
    deliveries: int
    sent_at: float
    due_at: float  # when it may be delivered, or the end of its lease
    leased_to: str | None = None  # the worker that has leased it
    is_damaged: bool = False  # its bytes are not those that were sent; it will not be delivered


class DeadLetter(Struct, frozen=True, kw_only=True):
    """A message that was given up. `no` orders the dead letters of a queue by when that was."""

    no: int
    queue: str
    id: str
    body: bytes
    priority: int
    deliveries: int
    sent_at: float
    buried_at: float
    error_class: str
    reason: str
    history: tuple[FailedDelivery, ...] = ()
    is_damaged: bool = False  # its bytes are not those that were sent; replaying it does not deliver it


class DeadLetterFilter(Struct, frozen=True, kw_only=True):
    """Selects dead letters; all of the queue when no field is set. `text` is searched in reason, id and body
    (as UTF-8), ignoring case.
    """

    ids: Collection[str] | None = None
    error_class: str | None = None
    text: str | None = None


class QueueDepth(Struct, frozen=True, kw_only=True):
    """How many messages are waiting (due now), delayed, leased and dead; `oldest_at` is when the oldest one
    that is not dead was sent.
    """

    waiting: int
    leased: int
    dead: int
    delayed: int = 0
    oldest_at: float | None = None


class QueueCounter(StrEnum):
    """What a queue counts."""

    SENT = "sent"
    DELIVERED = "delivered"
    ACKNOWLEDGED = "acknowledged"
    RELEASED = "released"  # released after an error: retries
    EXPIRED = "expired"  # delivered again because a lease ran out
    DEAD_LETTERED = "buried"
    REPLAYED = "replayed"
    DISCARDED = "discarded"


class MessageQueues(Protocol):
    """Send, lease and settle messages."""

    async def send(
        self, queue: str, messages: Sequence[Message], *, now: float, delay_seconds: float = 0
    ) -> int:
        """Returns how many were new. Durable when it returns; all of them or none. Ids known in the window
        are ignored. Raises Reject (`message_too_large`) for a message over 128 KiB: store the content and
        send a reference; Reject (`bad_message`) for a priority outside 1 to 5 or an id that is empty, longer
        than 200 characters or has control characters.
        """
        ...

    async def lease(
        self, queue: str, *, limit: int, seconds: float, now: float, worker: str = ""
    ) -> list[LeasedMessage]:
        """Due messages by priority, then oldest first; also those whose lease ran out (recorded as `expired`
        in their history). Never waits. No other consumer gets them before `seconds` have passed. A message
        whose stored bytes are not those that were sent is not among them: it becomes a dead letter with the
        error class `damaged_message`.
        """
        ...

    async def wait(self, queues: Collection[str], *, seconds: float) -> None:
        """Until a message may have arrived in one of these queues, or the time is over. Woken by the backend;
        may return early. Delayed and leased messages that become due wake nobody: see `next_due`.
        """
        ...

    async def next_due(self, queue: str, *, now: float) -> float | None:
        """When the earliest delayed or leased message may be delivered; None: there is none."""
        ...

    async def extend(self, leased: Sequence[LeasedMessage], *, seconds: float, now: float) -> None:
        """Extend the leases, counted from `now`. Raises Lost, whose `ids` name the messages whose lease has
        run out or belongs to another consumer by now; the others are extended.
        """
        ...

    async def acknowledge(self, leased: Sequence[LeasedMessage], *, now: float) -> None:
        """Remove them for good. Raises Lost naming the messages whose lease belongs to another consumer by
        now (a lease that ran out but went to nobody still counts); the others are acknowledged.
        """
        ...

    async def release(
        self,
        leased: LeasedMessage,
        *,
        now: float,
        delay_seconds: float = 0,
        error_class: str = "",
        error: str = "",
        counted: bool = True,
    ) -> None:
        """Return it to the queue, to be delivered again later. With `counted` false the delivery is not
        counted: for consumers that stop. Raises Lost when the lease is gone.
        """
        ...

    async def dead_letter(
        self, leased: LeasedMessage, *, now: float, reason: str, error_class: str = ""
    ) -> None:
        """Give the message up: it becomes a dead letter with payload and history. Raises Lost when the lease
        is gone.
        """
        ...


class DeadLetters(Protocol):
    """Messages that were given up, for operators. None leaves by itself."""

    async def list_dead_letters(
        self, queue: str, *, chosen: DeadLetterFilter = DeadLetterFilter(), after: int = 0, limit: int
    ) -> list[DeadLetter]:
        """In order of their number, those after `after`; with payload and history."""
        ...

    async def get_dead_letter(self, queue: str, message_id: str) -> DeadLetter:
        """Raises Missing."""
        ...

    async def count_dead_letters(self, queue: str) -> dict[str, int]:
        """How many of each error class, the most frequent first."""
        ...

    async def replay(
        self,
        queue: str,
        *,
        chosen: DeadLetterFilter = DeadLetterFilter(),
        now: float,
        per_second: float = 0,
        limit: int,
    ) -> int:
        """Put at most `limit` of them back into their queue, oldest first; returns how many. The history is
        kept and grows by an entry, deliveries start again from 0. With a rate they become due one after the
        other.
        """
        ...

    async def discard(
        self, queue: str, *, chosen: DeadLetterFilter = DeadLetterFilter(), now: float, limit: int
    ) -> int:
        """Delete at most `limit` of them for good; returns how many."""
        ...


class QueueOverview(Protocol):
    """Inspection and clean-up, for operators and metrics."""

    async def names(self) -> list[str]:
        """Queues that have, or recently had, messages."""
        ...

    async def depth(self, queue: str, *, now: float) -> QueueDepth:
        """How many messages are in each state."""
        ...

    async def peek(self, queue: str, *, limit: int, now: float) -> list[QueuedMessage]:
        """The next messages in the order of delivery, then those that are leased. No delivery, no change."""
        ...

    async def counters(self, queue: str, *, since: float | None = None) -> dict[QueueCounter, int]:
        """The counters since the beginning, or since a moment of the last hour (to the minute)."""
        ...

    async def purge(self, queue: str, *, now: float) -> int:
        """Delete waiting and delayed messages; leased ones and dead letters stay. Returns how many."""
        ...

    async def sweep(self, *, now: float) -> int:
        """Forget ids whose window is over and counters older than an hour. Returns how many ids."""
        ...


class QueueStore(MessageQueues, DeadLetters, QueueOverview, Protocol):
    """Every port of one queue backend in one object."""
