"""Which jobs a janitor looks at, and what becomes of them."""

import hashlib

import pytest
from tests.situations.libraries import CountingObjects, list_keys, memory_library

from quire.library.context import LibraryRules
from quire.library.janitor import CLOCK_SECONDS, SWEPT, ListedMarkers, SweepSchedule, find_doubt, sweep
from quire.library.protocol import layout, lifecycle, operator
from quire.library.protocol.bodies import FailedMarker, JobRecord, LockMarker, decode, encode
from quire.library.protocol.janitor import SettleOutcome
from quire.library.protocol.lifecycle import JobCandidate
from quire.library.protocol.requests import PutObject, StoreAccess, perform
from quire.model.errors import Retry
from quire.testing.time import CountingIds, FakeClock

NOW, STALE = 10_000.0, 900.0
OLD, FRESH = NOW - 5000, NOW - 10


@pytest.mark.parametrize(
    ("marks", "why"),
    [
        (ListedMarkers(tiers=1, todo=OLD), ""),  # never tried
        (ListedMarkers(tiers=2, todo=OLD), ""),  # another tool's; the claim and the end see to it
        (ListedMarkers(tiers=1, todo=OLD, processing=FRESH, state=FRESH), ""),  # at work
        (ListedMarkers(tiers=1, todo=OLD, processing=OLD, state=FRESH), ""),  # its lock cannot be written
        (ListedMarkers(processing=FRESH), ""),  # of another tool
        (ListedMarkers(tiers=1, todo=OLD, state=OLD), ""),  # tried, waits again
        (ListedMarkers(tiers=1, todo=OLD + 5, state=OLD), ""),
        (ListedMarkers(dead=OLD), ""),
        (ListedMarkers(dead=OLD, tiers=1, todo=OLD), "contradictory"),  # as other janitors leave it
        (ListedMarkers(dead=OLD, state=OLD, state_size=43), ""),
        (ListedMarkers(dead=OLD, state=OLD, state_size=40), "displaced"),  # it waits, without a marker
        (ListedMarkers(tiers=1, todo=OLD, state=OLD, state_size=41), "displaced"),  # its lock was deleted
        (ListedMarkers(dead=FRESH), "buried"),  # perhaps it was finished meanwhile
        (ListedMarkers(dead=OLD, tiers=1, todo=OLD, tried=True), "contradictory"),  # or a retry of theirs
        (ListedMarkers(tiers=1, todo=OLD, tried=True), "stateless"),
        (ListedMarkers(tiers=1, todo=NOW, state=FRESH - 80), ""),  # too early to tell
        (ListedMarkers(tiers=1, todo=OLD, processing=OLD, state=OLD), "silent"),
        (ListedMarkers(tiers=1, todo=OLD, processing=OLD), "silent"),
        (ListedMarkers(processing=FRESH, state=OLD), ""),  # another tool's worker took it up
        (ListedMarkers(failed=True), "failed"),
        (ListedMarkers(failed=True, state=FRESH), "failed"),
        (ListedMarkers(failed=True, tiers=1, todo=FRESH, processing=FRESH), "failed"),
        (ListedMarkers(state=FRESH), "unmarked"),
        (ListedMarkers(state=OLD), "unmarked"),
        (ListedMarkers(state=OLD, tiers=2, todo=OLD), "contradictory"),
        # The size of a state tells what it says: queued again by another tool within the same second.
        (ListedMarkers(state=OLD, state_size=40, tiers=1, todo=OLD), ""),  # waiting
        (ListedMarkers(state=OLD, state_size=42, tiers=1, todo=OLD), "contradictory"),  # failed
        (ListedMarkers(state=FRESH, state_size=43, tiers=1, todo=FRESH + 5), "contradictory"),  # dead
        (ListedMarkers(state=OLD, tiers=1, todo=OLD, dead=OLD), "contradictory"),
        (
            ListedMarkers(state=OLD, tiers=1, todo=OLD + 1000),
            "displaced",
        ),  # its lock was taken away by another tool
        (ListedMarkers(state=OLD, tiers=1, todo=OLD - 1000), "displaced"),
        (
            ListedMarkers(state=OLD, dead=OLD - 1000),
            "displaced",
        ),  # tried again by a person who got no further
        (ListedMarkers(state=FRESH, dead=OLD), ""),
    ],
)
def test_the_listing_tells_what_is_doubtful(marks, why):
    assert find_doubt(marks, NOW, STALE) == why


def ident(number):
    return hashlib.sha256(str(number).encode()).hexdigest()


class LibraryUnderTest:
    def __init__(self):
        self.clock = FakeClock()
        self.context = memory_library(clock=self.clock, ids=CountingIds(), rules=LibraryRules(max_retries=1))
        self.actor = self.context.actor("w")

    async def queue(self, number, tier="3_normal"):
        await self.context.objects.put(layout.todo(tier, ident(number)), b"")
        return ident(number)

    async def claimed(self, number):
        job = await self.queue(number)
        return await self.context.perform(lifecycle.claim(JobCandidate(id=job, tier="3_normal"), self.actor))

    async def job(self, number):
        found = await self.context.objects.read(layout.state(ident(number)))
        return None if found is None else decode(found.body, JobRecord)


async def test_healthy_jobs_cost_nothing():
    library = LibraryUnderTest()
    await library.queue(1)
    for number in (2, 3, 4):
        held = await library.claimed(number)
        if number == 3:
            await library.context.perform(lifecycle.release(held, library.actor, "graceful_shutdown"))
        if number == 4:
            await library.context.perform(lifecycle.fail(held, library.actor, "no"))
    await sweep(library.context)  # what failed waits again
    library.clock.advance(600)
    await library.context.objects.put("queue/readme.txt", b"hello")
    objects = CountingObjects(library.context.objects)
    context = type(library.context)(
        objects=objects,
        blobs=library.context.blobs,
        clock=library.clock,
        ids=library.context.ids,
        rules=library.context.rules,
    )
    swept = await sweep(context)
    assert swept.settled == []
    assert swept.jobs == 4
    assert objects.counts == {"list": 2, "now": 1}


async def test_a_silent_job_waits_again_and_then_is_given_up():
    library = LibraryUnderTest()
    await library.claimed(1)
    library.clock.advance(STALE + 1)
    swept = await sweep(library.context)
    assert [(one.job, one.why, one.done) for one in swept.settled] == [
        (ident(1), "silent", SettleOutcome.REQUEUED)
    ]
    assert (await library.job(1)).state == "waiting"
    await library.context.perform(
        lifecycle.claim(JobCandidate(id=ident(1), tier="3_normal", blank=False), library.actor)
    )
    library.clock.advance(STALE + 1)
    assert (await sweep(library.context)).counts == {"buried": 1}
    assert await list_keys(library.context) == sorted([layout.dead(ident(1)), layout.state(ident(1))])


async def test_what_is_left_of_finished_jobs_goes():
    library = LibraryUnderTest()
    for number in range(3):
        await library.claimed(number)
        library.context.blobs.store(layout.out(ident(number)), b"zip")
    await library.context.objects.delete([layout.processing(ident(1)), *layout.todos(ident(1))])
    library.clock.advance(STALE + 1)
    assert (await sweep(library.context)).counts == {"cleared": 3}
    assert await list_keys(library.context) == []


async def test_a_marker_that_came_too_late_goes():
    library = LibraryUnderTest()
    library.context.blobs.store(layout.out(ident(1)), b"zip")
    library.context.blobs.store(layout.todo("2_high", ident(1)), b'{"retries":1}')
    assert (await sweep(library.context)).counts == {"cleared": 1}
    assert await list_keys(library.context) == []


async def test_jobs_of_other_tools_are_settled_by_their_rules():
    library = LibraryUnderTest()
    failed, lock = await library.queue(1), await library.queue(2)
    await library.context.objects.put(
        layout.failed(failed), encode(FailedMarker(error="e", priority="2_high"))
    )
    await library.context.objects.put(layout.processing(lock), encode(LockMarker(worker="x", retries=1)))
    library.clock.advance(STALE + 1)
    swept = await sweep(library.context)
    assert {one.job: one.done for one in swept.settled} == {
        failed: SettleOutcome.REQUEUED,
        lock: SettleOutcome.DEAD,
    }
    assert layout.todo("2_high", failed) in await list_keys(library.context)
    assert layout.dead(lock) in await list_keys(library.context)


async def test_a_lock_that_another_tool_took_away_is_noticed():
    library = LibraryUnderTest()
    await library.claimed(1)
    library.clock.advance(STALE + 1)
    await library.context.objects.put(layout.todo("3_normal", ident(1)), b'{"retries":1}')
    await library.context.objects.delete([layout.processing(ident(1))])
    swept = await sweep(library.context)
    assert [(one.why, one.done) for one in swept.settled] == [("displaced", SettleOutcome.REQUEUED)]
    assert (await library.job(1)).state == "waiting"


async def test_a_rehearsal_tells_the_same_and_changes_nothing():
    library = LibraryUnderTest()
    for number in range(5):
        await library.claimed(number)
    library.clock.advance(STALE + 1)
    before = {
        key: (await library.context.objects.read(key)).version for key in await list_keys(library.context)
    }
    rehearsed = await sweep(library.context, dry_run=True)
    assert before == {
        key: (await library.context.objects.read(key)).version for key in await list_keys(library.context)
    }
    done = await sweep(library.context)
    assert rehearsed.counts == done.counts == {"requeued": 5}
    assert rehearsed.dry_run


async def test_more_than_a_listing_gives_at_once():
    library = LibraryUnderTest()
    for number in range(2300):
        library.context.blobs.store(layout.failed(ident(number)), b"")
    swept = await sweep(library.context)
    assert swept.seen == 2300
    assert swept.counts == {"requeued": 2300}


async def test_one_job_that_cannot_be_settled_does_not_stop_the_others():
    library = LibraryUnderTest()
    for number in range(4):
        library.context.blobs.store(layout.failed(ident(number)), b"")

    def refuse(what, key):
        if key == layout.state(ident(2)):
            raise Retry("not now")

    objects = CountingObjects(library.context.objects, refuse)
    context = type(library.context)(
        objects=objects,
        blobs=library.context.blobs,
        clock=library.clock,
        ids=library.context.ids,
        rules=library.context.rules,
    )
    told = []
    swept = await sweep(context, on_event=told.append)
    assert swept.counts == {"requeued": 3, "error": 1}
    assert [(one.job, one.error) for one in told if one.done is None] == [(ident(2), "not now")]


async def test_clocks_that_were_left_are_removed():
    library = LibraryUnderTest()
    library.context.blobs.store("registry/clock/old", b"{}")
    library.clock.advance(CLOCK_SECONDS + 1)
    library.context.blobs.store("registry/clock/new", b"{}")
    assert (await sweep(library.context, dry_run=True)).clocks == 1
    assert (await sweep(library.context)).clocks == 1
    assert await list_keys(library.context, "registry") == ["registry/clock/new"]


async def test_a_manifest_is_compacted_too():
    class Manifest:
        compacted = 0

        async def compact(self):
            self.compacted += 1

    manifest = Manifest()
    await sweep(LibraryUnderTest().context, manifest, dry_run=True)
    assert manifest.compacted == 0
    await sweep(LibraryUnderTest().context, manifest)
    assert manifest.compacted == 1


async def test_of_many_watchers_one_makes_the_pass_of_an_interval():
    library = LibraryUnderTest()
    watches = [SweepSchedule(library.context, 300.0) for _ in range(20)]
    assert [await watch.is_due() for watch in watches] == [False] * 20
    passes = []
    for _ in range(10):
        library.clock.advance(301)
        passes.append(sum([await watch.is_due() for watch in watches]))
    assert passes == [1] * 10
    assert await library.context.objects.head(SWEPT) is not None


async def test_a_retry_that_got_no_further_than_the_state_is_completed():
    library = LibraryUnderTest()
    for _ in range(2):
        await library.context.perform(lifecycle.fail(await library.claimed(1), library.actor, "no"))
        await sweep(library.context)
    assert (await library.job(1)).state == "dead"
    library.clock.advance(60)
    asking = operator.retry(ident(1), library.actor, tier=None, reset=False)
    means, answer = StoreAccess(objects=library.context.objects), None
    while not isinstance(ask := asking.send(answer), PutObject):
        answer = await perform(_one(ask), means)
    assert (await library.job(1)).state == "waiting"
    assert (await sweep(library.context)).settled == [], "whoever did that may be about to go on"
    library.clock.advance(STALE + 1)
    assert [one.done for one in (await sweep(library.context)).settled] == [SettleOutcome.REPAIRED]
    assert await library.context.objects.head(layout.todo("3_normal", ident(1)))
    assert not await library.context.objects.head(layout.dead(ident(1)))


def _one(ask):
    return (yield ask)


async def test_what_other_tools_gave_up_stays_so_with_its_reason():
    library = LibraryUnderTest()
    body = b'{"error":"its own reason","total_retries":0}'
    await library.context.objects.put(layout.dead(ident(1)), body)
    await library.context.objects.put(layout.processing(ident(1)), b'{"worker":"theirs","retries":0}')
    library.clock.advance(STALE + 1)
    swept = await sweep(library.context)
    assert [(one.why, one.done) for one in swept.settled] == [("silent", SettleOutcome.REPAIRED)]
    assert not await library.context.objects.head(layout.processing(ident(1)))
    assert (await library.context.objects.read(layout.dead(ident(1)))).body == body
    assert await library.job(1) is None


async def test_a_silent_worker_of_another_tool_is_named():
    library = LibraryUnderTest()
    await library.context.objects.put(layout.processing(ident(1)), b'{"worker":"theirs","retries":0}')
    library.clock.advance(STALE + 1)
    await sweep(library.context)
    assert (await library.job(1)).error == "the worker theirs went silent"
