"""Dead letters: found by their numbers, read from their states, given back or discarded one by one."""

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

from msgspec import Struct

from quire.model.errors import Missing
from quire.queues.bucket_store import records
from quire.queues.bucket_store.desk import Desk
from quire.queues.bucket_store.places import Places, number_of, segment
from quire.queues.bucket_store.reach import Kept
from quire.queues.bucket_store.records import Grave, Record, decode, letter_of
from quire.queues.checks import fit_id
from quire.queues.port import Chosen, DeadLetter, Happening
from quire.queues.rows import ids_of, mentions

_AT_ONCE = 100


class _Dead(Struct, frozen=True):
    letter: DeadLetter
    record: Record
    kept: Kept


class Graves:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def dead(self, queue: str, *, chosen: Chosen, after: int, limit: int) -> list[DeadLetter]:
        return [one.letter for one in await self._chosen(queue, chosen, after, limit)]

    async def dead_letter(self, queue: str, message_id: str) -> DeadLetter:
        found = None
        if fit_id(message_id):
            found = await self._read(queue, self._desk.places(queue), segment(message_id), None)
        if found is None:
            raise Missing(f"queue {queue} has no dead letter {message_id!r}; list those it has")
        return found.letter

    async def dead_classes(self, queue: str) -> dict[str, int]:
        counted: Counter[str] = Counter()
        async with aclosing(self._walk(queue, 0)) as dead:
            async for one in dead:
                counted[one.letter.error_class] += 1
        return dict(counted.most_common())

    async def replay(self, queue: str, *, chosen: Chosen, now: float, per_second: float, limit: int) -> int:
        desk, places = self._desk, self._desk.places(queue)
        found = await self._chosen(queue, chosen, 0, limit)
        order = desk.ids.ulid()

        async def back(place: int, dead: _Dead) -> bool:
            due_at = now + (place / per_second if per_second else 0)
            record = records.replayed(dead.record, order=f"{order}{place:07d}", now=now, due_at=due_at)
            return await self._moved(places, dead, record)

        calls = [partial(back, place, one) for place, one in enumerate(found)]
        replayed = sum(await desk.reach.every(calls))
        desk.count(queue, {Happening.REPLAYED: replayed}, now)
        if replayed:
            await desk.rung(queue)
        return replayed

    async def discard(self, queue: str, *, chosen: Chosen, now: float, limit: int) -> int:
        desk, places = self._desk, self._desk.places(queue)
        found = await self._chosen(queue, chosen, 0, limit)
        calls = [partial(self._moved, places, one, records.finished(one.record, now=now)) for one in found]
        discarded = sum(await desk.reach.every(calls))
        desk.count(queue, {Happening.DISCARDED: discarded}, now)
        return discarded

    async def _moved(self, places: Places, dead: _Dead, record: Record) -> bool:
        reach = self._desk.reach
        key = places.state(segment(record.id))
        written = await reach.written(key, record, dead.kept)
        if written is None or written.record is None:
            return False  # somebody else acts on it
        grave = places.grave(dead.letter.no)
        await reach.tidied(await reach.placed(places, written.record, instead_of=[grave]))
        return True

    async def _chosen(self, queue: str, chosen: Chosen, after: int, limit: int) -> list[_Dead]:
        ids = ids_of(chosen)
        if limit <= 0 or ids == []:
            return []
        chosen_ids = None if ids is None else frozenset(ids)
        found: list[_Dead] = []
        walk = self._walk(queue, after) if ids is None else self._named(queue, ids, after)
        async with aclosing(walk) as dead:
            async for one in dead:
                if _means(chosen, chosen_ids, one.letter):
                    found.append(one)
                    if len(found) == limit:
                        break
        return found

    async def _named(self, queue: str, ids: list[str], after: int) -> AsyncGenerator[_Dead, None]:
        places = self._desk.places(queue)
        calls = [partial(self._read, queue, places, segment(one), None) for one in ids]
        found = [one for one in await self._desk.reach.every(calls) if one is not None]
        for one in sorted(found, key=lambda dead: dead.letter.no):
            if one.letter.no > after:
                yield one

    async def _walk(self, queue: str, after: int) -> AsyncGenerator[_Dead, None]:
        """In order of their numbers, those after this one."""
        places = self._desk.places(queue)
        start = places.grave(after) if after > 0 else ""
        async with aclosing(self._desk.reach.pages(places.dead, after=start)) as pages:
            async for page in pages:
                numbers = [no for no in (number_of(seen.key) for seen in page) if no is not None]
                for at in range(0, len(numbers), _AT_ONCE):
                    calls = [partial(self._dig, queue, places, no) for no in numbers[at : at + _AT_ONCE]]
                    for one in await self._desk.reach.every(calls):
                        if one is not None:
                            yield one

    async def _dig(self, queue: str, places: Places, no: int) -> _Dead | None:
        found = await self._desk.reach.read(places.grave(no))
        grave = None if found is None else decode(found.body, Grave)
        return None if grave is None else await self._read(queue, places, grave.name, no)

    async def _read(self, queue: str, places: Places, name: str, no: int | None) -> _Dead | None:
        kept = await self._desk.reach.state(places, name)
        if kept is None or kept.record is None or kept.record.state != "dead":
            return None
        if no is not None and kept.record.no != no:
            return None  # of a burial that came to nothing
        return _Dead(letter_of(queue, kept.record), kept.record, kept)


def _means(chosen: Chosen, ids: frozenset[str] | None, letter: DeadLetter) -> bool:
    if ids is not None and letter.id not in ids:
        return False
    if chosen.error_class is not None and letter.error_class != chosen.error_class:
        return False
    return chosen.text is None or mentions(letter, chosen.text)
