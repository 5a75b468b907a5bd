"""The heartbeat: still ours, lost, or nobody can tell."""

import asyncio

import pytest
from msgspec import structs
from tests.situations.library_memory import CountingObjects, ingest, memory_room

from quire.library.context import LibraryRules
from quire.library.worker.heartbeat import Heartbeat
from quire.library.protocol import layout, lifecycle, operator
from quire.library.protocol.bodies import JobRecord, LockMarker, decode
from quire.library.protocol.lifecycle import JobCandidate
from quire.model.errors import Misconfigured, Retry
from quire.testing.time import FakeClock

SOON = 0.01


class House:
    def __init__(self, seconds=SOON):
        self.clock = FakeClock()
        room = memory_room(clock=self.clock, rules=LibraryRules(heartbeat_seconds=seconds))
        self.objects = CountingObjects(room.objects)
        self.room = structs.replace(room, objects=self.objects)
        self.beaten = asyncio.Event()
        self.beats = 0

    async def claimed(self):
        job = await ingest(self.room, "x")
        held = await self.room.perform(
            lifecycle.claim(JobCandidate(id=job, tier="3_normal"), self.room.terms("w"))
        )
        self.objects.counts.clear()
        return held

    def progress(self):
        self.beats += 1
        self.beaten.set()
        return {"stage": "converting", "beat": self.beats}

    def beating(self, held):
        return Heartbeat(self.room, held, self.room.terms("w"), self.progress)

    async def state(self, job):
        return decode((await self.room.objects.read(layout.state(job))).body, JobRecord)


async def test_it_beats_and_shows_progress():
    house = House()
    held = await house.claimed()
    async with house.beating(held) as beating:
        while house.beats < 3:
            house.beaten.clear()
            await house.beaten.wait()
    assert not beating.lost.is_set()
    assert beating.held.version != held.version
    lock = decode((await house.room.objects.read(layout.processing(held.id))).body, LockMarker)
    assert lock.progress == {"stage": "converting", "beat": house.beats}
    # What it says it holds is what can be written on.
    assert await house.room.perform(lifecycle.fail(beating.held, house.room.terms("w"), "e")) is not None


async def test_a_job_that_was_taken_is_lost_and_not_touched():
    house = House()
    held = await house.claimed()
    async with house.beating(held) as beating:
        await house.room.perform(operator.cancel(held.id, house.room.terms("p"), tier=None))
        await asyncio.wait_for(beating.lost.wait(), 10)
        assert not await beating.fresh(1e9)
    assert (await house.state(held.id)).state == "waiting"
    assert await house.room.objects.head(layout.processing(held.id)) is None


@pytest.mark.parametrize("error", [Retry("away"), Misconfigured("expired")])
async def test_a_store_that_is_away_is_no_loss(error):
    house = House()
    held = await house.claimed()
    refused = 0
    back = asyncio.Event()

    def refuse(what, key):
        nonlocal refused
        if what == "swap" and refused < 3:
            refused += 1
            raise error
        if refused == 3:
            back.set()

    house.objects.before = refuse
    async with house.beating(held) as beating:
        await asyncio.wait_for(back.wait(), 10)
    assert not beating.lost.is_set()


async def test_a_beat_whose_answer_was_lost_is_our_own():
    house = House(seconds=1000)
    held = await house.claimed()
    swap = house.objects._objects.swap

    async def deaf(key, body, version):
        await swap(key, body, version)
        raise Retry("the answer was lost")

    async with house.beating(held) as beating:
        house.objects._objects.swap = deaf
        house.clock.advance(11)
        assert await beating.fresh(10)
        house.objects._objects.swap = swap
        assert await beating.fresh(10)
        assert not beating.lost.is_set()
    assert (await house.state(held.id)).state == "running"
    assert await house.room.perform(lifecycle.release(beating.held, house.room.terms("w"), "r")) is not None


async def test_after_a_lost_answer_somebody_elses_state_is_not_ours():
    house = House(seconds=1000)
    held = await house.claimed()
    swap = house.objects._objects.swap

    async def unheard(key, body, version):
        raise Retry("away")

    async with house.beating(held) as beating:
        house.objects._objects.swap = unheard
        house.clock.advance(11)
        assert await beating.fresh(10)
        house.objects._objects.swap = swap
        await house.room.perform(operator.cancel(held.id, house.room.terms("p"), tier=None))
        assert not await beating.fresh(10)


async def test_a_beat_is_asked_for_only_when_the_last_is_old():
    house = House(seconds=1000)
    held = await house.claimed()
    async with house.beating(held) as beating:
        house.clock.advance(9)
        assert await beating.fresh(10)
        assert house.objects.counts == {}
        house.clock.advance(2)
        assert await beating.fresh(10)
        assert house.objects.counts == {"swap": 2}
