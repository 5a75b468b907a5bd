"""Requests of the protocol to the store, one at a time, as values.

The protocol consists of generators (`Operation`) that yield requests and are sent the answers. So the same
code runs against a real store (`perform`) and, request by request in every order, in the explorer of
`tests/simulation/library`. `why` names the condition that a write stands for.
"""

from collections.abc import Generator
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

from quire.model.errors import Bug
from quire.model.objects import ObjectBody, Objects

T = TypeVar("T")


class ReadObject(Struct, frozen=True):
    """Answer: an `ObjectBody`, or None."""

    key: str


class CheckExists(Struct, frozen=True):
    """Answer: whether the object exists."""

    key: str
    why: str = ""


class CreateObject(Struct, frozen=True):
    """Create the object if there is none. Answer: its version, or None if it was refused or nobody knows."""

    key: str
    body: bytes
    why: str = ""


class SwapObject(Struct, frozen=True):
    """Replace the object if it has this version. Answer: as for `CreateObject`."""

    key: str
    body: bytes
    version: str
    why: str = ""


class PutObject(Struct, frozen=True):
    """Write the object without a condition: for markers only. Answer: its version."""

    key: str
    body: bytes


class DeleteObjects(Struct, frozen=True):
    """Delete the objects in no particular order; missing ones are no error."""

    keys: tuple[str, ...]


class CommitResult(Struct, frozen=True):
    """Store the result if there is none. Answer: whether it was stored; if not, there is one, or nobody
    knows.
    """

    key: str
    why: str = "commit"


class CheckStale(Struct, frozen=True):
    """Answer: whether the object was not written for too long, by the store's own clock."""

    key: str


StoreRequest: TypeAlias = (
    ReadObject
    | CheckExists
    | CreateObject
    | SwapObject
    | PutObject
    | DeleteObjects
    | CommitResult
    | CheckStale
)
Operation: TypeAlias = Generator[StoreRequest, Any, T]


class StoreAccess(Struct, frozen=True, kw_only=True):
    """What `perform` needs. `result` is the archive that a commit stores."""

    objects: Objects
    stale_seconds: float = 0.0
    result: Path | None = None


async def perform(operation: Operation[T], access: StoreAccess) -> T:
    """Carry out an operation. Raises Retry when the store cannot be reached: the last request may have taken
    effect then, and the caller must consider the job lost or start over.
    """
    answer: Any = None
    while True:
        try:
            request = operation.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result
        answer = await _answer(request, access)


async def _answer(request: StoreRequest, access: StoreAccess) -> Any:
    objects = access.objects
    answer: Any = None
    match request:
        case ReadObject(key):
            answer = await objects.read(key)
        case CheckExists(key):
            answer = await objects.head(key) is not None
        case CreateObject(key, body):
            answer = await objects.create(key, body)
        case SwapObject(key, body, version):
            answer = await objects.swap(key, body, version)
        case PutObject(key, body):
            answer = await objects.put(key, body)
        case DeleteObjects(keys):
            await objects.delete(keys)
        case CommitResult(key):
            answer = await _commit(key, access)
        case CheckStale(key):
            seen = await objects.head(key)
            answer = seen is not None and await objects.now() - seen.modified_at > access.stale_seconds
    return answer


async def _commit(key: str, access: StoreAccess) -> bool:
    if access.result is None:
        raise Bug("there is no result to commit")
    return await access.objects.create_file(key, access.result, content_type="application/zip")


def read(key: str) -> Operation[ObjectBody | None]:
    found: ObjectBody | None = yield ReadObject(key)
    return found
