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
from quire.model.objects import Found, Objects

T = TypeVar("T")


class Read(Struct, frozen=True):
    """Answered with `Found`, or None."""

    key: str


class Look(Struct, frozen=True):
    """Is it there? Answered with true or false."""

    key: str
    why: str = ""


class Create(Struct, frozen=True):
    """Only where there is none. Answered with the version, or None: refused, or nobody knows."""

    key: str
    body: bytes
    why: str = ""


class Swap(Struct, frozen=True):
    """Only where it is this version. Answered as `Create` is."""

    key: str
    body: bytes
    version: str
    why: str = ""


class Put(Struct, frozen=True):
    """Whatever is there: for markers alone. Answered with the version."""

    key: str
    body: bytes


class Delete(Struct, frozen=True):
    """In no order; those that are not there are no error."""

    keys: tuple[str, ...]


class Commit(Struct, frozen=True):
    """Store the result where there is none. Answered with whether that was done; if not, there is one, or
    nobody knows.
    """

    key: str
    why: str = "commit"


class Judge(Struct, frozen=True):
    """Has nobody written it for too long, by the store's own clock? Answered with true or false."""

    key: str


Ask: TypeAlias = Read | Look | Create | Swap | Put | Delete | Commit | Judge
Asking: TypeAlias = Generator[Ask, Any, T]


class Means(Struct, frozen=True, kw_only=True):
    """What it is carried out with. `result` is the archive that a commit stores."""

    objects: Objects
    stale_seconds: float = 0.0
    result: Path | None = None


async def perform(asking: Asking[T], means: Means) -> T:
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


async def _answer(ask: Ask, means: Means) -> Any:
    objects = means.objects
    answer: Any = None
    match ask:
        case Read(key):
            answer = await objects.read(key)
        case Look(key):
            answer = await objects.look(key) is not None
        case Create(key, body):
            answer = await objects.create(key, body)
        case Swap(key, body, version):
            answer = await objects.swap(key, body, version)
        case Put(key, body):
            answer = await objects.put(key, body)
        case Delete(keys):
            await objects.delete(keys)
        case Commit(key):
            answer = await _commit(key, means)
        case Judge(key):
            seen = await objects.look(key)
            answer = seen is not None and await objects.now() - seen.modified_at > means.stale_seconds
    return answer


async def _commit(key: str, means: Means) -> bool:
    if means.result is None:
        raise Bug("there is no result to commit")
    return await means.objects.create_file(key, means.result, content_type="application/zip")


def read(key: str) -> Asking[Found | None]:
    found: Found | None = yield Read(key)
    return found
