"""Where work waits: small messages, delivered at least once, never lost.

A lease is a loan: who does not acknowledge in time loses it, and the message comes back with its delivery
count raised. A buried message stays, with its reason, until a person acts.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

MAX_MESSAGE_BYTES = 128 * 1024


class Message(Struct, frozen=True, kw_only=True):
    """`id` makes sending repeatable: the same id in the same queue is one message."""

    id: str
    body: bytes


class Leased(Struct, frozen=True, kw_only=True):
    """A message on loan. `token` proves the loan; `deliveries` counts this one too."""

    queue: str
    id: str
    body: bytes
    deliveries: int
    token: str


class Queues(Protocol):
    async def send(
        self, queue: str, messages: Sequence[Message], *, now: float, delay_seconds: float = 0
    ) -> None:
        """Durable when it returns. Ids seen before are ignored. Raises Reject for a message over 128 KiB:
        store the content and send a reference.
        """
        ...

    async def lease(self, queue: str, *, limit: int, seconds: float, now: float) -> list[Leased]:
        """Due messages, oldest first; also those whose lease ran out. Never waits."""
        ...

    async def extend(self, leased: Leased, *, seconds: float, now: float) -> None:
        """Keep it longer. Raises Lost when the lease is somebody else's by now."""
        ...

    async def acknowledge(self, leased: Leased, *, now: float) -> None:
        """Done with it for good. Raises Lost when the lease is gone."""
        ...

    async def release(self, leased: Leased, *, now: float, delay_seconds: float, error: str) -> None:
        """Give it back to be delivered again later. Raises Lost when the lease is gone."""
        ...

    async def bury(self, leased: Leased, *, now: float, reason: str) -> None:
        """Give it up: it becomes a dead letter. Raises Lost when the lease is gone."""
        ...

    async def depth(self, queue: str, *, now: float) -> "Depth":
        """How much waits, is out, is dead."""
        ...


class Depth(Struct, frozen=True, kw_only=True):
    waiting: int
    leased: int
    dead: int
