"""Where work waits: small messages, delivered at least once, never lost.

A lease is a loan: who does not acknowledge in time loses it, and the message comes back with its delivery
count raised. A dead letter stays, with its whole history, until a person acts.

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


class Message(Struct, frozen=True, kw_only=True):
    """`id` makes sending repeatable: the same id in the same queue is one message within the window.
    `priority` is 1 (first) to 5 (last); equal ones are delivered in the order they became due.
    """

    id: str
    body: bytes
    priority: int = NORMAL


class LeasedMessage(Struct, frozen=True, kw_only=True):
    """A message on loan. `token` proves the loan; `deliveries` counts this one too."""

    queue: str
    id: str
    body: bytes
    deliveries: int
    token: str
    priority: int = NORMAL
    sent_at: float = 0.0


class FailedDelivery(Struct, frozen=True, kw_only=True):
    """One delivery that came to nothing. `ending` is released, buried, expired, replayed."""

    delivery: int
    at: float
    ending: str
    worker: str = ""
    error_class: str = ""
    error: str = ""


class QueuedMessage(Struct, frozen=True, kw_only=True):
    """A message as it lies in its queue, for people: looking at it is no delivery."""

    queue: str
    id: str
    body: bytes
    priority: int
    deliveries: int
    sent_at: float
    due_at: float  # when it may be delivered, or the end of its lease
    leased_to: str | None = None  # the worker that has it


class DeadLetter(Struct, frozen=True, kw_only=True):
    """A message given up. `no` orders the dead of a queue by when they were buried."""

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


class DeadLetterFilter(Struct, frozen=True, kw_only=True):
    """Which dead letters are meant; all of the queue when nothing is said. `text` is looked for in reason, id
    and body (as UTF-8), without regard to case.
    """

    ids: Collection[str] | None = None
    error_class: str | None = None
    text: str | None = None


class QueueDepth(Struct, frozen=True, kw_only=True):
    """How much waits (due now), is delayed, is out on loan, is dead; `oldest_at` is when the oldest message
    that waits or is out was sent.
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
    RELEASED = "released"  # given back after an error: retries
    EXPIRED = "expired"  # delivered again because a lease ran out
    DEAD_LETTERED = "buried"
    REPLAYED = "replayed"
    DISCARDED = "discarded"


class MessageQueues(Protocol):
    """Messages go in and out."""

    async def send(
        self, queue: str, messages: Sequence[Message], *, now: float, delay_seconds: float = 0
    ) -> int:
        """How many were new. Durable when it returns; all of them or none. Ids known in the window are
        ignored. Raises Reject (`message_too_large`) for a message over 128 KiB: store the content and send a
        reference; Reject (`bad_message`) for a priority outside 1 to 5 or an id that is empty, longer than
        200 characters or has control characters.
        """
        ...

    async def lease(
        self, queue: str, *, limit: int, seconds: float, now: float, worker: str = ""
    ) -> list[LeasedMessage]:
        """Due messages by priority, then oldest first; also those whose lease ran out (noted as `expired` in
        their history). Never waits. Nobody else gets them before `seconds` have passed.
        """
        ...

    async def wait(self, queues: Collection[str], *, seconds: float) -> None:
        """Until something may have come into one of these queues, or the time is over. Woken by the backend;
        may return early. What is delayed or on loan does not wake anybody: see `next_due`.
        """
        ...

    async def next_due(self, queue: str, *, now: float) -> float | None:
        """When the earliest message that is delayed or on loan may be delivered; None: there is none."""
        ...

    async def extend(self, leased: Sequence[LeasedMessage], *, seconds: float, now: float) -> None:
        """Keep them longer, counted from `now`. Raises Lost, whose `ids` name those whose lease has run out
        or is somebody else's by now; the others are extended.
        """
        ...

    async def acknowledge(self, leased: Sequence[LeasedMessage], *, now: float) -> None:
        """Done with them for good. Raises Lost naming those whose lease is somebody else's by now (one that
        ran out but was given to nobody still counts); the others are acknowledged.
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
        """Give it back to be delivered again later. With `counted` false the delivery did not happen: for
        consumers that stop. Raises Lost when the lease is gone.
        """
        ...

    async def dead_letter(self, leased: LeasedMessage, *, now: float, reason: str, error_class: str = "") -> None:
        """Give it up: it becomes a dead letter with payload and history. Raises Lost when the lease is
        gone.
        """
        ...


class DeadLetters(Protocol):
    """What was given up, for people to work with. Nothing leaves by itself."""

    async def list_dead_letters(
        self, queue: str, *, chosen: DeadLetterFilter = DeadLetterFilter(), after: int = 0, limit: int
    ) -> list[DeadLetter]:
        """In order of burial, those after number `after`; with payload and history."""
        ...

    async def get_dead_letter(self, queue: str, message_id: str) -> DeadLetter:
        """Raises Missing."""
        ...

    async def count_dead_letters(self, queue: str) -> dict[str, int]:
        """How many of each error class, most first."""
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
        """Put at most `limit` of them back into their queue, oldest first; how many. History is kept and
        grows by an entry, deliveries start again from 0. With a rate they become due one after the other.
        """
        ...

    async def discard(
        self, queue: str, *, chosen: DeadLetterFilter = DeadLetterFilter(), now: float, limit: int
    ) -> int:
        """Delete at most `limit` of them for good; how many."""
        ...


class QueueOverview(Protocol):
    """Looking on, for people and for metrics."""

    async def names(self) -> list[str]:
        """Queues that have, or lately had, messages."""
        ...

    async def depth(self, queue: str, *, now: float) -> QueueDepth:
        """How much waits, is out, is dead."""
        ...

    async def peek(self, queue: str, *, limit: int, now: float) -> list[QueuedMessage]:
        """The next ones in the order of delivery, then those on loan. No delivery, no change."""
        ...

    async def counters(self, queue: str, *, since: float | None = None) -> dict[QueueCounter, int]:
        """What has happened since the beginning, or since a moment of the last hour (to the minute)."""
        ...

    async def purge(self, queue: str, *, now: float) -> int:
        """Delete everything that waits or is delayed; what is on loan and what is dead stays. How many."""
        ...

    async def sweep(self, *, now: float) -> int:
        """Forget ids whose window is over and counters older than an hour. How many ids."""
        ...


class QueueStore(MessageQueues, DeadLetters, QueueOverview, Protocol):
    """All doors of one backend."""
