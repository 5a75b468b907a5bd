"""The store within reach of the queues: states written under conditions, hints put right, many at a time.

Promises: a state is written only as it was read, and who is refused looks whether it was its own write; a
store that cannot be reached is Unavailable; not more requests at once than the store is meant to bear.
Hints that could not be written are left as they were: whoever meets one puts it right.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from typing import TypeVar

from msgspec import Struct, structs

from quire.model.errors import Retry, Stale, Unavailable
from quire.model.ids import Ids
from quire.model.objects import Found, Objects, Seen
from quire.queues.bucket_store.places import Hint, Places, hint_of
from quire.queues.bucket_store.records import Record, decode, encode, place_of

T = TypeVar("T")
PAGE = 1000
AT_ONCE = 32


class Kept(Struct, frozen=True):
    """A state as it was read. Without a record it is unreadable: a later version's, perhaps."""

    record: Record | None
    version: str


class Reach:
    def __init__(self, objects: Objects, ids: Ids) -> None:
        self._objects = objects
        self._ids = ids
        self._room = asyncio.Semaphore(AT_ONCE)

    async def read(self, key: str) -> Found | None:
        with _edge():
            return await self._objects.read(key)

    async def look(self, key: str) -> Seen | None:
        with _edge():
            return await self._objects.look(key)

    async def put(self, key: str, body: bytes = b"") -> None:
        with _edge():
            await self._objects.put(key, body)

    async def create(self, key: str, body: bytes) -> str | None:
        """`body` must hold something that no other has: a refusal may be about our own success."""
        with _edge():
            version = await self._objects.create(key, body)
            return version if version is not None else await self._own(key, body)

    async def swap(self, key: str, body: bytes, version: str) -> str | None:
        with _edge():
            written = await self._objects.swap(key, body, version)
            return written if written is not None else await self._own(key, body)

    async def delete(self, keys: Collection[str]) -> None:
        left = list(keys)
        with _edge():
            for at in range(0, len(left), PAGE):
                await self._objects.delete(left[at : at + PAGE])

    async def now(self) -> float:
        with _edge():
            return await self._objects.now()

    async def pages(self, folder: str, *, after: str = "") -> AsyncGenerator[list[Seen], None]:
        with _edge():
            async for page in self._objects.pages(folder, after=after):
                yield page

    async def state(self, places: Places, name: str) -> Kept | None:
        found = await self.read(places.state(name))
        return None if found is None else Kept(decode(found.body, Record), found.version)

    async def written(self, key: str, record: Record, before: Kept | None) -> Kept | None:
        """The record as it stands now; None: somebody was faster."""
        record = structs.replace(record, nonce=self._ids.ulid())
        body = encode(record)
        if before is None:
            version = await self.create(key, body)
        else:
            version = await self.swap(key, body, before.version)
        return None if version is None else Kept(record, version)

    async def placed(self, places: Places, record: Record, *, instead_of: Sequence[str] = ()) -> list[str]:
        """Write the hint of a record; the others of it that may go then. Never raises: the old hint is
        enough to find the message again.
        """
        place = place_of(record, places)
        try:
            if place is not None and record.state != "dead":  # that one was there before the state
                await self.put(place)
        except Retry:
            return []
        return [key for key in instead_of if key != place]

    async def tidied(self, keys: Iterable[str]) -> None:
        """Delete hints that are wrong. Never raises: they stay wrong."""
        with suppress(Retry):
            await self.delete(list(keys))

    async def many(self, calls: Iterable[Callable[[], Awaitable[T]]]) -> list[T | BaseException]:
        """All of them, some at a time, in their order."""

        async def one(call: Callable[[], Awaitable[T]]) -> T:
            async with self._room:
                return await call()

        return await asyncio.gather(*(one(call) for call in calls), return_exceptions=True)

    async def every(self, calls: Iterable[Callable[[], Awaitable[T]]]) -> list[T]:
        """All of them; raises when all have ended and one of them failed."""
        answers = await self.many(calls)
        return [raised(answer) for answer in answers]

    async def hints(self, places: Places) -> AsyncGenerator[list[Hint], None]:
        """All hints of what lives, in the order of delivery within each priority."""
        async with aclosing(self.pages(places.due)) as pages:
            async for page in pages:
                yield parsed(page)

    async def due(self, places: Places, now: float) -> AsyncGenerator[list[Hint], None]:
        """What may be delivered, in order, a page at a time. One request where the queue is short; else what
        is delayed or out is jumped over.
        """
        first, whole = await self.glance(places.due)
        hints = parsed(first)
        yield [hint for hint in hints if hint.due_at <= now]
        if whole:
            return
        last = hints[-1] if hints else None
        for tier in range(1 if last is None else last.tier, 6):
            here = last if last is not None and last.tier == tier else None
            if here is not None and here.due_at > now:
                continue
            async with aclosing(self.pages(places.tier(tier), after=here.key if here else "")) as pages:
                async for page in pages:
                    found = parsed(page)
                    yield [hint for hint in found if hint.due_at <= now]
                    if found and found[-1].due_at > now:
                        break

    async def glance(self, folder: str, *, after: str = "") -> tuple[list[Seen], bool]:
        """The first page, and whether that is all."""
        async with aclosing(self.pages(folder, after=after)) as pages:
            first = await anext(pages, None)
            if first is None:
                return [], True
            return first, len(first) < PAGE and await anext(pages, None) is None

    async def _own(self, key: str, body: bytes) -> str | None:
        found = await self._objects.read(key)
        return found.version if found is not None and found.body == body else None


def parsed(page: list[Seen]) -> list[Hint]:
    hints = (hint_of(seen.key, seen.modified_at) for seen in page)
    return [hint for hint in hints if hint is not None]


def raised(answer: T | BaseException) -> T:
    if isinstance(answer, BaseException):
        raise answer
    return answer


@contextmanager
def _edge() -> Iterator[None]:
    try:
        yield
    except Unavailable:
        raise
    except (Retry, Stale) as error:
        raise Unavailable(f"the object store of the queues did not answer: {error}") from error
