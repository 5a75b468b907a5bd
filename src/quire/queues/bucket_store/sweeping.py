"""Sweeping: ids are forgotten, sendings settled, numbers without a dead letter removed, counters folded.

An id is forgotten in two steps: its state is swapped to `closed`, so that nobody takes it up again, and then
deleted. Deletion has no condition in every store; a `closed` one may be used again only when no deletion can
be under way any more, which the store's own clock tells (`GRACE_SECONDS`).
"""

import asyncio
import math
from collections.abc import Callable
from contextlib import aclosing
from functools import partial

from msgspec import Struct

from quire.queues.bucket_store import records
from quire.queues.bucket_store.desk import Desk
from quire.queues.bucket_store.places import Places, number_of, tombstone_of
from quire.queues.bucket_store.reach import Kept
from quire.queues.bucket_store.records import Grave, Record, Sending, decode, place_of, settled
from quire.queues.bucket_store.sending import GRACE_SECONDS, abort

_AT_ONCE = 500
# A dead letter stays as it is for long: its number is looked into this often, and no more.
_GRAVE_SECONDS = 3600.0
_MOST_GRAVES = 100_000


class _Closed(Struct, frozen=True):
    """What came of one tombstone. `state` may be deleted, `hint` too."""

    state: str = ""
    hint: str = ""
    counted: bool = False


class Sweeper:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._right: dict[str, float] = {}  # graves, and when they were last found right

    async def sweep(self, queue: str, *, now: float) -> int:
        """How many ids were forgotten."""
        places = self._desk.places(queue)
        await self._settle_sendings(places, now)
        await self._mend_graves(places)
        forgotten = await self._forget(places, now)
        await self._desk.counting.fold(queue, now)
        return forgotten

    async def _forget(self, places: Places, now: float) -> int:
        forgotten = 0
        async with aclosing(self._desk.reach.pages(places.done)) as pages:
            async for page in pages:
                over = []
                for seen in page:
                    told = tombstone_of(seen.key)
                    if told is not None and told[0] <= now:
                        over.append((seen.key, told[1]))
                for at in range(0, len(over), _AT_ONCE):
                    forgotten += await self._delete(places, over[at : at + _AT_ONCE])
                if len(over) < len(page):
                    break  # they are in order: the rest is for later
        return forgotten

    async def _delete(self, places: Places, tombstones: list[tuple[str, str]]) -> int:
        reach, seconds = self._desk.reach, asyncio.get_running_loop().time
        began = seconds()
        calls = [partial(self._close, places, hint, name) for hint, name in tombstones]
        closed = await reach.every(calls)
        if seconds() - began > GRACE_SECONDS / 2:
            return 0  # too late to delete anything: others may take them for theirs; the next sweep does it
        await reach.delete([one.state for one in closed if one.state])
        await reach.delete([one.hint for one in closed if one.hint])
        return sum(one.counted for one in closed)

    async def _close(self, places: Places, hint: str, name: str) -> _Closed:
        reach, key = self._desk.reach, places.state(name)
        kept = await reach.state(places, name)
        if kept is None:
            return _Closed(hint=hint)
        record = kept.record
        if record is None or (record.state == "closed" and await self._under_way(key)):
            return _Closed()
        if record.state == "pending":
            return _Closed(hint=hint)  # a later incarnation
        if record.state != "closed" and place_of(record, places) != hint:
            wrong = await reach.placed(places, record, instead_of=[hint])
            return _Closed(hint=wrong[0] if wrong else "")
        written = await reach.written(key, records.closed(record), kept)
        if written is None:
            return _Closed()
        return _Closed(state=key, hint=hint, counted=record.state == "done")

    async def _under_way(self, key: str) -> bool:
        """Whether somebody may still be about to delete it."""
        seen = await self._desk.reach.look(key)
        return seen is None or await self._desk.reach.now() - seen.modified_at <= GRACE_SECONDS

    async def _settle_sendings(self, places: Places, now: float) -> None:
        reach = self._desk.reach
        seen = [one async for page in reach.pages(places.sends) for one in page]
        if not seen:
            return
        today = await reach.now()
        for one in seen:
            if today - one.modified_at > GRACE_SECONDS:
                await self._settle(places, one.key.rpartition("/")[2], now)

    async def _settle(self, places: Places, send: str, now: float) -> None:
        reach = self._desk.reach
        await abort(self._desk, places, send)
        found = await reach.read(places.send(send))
        sending = None if found is None else decode(found.body, Sending)
        if sending is None or sending.state == "open":
            return

        def change(record: Record) -> Record:
            if sending.state == "committed":
                return settled(record)
            return records.forgotten(record, now=now)

        done = await reach.every(
            partial(self._settle_one, places, name, send, change) for name in sending.names
        )
        if all(done):
            await reach.delete([places.send(send)])

    async def _settle_one(
        self, places: Places, name: str, send: str, change: Callable[[Record], Record]
    ) -> bool:
        """Whether nothing of it refers to the sending any more."""
        reach = self._desk.reach
        kept = await reach.state(places, name)
        if kept is None or not _belongs(kept, send) or kept.record is None:
            return True
        changed = change(kept.record)
        place = place_of(changed, places)
        if place is not None:
            await reach.put(place)  # before: it is the only thing by which it is found
        return await reach.written(places.state(name), changed, kept) is not None

    async def _mend_graves(self, places: Places) -> None:
        """Numbers whose message is not dead, or has another one: of burials and replays that broke off."""
        reach, moment = self._desk.reach, asyncio.get_running_loop().time()
        wrong: list[tuple[str, float, Record | None]] = []
        if len(self._right) > _MOST_GRAVES:
            self._right.clear()
        async with aclosing(reach.pages(places.dead)) as pages:
            async for page in pages:
                due = [one for one in page if moment - self._right.get(one.key, -math.inf) > _GRAVE_SECONDS]
                answers = await reach.every(partial(self._grave, places, seen.key) for seen in due)
                for seen, answer in zip(due, answers, strict=True):
                    if answer is None:
                        self._right[seen.key] = moment
                    else:
                        wrong.append((seen.key, seen.modified_at, answer[0]))
        if not wrong:
            return
        today = await reach.now()
        for key, modified_at, record in wrong:
            if today - modified_at > GRACE_SECONDS:
                keys = [key] if record is None else await reach.placed(places, record, instead_of=[key])
                await reach.tidied(keys)

    async def _grave(self, places: Places, key: str) -> tuple[Record | None] | None:
        """None: it is right, or not ours to judge; else the record as it is."""
        no = number_of(key)
        found = None if no is None else await self._desk.reach.read(key)
        grave = None if found is None else decode(found.body, Grave)
        if grave is None:
            return None
        kept = await self._desk.reach.state(places, grave.name)
        if kept is None:
            return (None,)
        record = kept.record
        right = record is None or (record.state == "dead" and record.no == no)
        return None if right or (record is not None and record.state == "pending") else (record,)


def _belongs(kept: Kept, send: str) -> bool:
    return kept.record is not None and kept.record.state == "pending" and kept.record.send == send
