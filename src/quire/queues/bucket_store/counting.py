"""What happens in the queues is counted without a key that everybody writes.

A process adds up in memory and lays down, every few seconds, an empty object whose *name* tells minute and
numbers: all of them are read with a listing. Minutes that are over an hour old are folded into one object per
queue, by compare-and-swap; which names it contains already is told in it until they are deleted, so that none
counts twice. A process that is killed takes what it has not laid down with it: some seconds of counts, never
a message.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from msgspec import Struct, field

from quire.model.errors import QuireError, Retry, Unavailable
from quire.model.ids import Ids
from quire.queues.bucket_store.places import Places
from quire.queues.bucket_store.reach import Reach
from quire.queues.bucket_store.records import decode, encode
from quire.queues.port import Happening
from quire.queues.rows import HOUR_SECONDS, minute

Pause = Callable[[float], Awaitable[None]]
FLUSH_SECONDS = 5.0
_TRIES = 10
_LETTERS = {
    Happening.SENT: "s",
    Happening.DELIVERED: "d",
    Happening.ACKNOWLEDGED: "a",
    Happening.RELEASED: "r",
    Happening.EXPIRED: "e",
    Happening.BURIED: "b",
    Happening.REPLAYED: "p",
    Happening.DISCARDED: "x",
}
_OF_LETTER = {letter: happening for happening, letter in _LETTERS.items()}
_NAME = re.compile(r"(\d{10})-[0-9A-Z]{26}-")
_PART = re.compile(r"([sdarebpx])(\d{1,15})")


class Total(Struct, frozen=True, kw_only=True):
    """`folded` are names that it contains and that may still lie there."""

    sums: dict[Happening, int] = field(default_factory=dict)
    folded: tuple[str, ...] = ()
    nonce: str = ""
    schema: int = 1


class Counting:
    def __init__(self, reach: Reach, ids: Ids, pause: Pause) -> None:
        self._reach = reach
        self._ids = ids
        self._pause = pause
        self._fresh: dict[tuple[str, int], Counter[Happening]] = {}
        # Named, and not known to be laid down: the same name again is the same counts.
        self._named: dict[str, set[str]] = {}
        self._writing = asyncio.Lock()
        self._later: asyncio.Task[None] | None = None

    def add(self, queue: str, numbers: Mapping[Happening, int], now: float) -> None:
        counted = Counter({one: number for one, number in numbers.items() if number})
        if not counted:
            return
        self._fresh.setdefault((queue, max(0, minute(now))), Counter()).update(counted)
        if self._later is None or self._later.done():
            self._later = asyncio.create_task(self._flush_later())

    async def flush(self) -> None:
        """Lay down what was counted here. Raises Unavailable; then it is kept for the next time."""
        async with self._writing:
            await self._flush()

    async def close(self) -> None:
        if self._later is not None:
            self._later.cancel()
        with suppress(Retry):
            await self.flush()

    async def read(self, queue: str, since: float | None) -> dict[Happening, int]:
        places = Places(queue)
        first = 0 if since is None else max(0, minute(since))
        async with self._writing:  # or what is being laid down would count twice, or not at all
            if since is None:
                total, names = await self._all(places)
            else:
                total, names = Total(), await self._names(places, f"{places.counts}/{first:010d}")
            names = {name for name in names | self._named.get(queue, set()) if _minute_of(name) >= first}
            sums = Counter(total.sums)
            for name in names - set(total.folded):
                sums.update(_counts_in(name))
            for (whose, at), counted in self._fresh.items():
                if whose == queue and at >= first:
                    sums.update(counted)
        return {one: sums[one] for one in Happening}

    async def fold(self, queue: str, now: float) -> None:
        """Add up what is older than an hour."""
        places = Places(queue)
        for _ in range(_TRIES):
            found = await self._reach.read(places.total)
            total = Total() if found is None else decode(found.body, Total)
            if total is None:
                return  # of a later version
            names = await self._names(places)
            old = {name for name in names if 60 * _minute_of(name) < now - HOUR_SECONDS}
            gone = old | set(total.folded)
            fresh = old - set(total.folded)
            if fresh:
                sums = Counter(total.sums)
                for name in fresh:
                    sums.update(_counts_in(name))
                folded = tuple(sorted(fresh | (set(total.folded) & names)))
                body = encode(Total(sums=dict(sums), folded=folded, nonce=self._ids.ulid()))
                if found is None:
                    version = await self._reach.create(places.total, body)
                else:
                    version = await self._reach.swap(places.total, body, found.version)
                if version is None:
                    continue
            await self._reach.delete([places.count(name) for name in sorted(gone & names)])
            return

    async def _all(self, places: Places) -> tuple[Total, set[str]]:
        """What is added up and what is not, of one moment: a name must not be in both, nor in neither."""
        for _ in range(_TRIES):
            before = await self._reach.read(places.total)
            names = await self._names(places)
            after = await self._reach.read(places.total)
            if before == after:
                total = Total() if before is None else decode(before.body, Total)
                return total or Total(), names
        raise Unavailable("the counters are added up without a pause; read them again later")

    async def _names(self, places: Places, after: str = "") -> set[str]:
        start = len(places.counts) + 1
        return {
            seen.key[start:]
            async for page in self._reach.pages(places.counts, after=after)
            for seen in page
            if _minute_of(seen.key[start:]) >= 0
        }

    async def _flush(self) -> None:
        for (queue, at), counted in list(self._fresh.items()):
            told = "-".join(f"{_LETTERS[one]}{number}" for one, number in counted.items())
            self._named.setdefault(queue, set()).add(f"{at:010d}-{self._ids.ulid()}-{told}")
            del self._fresh[queue, at]
        for queue, named in list(self._named.items()):
            for name in sorted(named):
                await self._reach.put(Places(queue).count(name))
                named.discard(name)
            del self._named[queue]

    async def _flush_later(self) -> None:
        while self._fresh or self._named:
            await self._pause(FLUSH_SECONDS)
            with suppress(QuireError):  # whoever uses the queues is told of it; this is for nobody
                await self.flush()


def _minute_of(name: str) -> int:
    """-1: not one of ours."""
    found = _NAME.match(name)
    return -1 if found is None else int(found[1])


def _counts_in(name: str) -> Counter[Happening]:
    found = (_PART.fullmatch(part) for part in name.split("-")[2:])
    return Counter({_OF_LETTER[one[1]]: int(one[2]) for one in found if one is not None})
