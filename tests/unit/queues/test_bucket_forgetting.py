"""Ids that are forgotten in a bucket, and sent again at the same moment; sendings that broke off."""

import asyncio
from random import Random

import pytest

from quire.model.errors import Retry, Unavailable
from quire.queues.bucket_store import BucketQueues
from quire.queues.bucket_store.places import Places, segment
from quire.queues.bucket_store.records import Record, closed, decode, encode
from quire.queues.bucket_store.sending import GRACE_SECONDS
from quire.queues.port import DEDUPE_SECONDS, Message
from quire.testing.stormy_objects import StormyObjects, StormyStore, Weather
from quire.testing.time import CountingIds, FakeClock

MESSAGE = Message(id="m", body=b"m")
OVER = DEDUPE_SECONDS + 100
STATE = Places("q").state(segment("m"))


class Bucket:
    def __init__(self, seed=0):
        self.clock = FakeClock()
        self.store = StormyStore(self.clock.now)
        self.ids = CountingIds()
        self.chance = Random(seed)

    def queues(self):
        async def turn():
            for _ in range(self.chance.choice((0, 1, 4))):
                await asyncio.sleep(0)

        async def pause(_):
            await asyncio.sleep(0)

        objects = StormyObjects(self.store, "q", self.chance, Weather(), turn)
        return BucketQueues(objects, self.ids, pause=pause)


async def acknowledged(queues):
    await queues.send("q", [MESSAGE], now=0)
    await queues.acknowledge(await queues.lease("q", limit=1, seconds=9, now=0), now=1)


async def test_one_that_is_being_forgotten_is_refused_until_nobody_can_be_about_to_delete_it():
    bucket = Bucket()
    queues = bucket.queues()
    await acknowledged(queues)
    # As a sweep leaves it that was killed between its two steps.
    kept = bucket.store.objects[STATE]
    bucket.store.write("sweeper", STATE, encode(closed(decode(kept.body, Record))))
    with pytest.raises(Unavailable, match="again later"):
        await queues.send("q", [MESSAGE], now=OVER)
    assert await queues.sweep(now=OVER) == 0
    bucket.clock.advance(GRACE_SECONDS + 1)
    assert await queues.send("q", [MESSAGE], now=OVER) == 1
    assert len(await queues.lease("q", limit=9, seconds=9, now=OVER)) == 1


async def test_what_a_killed_sweep_began_the_next_one_ends_when_it_is_time():
    bucket = Bucket()
    queues = bucket.queues()
    await acknowledged(queues)
    kept = bucket.store.objects[STATE]
    bucket.store.write("sweeper", STATE, encode(closed(decode(kept.body, Record))))
    bucket.clock.advance(GRACE_SECONDS + 1)
    await queues.sweep(now=OVER)
    assert STATE not in bucket.store.objects
    assert not [key for key in bucket.store.objects if "/done/" in key]


@pytest.mark.parametrize("seed", range(60))
async def test_sent_again_while_it_is_forgotten_it_is_there_once_or_nobody_was_told_so(seed):
    bucket = Bucket(seed)
    await acknowledged(bucket.queues())
    several = [bucket.queues() for _ in range(4)]
    two = [MESSAGE, Message(id="other", body=b"")]
    answers = await asyncio.gather(
        several[0].sweep(now=OVER),
        several[1].send("q", [MESSAGE], now=OVER),
        several[2].sweep(now=OVER),
        several[3].send("q", two, now=OVER),
        return_exceptions=True,
    )
    sent = [answer for answer in (answers[1], answers[3]) if not isinstance(answer, Retry)]
    queues = bucket.queues()
    leased = [one.id for one in await queues.lease("q", limit=9, seconds=9, now=OVER)]
    assert leased.count("m") == (1 if sent else 0)
    assert leased.count("other") == (0 if isinstance(answers[3], Retry) else 1)


async def test_many_whose_sender_died_after_the_decision_are_delivered_after_a_sweep(monkeypatch):
    bucket = Bucket()
    queues = bucket.queues()
    put = queues._desk.reach.put

    async def dying(key, body=b""):
        if "/due/" in key:
            raise Unavailable("died")
        await put(key, body)

    monkeypatch.setattr(queues._desk.reach, "put", dying)
    messages = [Message(id=f"{number}", body=b"") for number in range(5)]
    with pytest.raises(Unavailable):
        await queues.send("q", messages, now=0)
    after = bucket.queues()
    assert await after.lease("q", limit=9, seconds=9, now=1) == []
    bucket.clock.advance(GRACE_SECONDS + 1)
    await after.sweep(now=2)
    assert [one.id for one in await after.lease("q", limit=9, seconds=9, now=2)] == list("01234")
    assert not [key for key in bucket.store.objects if "/sends/" in key]
    assert await after.send("q", messages, now=3) == 0


async def test_many_whose_sender_died_after_the_decision_are_delivered_when_they_are_sent_again(monkeypatch):
    bucket = Bucket()
    queues = bucket.queues()
    put = queues._desk.reach.put

    async def dying(key, body=b""):
        if "/due/" in key:
            raise Unavailable("died")
        await put(key, body)

    monkeypatch.setattr(queues._desk.reach, "put", dying)
    messages = [Message(id=f"{number}", body=b"") for number in range(5)]
    with pytest.raises(Unavailable):
        await queues.send("q", messages, now=0)
    after = bucket.queues()
    assert await after.send("q", messages, now=1) == 0
    assert [one.id for one in await after.lease("q", limit=9, seconds=9, now=1)] == list("01234")


async def test_many_whose_sender_died_before_the_decision_are_not_there_and_may_be_sent_again(monkeypatch):
    bucket = Bucket()
    queues = bucket.queues()
    swap = queues._desk.reach.swap

    async def dying(key, body, version):
        if "/sends/" in key:
            raise Unavailable("died")
        return await swap(key, body, version)

    monkeypatch.setattr(queues._desk.reach, "swap", dying)
    messages = [Message(id=f"{number}", body=b"") for number in range(5)]
    with pytest.raises(Unavailable):
        await queues.send("q", messages, now=0)
    after = bucket.queues()
    assert (await after.depth("q", now=1)).waiting == 0
    bucket.clock.advance(GRACE_SECONDS + 1)
    await after.sweep(now=1)
    assert await after.lease("q", limit=9, seconds=9, now=1) == []
    assert await after.send("q", messages, now=2) == 5
    assert len(await after.lease("q", limit=9, seconds=9, now=2)) == 5


async def test_who_meets_a_sending_that_nobody_ends_takes_it_for_dead(monkeypatch):
    bucket = Bucket()
    queues = bucket.queues()

    async def stuck(*_):
        raise Unavailable("died")

    monkeypatch.setattr(queues._desk.reach, "swap", stuck)
    with pytest.raises(Unavailable):
        await queues.send("q", [MESSAGE, Message(id="n", body=b"")], now=0)
    assert await bucket.queues().send("q", [MESSAGE], now=1) == 1
    assert [one.id for one in await bucket.queues().lease("q", limit=9, seconds=9, now=1)] == ["m"]
