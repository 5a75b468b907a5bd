"""Shares the free room of compute among batches. Pure: time and what was started are handed in.

Urgent tiers come first, and priority rises with waiting time. Inside a tier tenants are equal, however many
batches they have; inside a tenant the batch that waits longest comes first. Room that one batch leaves goes
to the next: nothing idles while another batch could use it. A tenant that got much a moment ago waits until
the others have caught up or its recent use has decayed.
"""

from collections.abc import Iterable, Sequence
from math import exp2, floor

from msgspec import Struct

# Less than this of one order is no reason to prefer anybody.
_FORGOTTEN_ORDERS = 0.01
# Below this many tenants it is not worth looking whom to forget.
_FEW_TENANTS = 64


class ShareCandidate(Struct, frozen=True):
    """A batch that could take work. `since`: when it last got work, or became ready; `most`: how many orders
    it can take now, large when unknown.
    """

    batch_no: int
    tier: int
    tenant: str
    since: float
    most: int


def effective_tier(candidate: ShareCandidate, now: float, ageing_seconds: float) -> int:
    """One tier more urgent for every `ageing_seconds` of waiting; 0 means that waiting does not count."""
    if ageing_seconds <= 0:
        return max(1, candidate.tier)
    # A clock that was set back makes `since` lie in the future: then nobody has waited yet.
    waited = max(0.0, now - candidate.since)
    # The smaller of the two before int(): a tiny `ageing_seconds` makes the quotient infinite.
    return max(1, candidate.tier - int(min(float(candidate.tier), waited / ageing_seconds)))


class Shares:
    """Remembers what each tenant got lately; half of it is forgotten every `half_life_seconds`.

    `split` only proposes. Whoever hands out the orders says with `served` what really went out, since a batch
    may turn out to have less work than it could have taken.
    """

    def __init__(self, *, half_life_seconds: float = 60.0, ageing_seconds: float = 300.0) -> None:
        self._half_life_seconds = half_life_seconds
        self.ageing_seconds = ageing_seconds
        self._lately: dict[str, tuple[float, float]] = {}  # tenant → (orders, as they were at this time)
        self._look_at = _FEW_TENANTS

    def __len__(self) -> int:
        """How many tenants are remembered."""
        return len(self._lately)

    def record_use(self, tenant: str, orders: int, now: float) -> None:
        """Call it for a visit that found nothing too: it counts as one order, so that an empty batch cannot
        hold the turn of all others.
        """
        self._lately[tenant] = (self._recent_use(tenant, now) + max(1, orders), now)
        if len(self._lately) > self._look_at:
            self._forget(now)

    def split(self, candidates: Iterable[ShareCandidate], room: int, now: float) -> list[tuple[int, int]]:
        """(batch_no, orders) in the order of precedence, each batch at most once, `room` in total at most."""
        tiers: dict[int, dict[str, list[ShareCandidate]]] = {}
        seen: set[int] = set()
        for candidate in sorted(candidates, key=lambda one: (one.since, one.batch_no)):
            if candidate.most > 0 and candidate.batch_no not in seen:
                seen.add(candidate.batch_no)
                tier = effective_tier(candidate, now, self.ageing_seconds)
                tiers.setdefault(tier, {}).setdefault(candidate.tenant, []).append(candidate)
        granted: list[tuple[int, int]] = []
        given: dict[str, int] = {}  # in more urgent tiers, just now: it counts in the later ones
        for _, tenants in sorted(tiers.items()):
            if room <= 0:
                break
            claims = [
                _Claim(self._recent_use(name, now) + given.get(name, 0), batches[0].since, name, batches)
                for name, batches in tenants.items()
            ]
            for claim, orders in _level(claims, room):
                granted += _portions(claim.batches, orders)
                given[claim.tenant] = given.get(claim.tenant, 0) + orders
                room -= orders
        return granted

    def _recent_use(self, tenant: str, now: float) -> float:
        """The tenant's recent orders, decayed."""
        orders, at = self._lately.get(tenant, (0.0, now))
        if now < at:
            # The clock was set back. Counted from now, or the memory would not fade until it catches up.
            self._lately[tenant] = (orders, now)
            return orders
        if self._half_life_seconds <= 0:
            return 0.0
        return orders * exp2((at - now) / self._half_life_seconds)

    def _forget(self, now: float) -> None:
        """Seldom enough that a call costs the same on average however many tenants there are."""
        faded = [tenant for tenant in self._lately if self._recent_use(tenant, now) < _FORGOTTEN_ORDERS]
        for tenant in faded:
            del self._lately[tenant]
        self._look_at = max(_FEW_TENANTS, 2 * len(self._lately))


class _Claim(Struct, frozen=True):
    """A tenant in a tier: what it got lately, since when it waits, and its batches in order."""

    recent_use: float
    since: float
    tenant: str
    batches: list[ShareCandidate]

    @property
    def most(self) -> int:
        return sum(batch.most for batch in self.batches)


def _level(claims: Sequence[_Claim], room: int) -> list[tuple[_Claim, int]]:
    """Max-min fair: like water poured into vessels that are already filled to their recent_use. The lowest
    rise first, together, and each up to its `most`. In the order of who comes first.
    """
    first = sorted(claims, key=lambda claim: (claim.recent_use, claim.since, claim.tenant))
    # Nobody can take more than there is; `most` may be astronomical when it is unknown.
    most = [min(claim.most, room) for claim in first]
    room = min(room, sum(most))
    level = _water_level([claim.recent_use for claim in first], most, room)
    shares = []
    left = room
    for claim, limit in zip(first, most, strict=True):
        share = min(limit, left, max(0, floor(level - claim.recent_use)))
        shares.append(share)
        left -= share
    # Orders are whole: what rounding left goes one by one to those who stand lowest now.
    while left > 0:
        open_places = [place for place, share in enumerate(shares) if share < most[place]]
        open_places.sort(key=lambda place: first[place].recent_use + shares[place])
        for place in open_places[:left]:
            shares[place] += 1
        left -= min(left, len(open_places))
    return [(claim, share) for claim, share in zip(first, shares, strict=True) if share]


def _water_level(recent_uses: Sequence[float], most: Sequence[int], room: int) -> float:
    """The level at which the vessels have taken in `room`."""
    edges = sorted(
        [(recent_use, 1) for recent_use in recent_uses]
        + [(recent_use + limit, -1) for recent_use, limit in zip(recent_uses, most, strict=True)]
    )
    level, rising, left = edges[0][0], 0, float(room)
    for edge, change in edges:
        taken = rising * (edge - level)
        if rising and taken >= left:
            return level + left / rising
        level, rising, left = edge, rising + change, left - taken
    return level


def _portions(batches: Sequence[ShareCandidate], orders: int) -> list[tuple[int, int]]:
    portions = []
    for batch in batches:
        if orders <= 0:
            break
        portion = min(batch.most, orders)
        portions.append((batch.batch_no, portion))
        orders -= portion
    return portions
