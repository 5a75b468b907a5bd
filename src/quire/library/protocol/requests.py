"""What the protocol asks of the store, one request at a time, as values.

The protocol is generators that yield these and are sent the answers. So the same code runs against a real
store (`perform`) and, request by request in every order, in the explorer of `quire.testing`. `why` names the
condition that a write stands for.
"""

from collections.abc import Generator
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

from quire.model.errors import Bug
from quire.model.objects import ObjectBody, Objects

T = TypeVar("T")


class ReadObject(Struct, frozen=True):
    """Answered with `ObjectBody`, or None."""

    key: str


class CheckExists(Struct, frozen=True):
    """Is it there? Answered with true or false."""

    key: str
    why: str = ""


class CreateObject(Struct, frozen=True):
    """Only where there is none. Answered with the version, or None: refused, or nobody knows."""

    key: str
    body: bytes
    why: str = ""


class SwapObject(Struct, frozen=True):
    """Only where it is this version. Answered as `CreateObject` is."""

    key: str
    body: bytes
    version: str
    why: str = ""


class PutObject(Struct, frozen=True):
    """Whatever is there: for markers alone. Answered with the version."""

    key: str
    body: bytes


class DeleteObjects(Struct, frozen=True):
    """In no order; those that are not there are no error."""

    keys: tuple[str, ...]


class CommitResult(Struct, frozen=True):
    """Store the result where there is none. Answered with whether that was done; if not, there is one, or
    nobody knows.
    """

    key: str
    why: str = "commit"


class CheckStale(Struct, frozen=True):
    """Has nobody written it for too long, by the store's own clock? Answered with true or false."""

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
    """What it is carried out with. `result` is the archive that a commit stores."""

    objects: Objects
    stale_seconds: float = 0.0
    result: Path | None = None


async def perform(asking: Operation[T], means: StoreAccess) -> T:
    """Carry it out. Raises Retry when the store cannot be reached: then what was asked may have happened, and
    who asked must take the job for lost or ask anew.
    """
    answer: Any = None
    while True:
        try:
            ask = asking.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result
        answer = await _answer(ask, means)


async def _answer(ask: StoreRequest, means: StoreAccess) -> Any:
    objects = means.objects
    answer: Any = None
    match ask:
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
            answer = await _commit(key, means)
        case CheckStale(key):
            seen = await objects.head(key)
            answer = seen is not None and await objects.now() - seen.modified_at > means.stale_seconds
    return answer


async def _commit(key: str, means: StoreAccess) -> bool:
    if means.result is None:
        raise Bug("there is no result to commit")
    return await means.objects.create_file(key, means.result, content_type="application/zip")


def read(key: str) -> Operation[ObjectBody | None]:
    found: ObjectBody | None = yield ReadObject(key)
    return found
