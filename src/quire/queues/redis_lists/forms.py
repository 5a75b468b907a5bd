"""How a message stands in Redis: as its bytes in a plain list, or as an RQ job."""

from collections.abc import Sequence
from typing import Protocol

from quire.queues.port import Message

Value = str | bytes


class WireForm(Protocol):
    def to_stored(self, message: Message, *, now: float) -> Sequence[Value]:
        """What stands in the list, then the fields of its hash and their values, if it has one. Raises
        Reject.
        """
        ...

    def to_body(self, stored: bytes) -> bytes:
        """Raises Reject for what is no message; never runs anything."""
        ...


class PlainForm:
    def to_stored(self, message: Message, *, now: float) -> Sequence[Value]:  # noqa: ARG002
        return (message.body,)

    def to_body(self, stored: bytes) -> bytes:
        return stored
