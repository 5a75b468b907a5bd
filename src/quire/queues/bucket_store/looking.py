"""Looking on: depths and times from the names of hints, what is shown from the states. And emptying."""

import heapq
from contextlib import aclosing
from functools import partial

from msgspec import Struct

from quire.queues.bucket_store import records
from quire.queues.bucket_store.desk import Desk
from quire.queues.bucket_store.places import NAMES, Hint, Places
from quire.queues.bucket_store.reach import parsed
from quire.queues.bucket_store.records import Record, decode
from quire.queues.port import Depth, Happening, Waiting

_AT_ONCE = 100


class _Sums(Struct):
    waiting: int = 0
    delayed: int = 0
    leased: int = 0
    oldest_at: float | None = None

    def add(self, hint: Hint, now: float) -> None:
        due = hint.due_at <= now
        self.waiting += due
        self.delayed += not due and not hint.leased
        self.leased += not due and hint.leased
        if due or hint.leased:
            known = self.oldest_at
            self.oldest_at = hint.sent_at if known is None else min(known, hint.sent_at)


class Onlooker:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._names: dict[str, str] = {}  # by key; they never change

    async def names(self) -> list[str]:
        keys = [seen.key async for page in self._desk.reach.pages(NAMES) for seen in page]
        unknown = [key for key in keys if key not in self._names]
        for key, found in zip(
            unknown,
            await self._desk.reach.every(partial(self._desk.reach.read, key) for key in unknown),
            strict=True,
        ):
            name = None if found is None else decode(found.body, str)
            if name is not None:
                self._names[key] = name
        return sorted(self._names[key] for key in keys if key in self._names)

    async def depth(self, queue: str, *, now: float) -> Depth:
        reach, places = self._desk.reach, self._desk.places(queue)
        sums = _Sums()
        async with aclosing(reach.hints(places)) as pages:
            async for page in pages:
                for hint in page:
                    sums.add(hint, now)
        dead = sum([len(page) async for page in reach.pages(places.dead)])
        return Depth(
            waiting=sums.waiting,
            delayed=sums.delayed,
            leased=sums.leased,
            dead=dead,
            oldest_at=sums.oldest_at,
        )

    async def next_due(self, queue: str, *, now: float) -> float | None:
        reach, places = self._desk.reach, self._desk.places(queue)
        first, whole = await reach.glance(places.due)
        hints = parsed(first)
        if not whole:
            # A long queue: the first one that is later, of each priority.
            hints = []
            for tier in range(1, 6):
                page, _ = await reach.glance(places.tier(tier), after=places.after(tier, now))
                hints += parsed(page)[:1]
        return min((hint.due_at for hint in hints if hint.due_at > now), default=None)

    async def peek(self, queue: str, *, limit: int, now: float) -> list[Waiting]:
        reach, places = self._desk.reach, self._desk.places(queue)

        def order(hint: Hint) -> tuple[bool, bool, int, float, str]:
            later = hint.due_at > now
            return later and hint.leased, later, hint.tier, hint.due_at, hint.order

        best: list[Hint] = []
        async with aclosing(reach.hints(places)) as pages:
            async for page in pages:
                best = heapq.nsmallest(max(0, limit), [*best, *page], key=order)
        shown = await reach.every(partial(self._shown, places, hint) for hint in best)
        return [records.waiting_of(queue, record, now=now) for record in shown if record is not None]

    async def _shown(self, places: Places, hint: Hint) -> Record | None:
        kept = await self._desk.reach.state(places, hint.name)
        record = None if kept is None else await self._desk.resolved(places, hint.name, kept)
        if record is None or records.place_of(record, places) != hint.key:
            return None
        return record

    async def purge(self, queue: str, *, now: float) -> int:
        desk, places = self._desk, self._desk.places(queue)
        gone = 0
        async with aclosing(desk.reach.hints(places)) as pages:
            async for page in pages:
                wanted = [hint for hint in page if not hint.leased or hint.due_at <= now]
                for at in range(0, len(wanted), _AT_ONCE):
                    some = wanted[at : at + _AT_ONCE]
                    answers = await desk.reach.every(partial(self._purged, places, one, now) for one in some)
                    await desk.reach.tidied(key for keys in answers for key in keys or ())
                    gone += sum(keys is not None for keys in answers)
        desk.count(queue, {Happening.DISCARDED: gone}, now)
        return gone

    async def _purged(self, places: Places, hint: Hint, now: float) -> list[str] | None:
        """The hints that are wrong now; None: it stays."""
        reach = self._desk.reach
        kept = await reach.state(places, hint.name)
        record = None if kept is None else await self._desk.resolved(places, hint.name, kept)
        if record is None or record.state not in {"waiting", "leased"}:
            return None
        if record.state == "leased" and record.due_at > now:
            return None
        written = await reach.written(places.state(hint.name), records.forgotten(record, now=now), kept)
        if written is None or written.record is None:
            return None
        return await reach.placed(places, written.record, instead_of=[hint.key])
