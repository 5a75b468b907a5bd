"""The heartbeat: still ours, lost, or nobody can tell."""

import asyncio

import pytest
from msgspec import structs
from tests.situations.libraries import CountingObjects, ingest_text, memory_library

from quire.library.context import LibraryRules
from quire.library.protocol import layout, lifecycle, operator
from quire.library.protocol.bodies import JobRecord, LockMarker, decode
from quire.library.protocol.lifecycle import JobCandidate
from quire.library.worker.heartbeat import Heartbeat
from quire.model.errors import Misconfigured, Retry
from quire.testing.time import CountingIds, FakeClock

SOON = 0.01


class LibraryUnderTest:
    def __init__(self, seconds=SOON):
        self.clock = FakeClock()
        context = memory_library(
            clock=self.clock, ids=CountingIds(), rules=LibraryRules(heartbeat_seconds=seconds)
        )
        self.objects = CountingObjects(context.objects)
        self.context = structs.replace(context, objects=self.objects)
        self.beaten = asyncio.Event()
        self.beats = 0

    async def claimed(self):
        job = await ingest_text(self.context, "x")
        held = await self.context.perform(
            lifecycle.claim(JobCandidate(id=job, tier="3_normal"), self.context.actor("w"))
        )
        self.objects.counts.clear()
        return held

    def progress(self):
        self.beats += 1
        self.beaten.set()
        return {"stage": "converting", "beat": self.beats}

    def beating(self, held):
        return Heartbeat(self.context, held, self.context.actor("w"), self.progress)

    async def state(self, job):
        return decode((await self.context.objects.read(layout.state(job))).body, JobRecord)


async def test_it_beats_and_shows_progress():
    library = LibraryUnderTest()
    held = await library.claimed()
    async with library.beating(held) as beating:
        while library.beats < 3:
            library.beaten.clear()
            await library.beaten.wait()
    assert not beating.lost.is_set()
    assert beating.held.version != held.version
    lock = decode((await library.context.objects.read(layout.processing(held.id))).body, LockMarker)
    assert lock.progress == {"stage": "converting", "beat": library.beats}
    # What it says it holds is what can be written on.
    assert (
        await library.context.perform(lifecycle.fail(beating.held, library.context.actor("w"), "e"))
        is not None
    )


async def test_a_job_that_was_taken_is_lost_and_not_touched():
    library = LibraryUnderTest()
    held = await library.claimed()
    async with library.beating(held) as beating:
        await library.context.perform(operator.cancel(held.id, library.context.actor("p"), tier=None))
        await asyncio.wait_for(beating.lost.wait(), 10)
        assert not await beating.is_held(1e9)
    assert (await library.state(held.id)).state == "waiting"
    assert await library.context.objects.head(layout.processing(held.id)) is None


@pytest.mark.parametrize("error", [Retry("away"), Misconfigured("expired")])
async def test_a_store_that_is_away_is_no_loss(error):
    library = LibraryUnderTest()
    held = await library.claimed()
    refused = 0
    back = asyncio.Event()

    def refuse(what, key):
        nonlocal refused
        if what == "swap" and refused < 3:
            refused += 1
            raise error
        if refused == 3:
            back.set()

    library.objects.before = refuse
    async with library.beating(held) as beating:
        await asyncio.wait_for(back.wait(), 10)
    assert not beating.lost.is_set()


async def test_a_beat_whose_answer_was_lost_is_our_own():
    library = LibraryUnderTest(seconds=1000)
    held = await library.claimed()
    swap = library.objects._objects.swap

    async def deaf(key, body, version):
        await swap(key, body, version)
        raise Retry("the answer was lost")

    async with library.beating(held) as beating:
        library.objects._objects.swap = deaf
        library.clock.advance(11)
        assert await beating.is_held(10)
        library.objects._objects.swap = swap
        assert await beating.is_held(10)
        assert not beating.lost.is_set()
    assert (await library.state(held.id)).state == "running"
    assert (
        await library.context.perform(lifecycle.release(beating.held, library.context.actor("w"), "r"))
        is not None
    )


async def test_after_a_lost_answer_somebody_elses_state_is_not_ours():
    library = LibraryUnderTest(seconds=1000)
    held = await library.claimed()
    swap = library.objects._objects.swap

    async def unheard(key, body, version):
        raise Retry("away")

    async with library.beating(held) as beating:
        library.objects._objects.swap = unheard
        library.clock.advance(11)
        assert await beating.is_held(10)
        library.objects._objects.swap = swap
        await library.context.perform(operator.cancel(held.id, library.context.actor("p"), tier=None))
        assert not await beating.is_held(10)


async def test_a_beat_is_asked_for_only_when_the_last_is_old():
    library = LibraryUnderTest(seconds=1000)
    held = await library.claimed()
    async with library.beating(held) as beating:
        library.clock.advance(9)
        assert await beating.is_held(10)
        assert library.objects.counts == {}
        library.clock.advance(2)
        assert await beating.is_held(10)
        assert library.objects.counts == {"swap": 2}
