"""The checksum that every message is stored with, and what happens to a message that no longer has it.

Promise: a message of which a stored byte has changed is never delivered. It becomes a dead letter of the
class `damaged_message`, which keeps the bytes as they are. Messages of earlier versions have no checksum and
are delivered as before. Must not know: databases, servers, what is in a body.
"""

import struct
from collections.abc import Awaitable, Callable
from typing import Any, Protocol
from zlib import crc32

from quire.queues.port import DAMAGED, LeasedMessage

REASON = (
    "the stored bytes of this message are not those that were sent (a fault of a disk or of memory), so it "
    "was not delivered; send it again under another id and discard this dead letter: replaying it does not "
    "help"
)
# Instead of a checksum: the message was sent by a version that stored none.
UNCHECKED = -1

# In front of a body where a message has no column for its checksum. No text has such bytes: a body without
# them was sent by an earlier version, one with nearly these is damaged.
_MARK = bytes.fromhex("f5c1fe96ffa9fbd1")
_NEARLY_BITS = 8
_SEAL = struct.Struct(">8sI")


class DamagedMessage(LeasedMessage, frozen=True, kw_only=True):
    """A message that was leased only to be given up."""


class _Burying(Protocol):
    async def dead_letter(
        self, leased: LeasedMessage, *, now: float, reason: str, error_class: str = ""
    ) -> None: ...


def compute_checksum(queue: str, message_id: str, priority: int, sent_at: float, body: bytes) -> int:
    """Of all that was given when the message was sent. What it goes through later is not part of it."""
    names = f"{queue}\0{message_id}".encode("utf-8", "surrogatepass")
    return crc32(body, crc32(struct.pack(">qd", priority, sent_at), crc32(names)))


def is_intact(
    queue: str, message_id: Any, priority: Any, sent_at: Any, body: Any, checksum: int | None
) -> bool:
    """Whether this is what was sent. The values may be of any type: a damaged row can hold anything."""
    if checksum == UNCHECKED:
        return True
    try:
        return compute_checksum(queue, message_id, priority, sent_at, body) == checksum
    except (TypeError, ValueError, struct.error):
        return False


def check_leased(leased: LeasedMessage, checksum: int | None) -> LeasedMessage:
    """The same, as DamagedMessage if it is not what was sent."""
    one = leased
    if is_intact(one.queue, one.id, one.priority, one.sent_at, one.body, checksum):
        return leased
    return DamagedMessage(
        queue=one.queue,
        id=one.id,
        body=one.body,
        deliveries=one.deliveries,
        token=one.token,
        priority=one.priority,
        sent_at=one.sent_at,
    )


async def lease_intact(
    lease: Callable[[int], Awaitable[list[LeasedMessage]]], queues: _Burying, *, limit: int, now: float
) -> list[LeasedMessage]:
    """At most `limit`. Damaged ones become dead letters, and others are leased in their place."""
    intact: list[LeasedMessage] = []
    while True:
        wanted = limit - len(intact)
        found = await lease(wanted)
        damaged = [one for one in found if isinstance(one, DamagedMessage)]
        for one in damaged:
            await queues.dead_letter(one, now=now, reason=REASON, error_class=DAMAGED)
        intact += [one for one in found if not isinstance(one, DamagedMessage)] if damaged else found
        # Ends: each further round has buried at least one.
        if not damaged or len(found) < wanted:
            return intact


def seal(body: bytes, checksum: int) -> bytes:
    """The body with its checksum in front, for adapters that store one value."""
    return _SEAL.pack(_MARK, checksum) + body


def unseal(stored: bytes) -> tuple[bytes, int | None]:
    """Body and checksum. No checksum: the seal is damaged, and the stored bytes are returned as they are."""
    mark = stored[: len(_MARK)]
    if mark == _MARK and len(stored) >= _SEAL.size:
        return stored[_SEAL.size :], _SEAL.unpack_from(stored)[1]
    differing = int.from_bytes(mark, "big") ^ int.from_bytes(_MARK, "big")
    if len(mark) == len(_MARK) and differing.bit_count() <= _NEARLY_BITS:
        return stored, None
    return stored, UNCHECKED
