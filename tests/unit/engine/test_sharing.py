"""Who gets free room: tables for single decisions, properties for all, simulations for what comes in time."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.engine.sharing import ShareCandidate, Shares, effective_tier

UNKNOWN = 2**31


def candidate(batch_no, *, tier=3, tenant="ana", since=0.0, most=UNKNOWN):
    return ShareCandidate(batch_no, tier, tenant, since, most)


CANDIDATES = st.lists(
    st.builds(
        ShareCandidate,
        batch_no=st.integers(1, 30),
        tier=st.integers(1, 5),
        tenant=st.sampled_from("abcde"),
        since=st.floats(0, 1000),
        most=st.integers(0, 40) | st.just(UNKNOWN),
    ),
    max_size=30,
)
SERVICE = st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 500), st.floats(0, 1000)), max_size=10)


@pytest.mark.parametrize(
    ("tier", "since", "now", "ageing_seconds", "expected"),
    [
        (3, 0.0, 0.0, 10.0, 3),
        (3, 0.0, 9.9, 10.0, 3),
        (3, 0.0, 10.0, 10.0, 2),
        (5, 0.0, 39.0, 10.0, 2),
        (5, 0.0, 40.0, 10.0, 1),
        (5, 0.0, 1e12, 10.0, 1),
        (1, 0.0, 1e12, 10.0, 1),
        (5, 0.0, 1e12, 0.0, 5),
        (5, 0.0, 1e12, -1.0, 5),
        (4, 100.0, 50.0, 10.0, 4),  # the clock was set back
        (4, 0.0, 1.0, 5e-324, 1),
    ],
)
def test_waiting_makes_urgent(tier, since, now, ageing_seconds, expected):
    assert effective_tier(candidate(1, tier=tier, since=since), now, ageing_seconds) == expected


@pytest.mark.parametrize(
    ("candidates", "room", "expected"),
    [
        ([], 5, []),
        ([candidate(1)], 0, []),
        ([candidate(1)], -3, []),
        ([candidate(1, most=0)], 5, []),
        ([candidate(1)], 5, [(1, 5)]),
        ([candidate(1, most=3)], 5, [(1, 3)]),
        # The urgent one first, and what it leaves to the next tier.
        ([candidate(1, tier=3), candidate(2, tier=1)], 5, [(2, 5)]),
        ([candidate(1, tier=3), candidate(2, tier=1, most=2)], 5, [(2, 2), (1, 3)]),
        # Inside a tenant the longest waiting, then the older batch.
        ([candidate(1, since=2.0), candidate(2, since=1.0)], 5, [(2, 5)]),
        ([candidate(2), candidate(1)], 5, [(1, 5)]),
        ([candidate(1, since=2.0), candidate(2, since=1.0, most=4)], 5, [(2, 4), (1, 1)]),
        # Between tenants equal parts; what one cannot use goes to the others.
        ([candidate(1), candidate(2, tenant="ben")], 6, [(1, 3), (2, 3)]),
        ([candidate(1), candidate(2, tenant="ben", most=1)], 6, [(1, 5), (2, 1)]),
        ([candidate(1), candidate(2), candidate(3, tenant="ben")], 6, [(1, 3), (3, 3)]),
        (
            [candidate(1, most=1), candidate(2, tenant="ben", most=3), candidate(3, tenant="cem")],
            9,
            [(1, 1), (2, 3), (3, 5)],
        ),
        # The odd one goes to the tenant who waits longest.
        ([candidate(1, since=5.0), candidate(2, tenant="ben", since=4.0)], 5, [(2, 3), (1, 2)]),
        # What a tenant gets in an urgent tier counts in the next one.
        (
            [candidate(1, tier=1, most=4), candidate(2, tier=2), candidate(3, tier=2, tenant="ben")],
            10,
            [(1, 4), (3, 5), (2, 1)],
        ),
        # A batch that was named twice is one batch.
        ([candidate(1, most=2), candidate(1, most=2)], 5, [(1, 2)]),
    ],
)
def test_how_room_is_split(candidates, room, expected):
    assert Shares(ageing_seconds=0.0).split(candidates, room, 10.0) == expected


@given(candidates=CANDIDATES, room=st.integers(-1, 100), now=st.floats(0, 2000), service=SERVICE)
def test_all_the_room_is_used_and_nobody_gets_too_much(candidates, room, now, service):
    shares = Shares(ageing_seconds=100.0)
    for tenant, orders, at in service:
        shares.record_use(tenant, orders, at)
    granted = shares.split(candidates, room, now)
    # A batch that was named twice counts as it was named first: longest waiting first, as the sort leaves it.
    most = {}
    for one in sorted(candidates, key=lambda one: (one.since, one.batch_no)):
        if one.most > 0:
            most.setdefault(one.batch_no, one.most)
    assert len({batch_no for batch_no, _ in granted}) == len(granted)
    assert all(0 < orders <= most[batch_no] for batch_no, orders in granted)
    assert sum(orders for _, orders in granted) == min(max(0, room), sum(most.values()))


@given(candidates=CANDIDATES, room=st.integers(1, 100), service=SERVICE)
def test_nobody_gets_anything_while_a_more_urgent_batch_could_take_more(candidates, room, service):
    unique = list({one.batch_no: one for one in candidates if one.most > 0}.values())
    shares = Shares(ageing_seconds=0.0)
    for tenant, orders, at in service:
        shares.record_use(tenant, orders, at)
    granted = dict(shares.split(unique, room, 1000.0))
    last = max((one.tier for one in unique if one.batch_no in granted), default=0)
    assert all(granted.get(one.batch_no) == one.most for one in unique if one.tier < last)


@given(
    most=st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 50), min_size=1), room=st.integers(1, 200)
)
def test_the_split_is_max_min_fair_between_tenants(most, room):
    candidates = [candidate(number, tenant=name, most=most[name]) for number, name in enumerate(most)]
    granted = dict(Shares().split(candidates, room, 0.0))
    shares = [granted.get(one.batch_no, 0) for one in candidates]
    wanting = [share for one, share in zip(candidates, shares, strict=True) if share < one.most]
    if wanting:
        # Nobody has more than one order above somebody who could still take one.
        assert max(shares) <= min(wanting) + 1


def test_who_was_served_stands_back_until_it_is_forgotten():
    shares = Shares(half_life_seconds=60.0)
    both = [candidate(1), candidate(2, tenant="ben")]
    shares.record_use("ana", 8, 0.0)
    assert shares.split(both, 8, 0.0) == [(2, 8)]
    assert shares.split(both, 12, 0.0) == [(2, 10), (1, 2)]
    assert shares.split(both, 8, 60.0) == [(2, 6), (1, 2)]
    assert dict(shares.split(both, 8, 6000.0)) == {1: 4, 2: 4}


def test_a_clock_set_back_neither_breaks_nor_freezes_the_memory():
    shares = Shares(half_life_seconds=60.0)
    shares.record_use("ana", 8, 1_000_000.0)
    both = [candidate(1), candidate(2, tenant="ben")]
    assert shares.split(both, 8, 0.0) == [(2, 8)]
    assert shares.split(both, 8, 60.0) == [(2, 6), (1, 2)]


def test_without_a_half_life_only_waiting_counts():
    shares = Shares(half_life_seconds=0.0)
    shares.record_use("ana", 8, 0.0)
    assert shares.split([candidate(1), candidate(2, tenant="ben", since=1.0)], 1, 5.0) == [(1, 1)]


def turn(shares, waiting, room, now):
    """One round as a conductor makes it: split, hand out, note. `waiting` is changed in place."""
    granted = shares.split(waiting.values(), room, now)
    for batch_no, orders in granted:
        one = waiting[batch_no]
        shares.record_use(one.tenant, orders, now)
        waiting[batch_no] = ShareCandidate(batch_no, one.tier, one.tenant, now, one.most)
    return granted


@pytest.mark.parametrize("seconds", [0.0, 0.1, 30.0])
def test_room_for_one_goes_round(seconds):
    shares = Shares(ageing_seconds=0.0)
    waiting = {number: candidate(number, tenant=name) for number, name in enumerate("abc")}
    turns = [turn(shares, waiting, 1, step * seconds)[0][0] for step in range(30)]
    assert all(sorted(turns[at : at + 3]) == [0, 1, 2] for at in range(0, 30, 3))


@pytest.mark.parametrize("room", [1, 7, 64])
def test_a_tenant_with_one_batch_gets_as_much_as_one_with_a_thousand(room):
    shares = Shares(ageing_seconds=0.0)
    waiting = {number: candidate(number, tenant="many") for number in range(1, 1001)}
    waiting[0] = candidate(0, tenant="one")
    got = Counter()
    for step in range(200):
        for batch_no, orders in turn(shares, waiting, room, step * 0.5):
            got["one" if batch_no == 0 else "many"] += orders
    assert abs(got["one"] - got["many"]) <= room


def test_batches_of_a_tenant_go_round():
    shares = Shares(ageing_seconds=0.0)
    waiting = {number: candidate(number) for number in range(10)}
    assert [turn(shares, waiting, 4, 1.0 + step) for step in range(10)] == [[(no, 4)] for no in range(10)]


def test_an_empty_batch_does_not_hold_the_turn():
    shares = Shares()
    both = [candidate(1), candidate(2, tenant="ben")]
    assert shares.split(both, 1, 0.0) == [(1, 1)]
    shares.record_use("ana", 0, 0.0)
    assert shares.split(both, 1, 0.0) == [(2, 1)]


def first_turn_of_the_background(*, ageing_seconds, stream_ends_at, tenant):
    """Every second a new critical batch comes that could fill all the room by itself."""
    shares = Shares(ageing_seconds=ageing_seconds)
    waiting = {0: candidate(0, tier=5, tenant=tenant)}
    for second in range(1, 1000):
        if second < stream_ends_at:
            waiting[second] = candidate(second, tier=1, tenant=f"new-{second % 50}", since=float(second))
        granted = turn(shares, waiting, 4, float(second))
        if any(batch_no == 0 for batch_no, _ in granted):
            return second
        for batch_no, _ in granted:
            del waiting[batch_no]
    return None


@pytest.mark.parametrize("tenant", ["old", "new-1"])
def test_background_work_has_its_turn_under_an_endless_stream_of_critical_work(tenant):
    served_at = first_turn_of_the_background(ageing_seconds=20.0, stream_ends_at=1000, tenant=tenant)
    assert served_at is not None
    assert 80 <= served_at <= 600


def test_without_ageing_background_work_waits_until_nothing_critical_is_left():
    assert first_turn_of_the_background(ageing_seconds=0.0, stream_ends_at=1000, tenant="old") is None
    assert first_turn_of_the_background(ageing_seconds=0.0, stream_ends_at=500, tenant="old") == 500


def test_tenants_that_are_gone_are_forgotten():
    shares = Shares(half_life_seconds=1.0)
    for number in range(100_000):
        shares.record_use(f"tenant-{number}", 10, number * 1.0)
    assert len(shares) <= 128


def test_ten_thousand_batches_are_split_exactly():
    candidates = [candidate(number, tenant=f"t{number % 997}", most=3) for number in range(10_000)]
    granted = Shares().split(candidates, 20_000, 1.0)
    per_tenant = Counter()
    for batch_no, orders in granted:
        per_tenant[f"t{batch_no % 997}"] += orders
    assert sum(per_tenant.values()) == 20_000
    assert max(per_tenant.values()) - min(per_tenant.values()) <= 1
