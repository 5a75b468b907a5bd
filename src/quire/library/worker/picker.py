"""Which job to try next, found with few listings: one listing feeds many claims.

Promises: one listing shows that nothing waits; urgent jobs come first, yet every n-th pick goes to the
lower priorities, so that nothing starves; workers try the same jobs in different orders. A pick is a guess:
the claim decides. Must not know: how a job is claimed.
"""

import hashlib
from collections.abc import AsyncGenerator, Iterable, Sequence

from msgspec import structs

from quire.library.protocol import layout
from quire.library.protocol.lifecycle import JobCandidate
from quire.model.backoff import backoff_seconds
from quire.model.clock import Clock
from quire.model.ids import Ids
from quire.model.objects import ObjectInfo, Objects
from quire.model.tiers import TIERS

PAGE = 1000  # entries of a full page: a shorter page is the last one
EVERY = 8
VIEW_SECONDS = 60.0  # so that new urgent jobs are noticed
FRESH_SECONDS = 1.0  # until then a claim trusts the listing that no tool has given the job up
MAX_MISSES = 2  # in a row: each costs about as much as a new listing
SKIP_SECONDS, MAX_SKIPPED = 60.0, 10_000
IDLE_SECONDS, IDLE_CAP_SECONDS = 5.0, 60.0


def order_tiers(number: int, occupied: Sequence[str]) -> tuple[str, ...]:
    """The priorities to try at pick `number`: from the top, but at every `EVERY`-th pick one of the lower
    ones first, each of them in turn.
    """
    in_order = tuple(tier for tier in TIERS if tier in occupied)
    if number % EVERY or len(in_order) < 2:
        return in_order
    first = in_order[1 + number // EVERY % (len(in_order) - 1)]
    return (first, *(tier for tier in in_order if tier != first))


def idle_seconds(empty: int, fraction: float) -> float:
    """How long to wait after this many empty polls in a row, with jitter."""
    return backoff_seconds(empty, first=IDLE_SECONDS, longest=IDLE_CAP_SECONDS) * (1 + fraction / 2)


def shuffle(candidates: Sequence[JobCandidate], salt: str) -> list[JobCandidate]:
    """An order of the worker's own; the last one is tried first."""
    return sorted(candidates, key=lambda one: hashlib.blake2b(f"{salt}{one.id}".encode()).digest())


def parse_candidates(page: Sequence[ObjectInfo]) -> list[JobCandidate]:
    """The todo markers in a page of a listing; other objects are ignored."""
    found = []
    for seen in page:
        tier = seen.key[len(layout.TODO) + 1 :].partition("/")[0]
        ident = layout.parse_job(seen.key)
        if ident is not None and tier in TIERS and seen.key == layout.todo(tier, ident):
            found.append(JobCandidate(id=ident, tier=tier, blank=seen.size == 0))
    return found


class JobPicker:
    """`salt` differs for each worker."""

    def __init__(self, objects: Objects, clock: Clock, ids: Ids, *, salt: str) -> None:
        self._objects = objects
        self._clock = clock
        self._ids = ids
        self._salt = salt
        # Not from 0: workers that run one job and end must not all begin with the top priority.
        self._number = int(ids.fraction() * EVERY * len(TIERS))
        self._view: dict[str, list[JobCandidate]] = {}
        self._unlisted: tuple[str, ...] = ()  # priorities that the first page did not reach
        self._listed_at: float | None = None
        self._misses = 0
        self._skipped: dict[str, float] = {}  # by job, since when
        self._fresh = False  # listed in this pick

    async def pick(self) -> JobCandidate | None:
        """None: no job that could be claimed was waiting a moment ago."""
        if self._is_outdated():
            await self._list()
        found = await self._take_next()
        if found is None and not self._fresh:
            await self._list()
            found = await self._take_next()
        self._fresh = False
        return found

    def skip(self, candidate: JobCandidate) -> None:
        """The job could not be claimed: leave it to other workers for a while."""
        self._misses += 1
        self._skipped[candidate.id] = self._clock.monotonic()
        while len(self._skipped) > MAX_SKIPPED:
            del self._skipped[next(iter(self._skipped))]

    def readmit(self, idents: Iterable[str]) -> None:
        """Jobs that were put right may be picked again at once."""
        for ident in idents:
            self._skipped.pop(ident, None)

    def reset_misses(self) -> None:
        self._misses = 0

    def forget(self) -> None:
        """Drop the listing; the next pick lists again."""
        self._listed_at = None

    def _is_outdated(self) -> bool:
        listed_at = self._listed_at
        old = listed_at is None or self._clock.monotonic() - listed_at > VIEW_SECONDS
        return old or self._misses >= MAX_MISSES

    async def _take_next(self) -> JobCandidate | None:
        occupied = [tier for tier in TIERS if self._view.get(tier) or tier in self._unlisted]
        for tier in order_tiers(self._number, occupied):
            if tier in self._unlisted:
                self._unlisted = tuple(other for other in self._unlisted if other != tier)
                self._view[tier] = await self._filter_free(parse_candidates(await self._list_tier(tier)))
            if self._view.get(tier):
                self._number += 1
                age = self._clock.monotonic() - (self._listed_at or 0.0)
                return structs.replace(self._view[tier].pop(), listed_now=age < FRESH_SECONDS)
        return None

    async def _list(self) -> None:
        page = await read_first_page(self._objects, layout.TODO)
        self._view, self._unlisted = {}, ()
        self._misses = 0
        self._listed_at = self._clock.monotonic()
        self._fresh = True
        found = parse_candidates(page)
        if len(page) >= PAGE:
            # The priorities before the last one are complete; of that one all workers see the same beginning.
            cut = max((one.tier for one in found), default=TIERS[0])
            self._unlisted = tuple(tier for tier in TIERS if tier >= cut)
            found = [one for one in found if one.tier < cut]
        for one in await self._filter_free(found):
            self._view.setdefault(one.tier, []).append(one)

    async def _list_tier(self, tier: str) -> list[ObjectInfo]:
        """A page that starts at a random key, and continues at the beginning after the last key."""
        folder = f"{layout.TODO}/{tier}"
        after = f"{folder}/{int(self._ids.fraction() * 2**32):08x}"
        page = await read_first_page(self._objects, folder, after=after)
        if len(page) < PAGE:
            page += [seen for seen in await read_first_page(self._objects, folder) if seen.key <= after]
        return page

    async def _filter_free(self, found: list[JobCandidate]) -> list[JobCandidate]:
        """Leave out jobs that are locked, failed or dead. Lists only while there are candidates left."""
        since = self._clock.monotonic() - SKIP_SECONDS
        self._skipped = {ident: at for ident, at in self._skipped.items() if at > since}
        found = [one for one in found if one.id not in self._skipped]
        for folder in (layout.PROCESSING, layout.FAILED, layout.DEAD):
            if found:
                marked = await self._list_marked(folder, found)
                found = [one for one in found if one.id not in marked]
        return shuffle(found, self._salt)

    async def _list_marked(self, folder: str, among: Sequence[JobCandidate]) -> set[str]:
        lowest, highest = min(one.id for one in among), max(one.id for one in among)
        marked: set[str] = set()
        pages = self._objects.pages(folder, after=f"{folder}/{lowest[:-1]}")
        async for page in pages:
            marked.update(ident for seen in page if (ident := layout.parse_job(seen.key)) is not None)
            if page[-1].key > f"{folder}/{highest}":
                break
        if isinstance(pages, AsyncGenerator):
            await pages.aclose()
        return marked


async def read_first_page(objects: Objects, folder: str, *, after: str = "") -> list[ObjectInfo]:
    pages = objects.pages(folder, after=after)
    try:
        async for page in pages:
            return list(page)
        return []
    finally:
        if isinstance(pages, AsyncGenerator):
            await pages.aclose()
