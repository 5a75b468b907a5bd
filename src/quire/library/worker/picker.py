"""Which job to try next, found with few listings: one of what waits feeds many claims.

Promises: nothing waiting means that nothing waits, by one listing; urgent jobs come first, yet every n-th
pick goes to the tiers below, so that nothing starves; workers look at the same jobs in different orders. A
pick is a guess: the claim decides. Must not know: how a job is claimed.
"""

import hashlib
from collections.abc import AsyncGenerator, Sequence

from quire.library.protocol import layout
from quire.library.protocol.lifecycle import JobCandidate
from quire.model.clock import Clock
from quire.model.ids import Ids
from quire.model.objects import ObjectInfo, Objects
from quire.model.tiers import TIERS

PAGE = 1000  # what a listing gives at once: one that is shorter is whole
EVERY = 8
VIEW_SECONDS = 60.0  # so that urgent jobs that come later are seen
MOST_MISSES = 2  # in a row: each costs about as much as a new listing
SHUN_SECONDS, MOST_SHUNNED = 60.0, 10_000
IDLE_SECONDS, IDLE_CAP_SECONDS = 5.0, 60.0


def order_tiers(number: int, occupied: Sequence[str]) -> tuple[str, ...]:
    """The tiers to try at the pick of this number: from the top, but each `EVERY`-th time one of the lower
    ones first, each of them in its turn.
    """
    in_order = tuple(tier for tier in TIERS if tier in occupied)
    if number % EVERY or len(in_order) < 2:
        return in_order
    first = in_order[1 + number // EVERY % (len(in_order) - 1)]
    return (first, *(tier for tier in in_order if tier != first))


def idle_seconds(empty: int, fraction: float) -> float:
    """How long to wait after so many polls in a row that found nothing; apart by chance."""
    waited: float = min(IDLE_SECONDS * 2 ** min(max(0, empty - 1), 10), IDLE_CAP_SECONDS)
    return waited * (1 + fraction / 2)


def shuffle(candidates: Sequence[JobCandidate], salt: str) -> list[JobCandidate]:
    """In an order of the worker's own; the last one is to be tried first."""
    return sorted(candidates, key=lambda one: hashlib.blake2b(f"{salt}{one.id}".encode()).digest())


def parse_candidates(page: Sequence[ObjectInfo]) -> list[JobCandidate]:
    """Those objects of a listing of what waits that are markers; others are nobody's business."""
    found = []
    for seen in page:
        tier = seen.key[len(layout.TODO) + 1 :].partition("/")[0]
        ident = layout.parse_job(seen.key)
        if ident is not None and tier in TIERS and seen.key == layout.todo(tier, ident):
            found.append(JobCandidate(id=ident, tier=tier, blank=seen.size == 0))
    return found


class JobPicker:
    """`salt` is the worker's own."""

    def __init__(self, objects: Objects, clock: Clock, ids: Ids, *, salt: str) -> None:
        self._objects = objects
        self._clock = clock
        self._ids = ids
        self._salt = salt
        # Not from nought: those that do one job and end must not all begin with the top tier.
        self._number = int(ids.fraction() * EVERY * len(TIERS))
        self._view: dict[str, list[JobCandidate]] = {}
        self._unlisted: tuple[str, ...] = ()  # tiers that the first page did not reach
        self._listed_at: float | None = None
        self._misses = 0
        self._shunned: dict[str, float] = {}  # since when
        self._fresh = False  # listed in this very pick

    async def pick(self) -> JobCandidate | None:
        """None: nothing that could be claimed was waiting a moment ago."""
        if self._outdated():
            await self._list()
        found = await self._next()
        if found is None and not self._fresh:
            await self._list()
            found = await self._next()
        self._fresh = False
        return found

    def missed(self, candidate: JobCandidate) -> None:
        """It could not be claimed, and is left to others for a while."""
        self._misses += 1
        self._shunned[candidate.id] = self._clock.monotonic()
        while len(self._shunned) > MOST_SHUNNED:
            del self._shunned[next(iter(self._shunned))]

    def won(self) -> None:
        self._misses = 0

    def forget(self) -> None:
        """What was seen; the next pick looks anew."""
        self._listed_at = None

    def _outdated(self) -> bool:
        listed_at = self._listed_at
        old = listed_at is None or self._clock.monotonic() - listed_at > VIEW_SECONDS
        return old or self._misses >= MOST_MISSES

    async def _next(self) -> JobCandidate | None:
        occupied = [tier for tier in TIERS if self._view.get(tier) or tier in self._unlisted]
        for tier in order_tiers(self._number, occupied):
            if tier in self._unlisted:
                self._unlisted = tuple(other for other in self._unlisted if other != tier)
                self._view[tier] = await self._free(parse_candidates(await self._somewhere_in(tier)))
            if self._view.get(tier):
                self._number += 1
                return self._view[tier].pop()
        return None

    async def _list(self) -> None:
        page = await read_first_page(self._objects, layout.TODO)
        self._view, self._unlisted = {}, ()
        self._misses = 0
        self._listed_at = self._clock.monotonic()
        self._fresh = True
        found = parse_candidates(page)
        if len(page) >= PAGE:
            # The tiers before the last one are whole; all workers see the same beginning of that one.
            cut = max((one.tier for one in found), default=TIERS[0])
            self._unlisted = tuple(tier for tier in TIERS if tier >= cut)
            found = [one for one in found if one.tier < cut]
        for one in await self._free(found):
            self._view.setdefault(one.tier, []).append(one)

    async def _somewhere_in(self, tier: str) -> list[ObjectInfo]:
        """A page of it from a place by chance on, round its end."""
        folder = f"{layout.TODO}/{tier}"
        after = f"{folder}/{int(self._ids.fraction() * 2**32):08x}"
        page = await read_first_page(self._objects, folder, after=after)
        if len(page) < PAGE:
            page += [seen for seen in await read_first_page(self._objects, folder) if seen.key <= after]
        return page

    async def _free(self, found: list[JobCandidate]) -> list[JobCandidate]:
        """Without those that somebody has, and those that other tools gave up or wait to try again. A listing
        is asked for only as long as there is something to leave out.
        """
        since = self._clock.monotonic() - SHUN_SECONDS
        self._shunned = {ident: at for ident, at in self._shunned.items() if at > since}
        found = [one for one in found if one.id not in self._shunned]
        for folder in (layout.PROCESSING, layout.FAILED, layout.DEAD):
            if found:
                marked = await self._marked(folder, found)
                found = [one for one in found if one.id not in marked]
        return shuffle(found, self._salt)

    async def _marked(self, folder: str, among: Sequence[JobCandidate]) -> set[str]:
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
