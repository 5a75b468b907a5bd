"""Finding jobs: few listings, urgent ones first, nothing starves, workers go apart."""

import hashlib
from collections import Counter

import pytest
from tests.situations.libraries import CountingObjects, memory_library

from quire.library.protocol import layout
from quire.library.protocol.lifecycle import JobCandidate
from quire.library.worker.picker import (
    EVERY,
    SKIP_SECONDS,
    VIEW_SECONDS,
    JobPicker,
    idle_seconds,
    order_tiers,
    parse_candidates,
    shuffle,
)
from quire.model.objects import ObjectInfo
from quire.model.tiers import TIERS
from quire.testing.time import CountingIds, FakeClock

TOP, HIGH, NORMAL, LOW, LAST = TIERS


def ident(number):
    return hashlib.sha256(str(number).encode()).hexdigest()


@pytest.mark.parametrize(
    ("number", "occupied", "order"),
    [
        (1, TIERS, TIERS),
        (EVERY - 1, TIERS, TIERS),
        (0, TIERS, (HIGH, TOP, NORMAL, LOW, LAST)),
        (EVERY, TIERS, (NORMAL, TOP, HIGH, LOW, LAST)),
        (3 * EVERY, TIERS, (LAST, TOP, HIGH, NORMAL, LOW)),
        (4 * EVERY, TIERS, (HIGH, TOP, NORMAL, LOW, LAST)),
        (EVERY, (LAST, TOP), (LAST, TOP)),
        (EVERY + 1, (LAST, TOP), (TOP, LAST)),
        (EVERY, (NORMAL,), (NORMAL,)),
        (EVERY, (), ()),
    ],
)
def test_the_order_of_tiers(number, occupied, order):
    assert order_tiers(number, occupied) == order


def test_every_tier_gets_its_share():
    firsts = Counter(order_tiers(number, TIERS)[0] for number in range(EVERY * 4 * 10))
    assert firsts == {TOP: (EVERY - 1) * 40, HIGH: 10, NORMAL: 10, LOW: 10, LAST: 10}


@pytest.mark.parametrize(
    ("empty", "fraction", "seconds"),
    [(1, 0.0, 5), (1, 0.5, 6.25), (2, 0.0, 10), (4, 0.0, 40), (5, 0.0, 60), (5000, 0.0, 60), (9, 0.5, 75)],
)
def test_the_wait_grows_to_a_cap(empty, fraction, seconds):
    assert idle_seconds(empty, fraction) == seconds


def test_foreign_objects_are_no_jobs():
    good = ObjectInfo(f"queue/todo/{LOW}/{ident(1)}", 12, "v", 0.0)
    others = ["readme", f"{LOW}/{ident(1)}.json", f"9_never/{ident(1)}", f"{LOW}/x/{ident(1)}", f"{LOW}/ABC"]
    page = [ObjectInfo(f"queue/todo/{other}", 0, "v", 0.0) for other in others]
    assert parse_candidates([*page, good]) == [JobCandidate(id=ident(1), tier=LOW, blank=False)]


def test_workers_look_in_different_orders():
    all_of_them = [JobCandidate(id=ident(number), tier=NORMAL) for number in range(300)]
    first, second = shuffle(all_of_them, "one"), shuffle(all_of_them, "two")
    assert {one.id for one in first} == {one.id for one in second}
    same = sum(one == other for one, other in zip(first, second, strict=True))
    assert same < 10


class LibraryUnderTest:
    def __init__(self, fraction=0.5):
        self.clock = FakeClock()
        self.context = memory_library(clock=self.clock, ids=CountingIds())
        self.objects = CountingObjects(self.context.objects)
        self.picker = JobPicker(self.objects, self.clock, CountingIds(fraction), salt="me")

    async def queue(self, number, tier=NORMAL):
        await self.context.objects.put(layout.todo(tier, ident(number)), b"")
        return ident(number)

    @property
    def lists(self):
        return self.objects.counts["list"]


async def test_an_empty_poll_is_one_listing():
    library = LibraryUnderTest()
    for poll in range(1, 4):
        assert await library.picker.pick() is None
        assert library.lists == poll


async def test_one_job_among_none_is_found_at_the_first_look():
    library = LibraryUnderTest()
    job = await library.queue(1)
    assert (await library.picker.pick()).id == job


async def test_one_listing_feeds_many_claims():
    library = LibraryUnderTest()
    jobs = {await library.queue(number, TIERS[number % 5]) for number in range(200)}
    picked = []
    for _ in range(200):
        picked.append((await library.picker.pick()).id)
        library.picker.reset_misses()
    assert set(picked) == jobs
    assert library.lists == 4  # what waits, is worked on, failed, is dead


async def test_jobs_that_somebody_has_cost_one_more_listing():
    library = LibraryUnderTest()
    for number in range(20):
        job = await library.queue(number)
        await library.context.objects.put(layout.processing(job), b"{}")
    assert await library.picker.pick() is None
    assert library.lists == 2


async def test_what_other_tools_gave_up_is_left_alone():
    library = LibraryUnderTest()
    for number, key in enumerate((layout.failed, layout.dead, layout.processing)):
        await library.context.objects.put(key(await library.queue(number)), b"{}")
    free = await library.queue(7)
    assert (await library.picker.pick()).id == free
    await library.context.objects.delete([layout.todo(NORMAL, free)])
    assert await library.picker.pick() is None


async def test_urgent_jobs_come_first_and_others_in_between():
    library = LibraryUnderTest(fraction=0.0)
    for number in range(60):
        await library.queue(number, TOP if number < 40 else LAST)
    order = [(await library.picker.pick()).tier for _ in range(2 * EVERY)]
    assert [place for place, tier in enumerate(order) if tier == LAST] == [0, EVERY]


async def test_a_job_that_could_not_be_claimed_is_left_to_others_for_a_while():
    library = LibraryUnderTest()
    await library.queue(1)
    library.picker.skip(await library.picker.pick())
    assert await library.picker.pick() is None
    library.clock.advance(SKIP_SECONDS + 1)
    assert await library.picker.pick() is not None


async def test_what_was_seen_grows_old():
    library = LibraryUnderTest()
    for number in range(10):
        await library.queue(number)
    await library.picker.pick()
    urgent = await library.queue(99, TOP)
    assert (await library.picker.pick()).id != urgent
    library.clock.advance(VIEW_SECONDS + 1)
    assert (await library.picker.pick()).id == urgent


async def test_after_two_misses_it_looks_anew():
    library = LibraryUnderTest()
    for number in range(10):
        await library.queue(number)
    for _ in range(2):
        library.picker.skip(await library.picker.pick())
    before = library.lists
    await library.picker.pick()
    assert library.lists == before + 4


@pytest.fixture(scope="module")
def crowd():
    """More than a listing gives at once, in the top tier and below."""
    return [(f"{number:064x}", TOP) for number in range(0, 2**256, 2**256 // 2500)] + [
        (ident(number), tier) for number in range(3) for tier in (NORMAL, LAST)
    ]


def crowded(crowd, fraction):
    library = LibraryUnderTest(fraction)
    for job, tier in crowd:
        library.context.blobs.store(layout.todo(tier, job), b"")
    return library


@pytest.mark.parametrize("fraction", [0.1, 0.9])
async def test_in_a_crowd_each_worker_begins_somewhere_else(crowd, fraction):
    library = crowded(crowd, fraction)
    picked = [await library.picker.pick() for _ in range(900)]
    places = [int(one.id, 16) / 2**256 for one in picked if one.tier == TOP]
    assert len(places) == len(set(places)) > 880
    assert all((place - fraction) % 1 < 0.51 for place in places)  # round the end
    assert library.lists <= 20


async def test_in_a_crowd_the_lower_tiers_are_served(crowd):
    library = crowded(crowd, 0.5)
    tiers = Counter([(await library.picker.pick()).tier for _ in range(EVERY * 10)])
    assert tiers[NORMAL] == tiers[LAST] == 3


async def test_an_idle_fleet_makes_less_than_a_listing_a_second():
    """Twenty workers, an hour, each with chances of its own; jobs that others have included."""
    library = LibraryUnderTest()
    job = await library.queue(1)
    await library.context.objects.put(layout.processing(job), b"{}")
    for worker in range(20):
        picker = JobPicker(library.objects, library.clock, CountingIds(worker / 20), salt=str(worker))
        passed, empty = 0.0, 0
        while passed < 3600:
            assert await picker.pick() is None
            empty += 1
            passed += idle_seconds(empty, worker / 20)
    assert library.lists / 60 < 60
