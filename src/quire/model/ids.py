"""Identifiers. Fresh ones come from an `Ids` that is handed in; derived ones are pure functions."""

import hashlib
from typing import NewType, Protocol

BatchId = NewType("BatchId", str)
TaskId = NewType("TaskId", str)

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


class Ids(Protocol):
    def ulid(self) -> str:
        """A fresh ULID: 26 characters, Crockford base 32, sorts by time of making."""
        ...

    def fraction(self) -> float:
        """A number in [0, 1): the chance in retry jitter."""
        ...


def task_id(prefix: str, batch_id: str, key: str) -> TaskId:
    """Stable over restarts, safe in URLs and machine names, and without collisions in practice."""
    digest = hashlib.sha256(f"{batch_id}\0{key}".encode()).hexdigest()
    return TaskId(f"{prefix}_{digest[:20]}")


def named_ulid(name: str) -> str:
    """The same name gives the same id, in the shape of a ULID.

    Used where an id must not change when work is repeated (asset ids), so that a run that was
    killed and resumed gives the same bytes as one that was not.
    """
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "big")
    return "".join(_CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5))
