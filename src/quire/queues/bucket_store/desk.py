"""What all doors of the queues in a bucket share: the store, the bell, the counters, who holds what."""

from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TypeVar

from msgspec import structs

from quire.model.errors import Retry
from quire.model.ids import Ids
from quire.queues.bell import Bell
from quire.queues.bucket_store.counting import Counting, Pause
from quire.queues.bucket_store.places import Places
from quire.queues.bucket_store.reach import Kept, Reach
from quire.queues.bucket_store.records import Record, Sending, decode, settled
from quire.queues.port import Happening

T = TypeVar("T")
_MOST_REMEMBERED = 10_000


class Desk:
    def __init__(self, reach: Reach, ids: Ids, pause: Pause) -> None:
        self.reach = reach
        self.ids = ids
        self.pause = pause
        self.bell = Bell(_listen)
        self.counting = Counting(reach, ids, pause)
        # What is out from here, as it was last written: who ends a loan need not read it first.
        self.loans: OrderedDict[str, Kept] = OrderedDict()
        self._decided: OrderedDict[str, str] = OrderedDict()
        self.last_no = 0

    def places(self, queue: str) -> Places:
        return _places(queue)

    def count(self, queue: str, numbers: Mapping[Happening, int], now: float) -> None:
        self.counting.add(queue, numbers, now)

    async def rung(self, queue: str) -> None:
        """Tell everybody, here and elsewhere. Never raises: who is not told looks by itself."""
        self.bell.ring(queue)
        with suppress(Retry):
            await self.reach.put(self.places(queue).bell, self.ids.ulid().encode())

    def hold(self, kept: Kept) -> None:
        if kept.record is not None and kept.record.token:
            _remember(self.loans, kept.record.token, kept)

    async def resolved(self, places: Places, name: str, kept: Kept) -> Record | None:
        """The record with what its sending has decided. None: undecided or unreadable; leave it alone."""
        record = kept.record
        if record is None or record.state != "pending":
            return record
        decision = await self.decision(places, record.send)
        if decision == "missing":
            # Deleted after its messages were settled: so this one is no longer what was read.
            again = await self.reach.state(places, name)
            if again is not None and again.version != kept.version:
                return None
            decision = "aborted"
        if decision == "committed":
            return settled(record)
        return structs.replace(record, state="gone", until=0.0) if decision == "aborted" else None

    async def decision(self, places: Places, send: str) -> str:
        known = self._decided.get(send)
        if known is not None:
            return known
        found = await self.reach.read(places.send(send))
        sending = None if found is None else decode(found.body, Sending)
        if sending is None:
            return "missing" if found is None else "open"
        if sending.state != "open":
            _remember(self._decided, send, sending.state)
        return sending.state


async def _listen(heard: object) -> None:
    """Nothing in a bucket tells of others: they are asked about."""


def _remember(where: "OrderedDict[str, T]", key: str, value: T) -> None:
    where[key] = value
    where.move_to_end(key)
    while len(where) > _MOST_REMEMBERED:
        where.popitem(last=False)


@lru_cache(maxsize=1024)
def _places(queue: str) -> Places:
    return Places(queue)
