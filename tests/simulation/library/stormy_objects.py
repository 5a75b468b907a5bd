"""An object store on which everything goes wrong that may: the port `quire.model.objects`, decided by a
seed.

Requests take effect late and in any order; answers get lost after the write; a request that was reported as
failed may take effect long afterwards; conditional writes are refused without a reason; listings are old.
What never goes wrong is what every store promises: a condition is checked and the object written in one
step. `drop` removes such a promise, to show that the checks notice.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from pathlib import Path
from random import Random
from typing import Any

from msgspec import Struct

from quire.model.errors import Retry
from quire.model.objects import ObjectBody, ObjectInfo

PAGE = 1000
_MOST_LISTINGS = 40


class Weather(Struct, frozen=True, kw_only=True):
    """Rates of faults, of all requests."""

    failed: float = 0.0  # Retry, and nothing happened
    lost: float = 0.0  # Retry, though it happened
    late: float = 0.0  # Retry, and it happens later
    refused: float = 0.0  # a conditional write, without a reason
    unsure: float = 0.0  # a conditional write that happened, answered as if refused
    stale: float = 0.0  # a listing of some time ago

    @classmethod
    def draw(cls, chance: Random) -> "Weather":
        """Some seeds have only some faults: faults that never come alone hide each other."""
        return cls(**{name: chance.choice((0.0, 0.01, 0.05, 0.2)) for name in cls.__struct_fields__})


class Kept(Struct, frozen=True):
    body: bytes
    version: str
    modified_at: float


# Called before a write or deletion takes effect: actor, key, current object, new body.
Observer = Callable[[str, str, Kept | None, bytes | None], None]
Effect = Callable[[], Any]


class StormyStore:
    """The objects that all clients see. `clock` is the store's own."""

    def __init__(self, clock: Callable[[], float], *, drop: Collection[str] = ()) -> None:
        self.clock = clock
        self.objects: dict[str, Kept] = {}
        self.observers: list[Observer] = []
        self.late: list[Effect] = []
        self.drop = frozenset(drop)
        self._writes = 0
        self._listings: list[dict[str, Kept]] = []

    def write(
        self, who: str, key: str, body: bytes, *, absent: bool = False, version: str | None = None
    ) -> str | None:
        there = self.objects.get(key)
        if absent and there is not None and "create" not in self.drop:
            return None
        if version is not None and (there is None or there.version != version) and "swap" not in self.drop:
            return None
        for observer in self.observers:
            observer(who, key, there, body)
        self._writes += 1
        kept = Kept(body, f"v{self._writes}", self.clock())
        self.objects[key] = kept
        self._remember()
        return kept.version

    def delete(self, who: str, key: str) -> None:
        there = self.objects.get(key)
        if there is not None:
            for observer in self.observers:
                observer(who, key, there, None)
            del self.objects[key]
            self._remember()

    def listed(self, chance: Random, weather: Weather) -> dict[str, Kept]:
        if self._listings and chance.random() < weather.stale:
            return chance.choice(self._listings)
        return self.objects

    def catch_up(self) -> None:
        """Apply every late request."""
        while self.late:
            self.late.pop(0)()

    def _remember(self) -> None:
        if self._writes % 5 == 0:
            self._listings = [*self._listings[-_MOST_LISTINGS:], dict(self.objects)]


class StormyObjects:
    """One client of the store. `turn` lets the other actors go first."""

    def __init__(
        self,
        store: StormyStore,
        who: str,
        chance: Random,
        weather: Weather,
        turn: Callable[[], Awaitable[None]],
    ) -> None:
        self._store = store
        self._who = who
        self._chance = chance
        self._weather = weather
        self._turn = turn

    async def read(self, key: str) -> ObjectBody | None:
        await self._turn()
        self._may_fail()
        kept = self._store.objects.get(key)
        await self._turn()
        return None if kept is None else ObjectBody(kept.body, kept.version)

    async def head(self, key: str) -> ObjectInfo | None:
        await self._turn()
        self._may_fail()
        kept = self._store.objects.get(key)
        if "look" in self._store.drop:
            kept = None
        await self._turn()
        return None if kept is None else _seen(key, kept)

    async def create(self, key: str, body: bytes) -> str | None:
        answer: str | None = await self._conditional(
            lambda: self._store.write(self._who, key, body, absent=True), refusal=None
        )
        return answer

    async def create_file(self, key: str, source: Path, *, content_type: str) -> bool:  # noqa: ARG002
        absent = "commit" not in self._store.drop
        body = str(source).encode()
        answer: bool = await self._conditional(
            lambda: self._store.write(self._who, key, body, absent=absent) is not None, refusal=False
        )
        return answer

    async def swap(self, key: str, body: bytes, version: str) -> str | None:
        answer: str | None = await self._conditional(
            lambda: self._store.write(self._who, key, body, version=version), refusal=None
        )
        return answer

    async def put(self, key: str, body: bytes) -> str:
        answer: str = await self._request(lambda: self._store.write(self._who, key, body))
        return answer

    async def delete(self, keys: Sequence[str]) -> None:
        for key in self._chance.sample(list(keys), len(keys)):
            await self._request(lambda key=key: self._store.delete(self._who, key))  # type: ignore[misc]

    async def pages(self, folder: str, *, after: str = "") -> AsyncIterator[list[ObjectInfo]]:
        await self._turn()
        self._may_fail()
        listed = self._store.listed(self._chance, self._weather)
        found = [
            _seen(key, listed[key]) for key in sorted(listed) if key.startswith(f"{folder}/") and key > after
        ]
        for at in range(0, len(found), PAGE):
            yield found[at : at + PAGE]

    async def now(self) -> float:
        await self._turn()
        self._may_fail()
        return self._store.clock()

    async def _request(self, effect: Effect) -> Any:
        """An effect is atomic; before and after it other actors may act."""
        await self._turn()
        drawn, weather = self._chance.random(), self._weather
        if drawn < weather.failed:
            raise Retry("the store cannot be reached (simulated)")
        if drawn < weather.failed + weather.late:
            self._store.late.append(effect)
            raise Retry("no answer came (simulated); it is still under way")
        answer = effect()
        await self._turn()
        if drawn > 1 - weather.lost:
            raise Retry("no answer came (simulated)")
        return answer

    async def _conditional(self, effect: Effect, *, refusal: Any) -> Any:
        if self._chance.random() < self._weather.refused:
            await self._turn()
            return refusal
        answer = await self._request(effect)
        return refusal if self._chance.random() < self._weather.unsure else answer

    def _may_fail(self) -> None:
        if self._chance.random() < self._weather.failed:
            raise Retry("the store cannot be reached (simulated)")


def _seen(key: str, kept: Kept) -> ObjectInfo:
    return ObjectInfo(key, len(kept.body), kept.version, kept.modified_at)
