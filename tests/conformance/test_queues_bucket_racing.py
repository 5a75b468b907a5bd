"""Several consumers on one S3 bucket: whatever they do at the same moment, a message is out once."""

import asyncio
from collections import Counter

import pytest

from quire.blobs.s3_objects import S3Objects
from quire.model.errors import Lost
from quire.queues.bucket_store import BucketQueues
from quire.queues.port import Chosen, Happening, Message
from quire.system import SystemClock, SystemIds

pytestmark = pytest.mark.service
MESSAGES = [Message(id=f"{number:03d}", body=b"%d" % number) for number in range(60)]


@pytest.fixture
async def consumers(s3_server):
    ids = SystemIds()
    prefix = f"racing/{ids.ulid()}"
    stores = [
        S3Objects(
            clock=SystemClock(),
            ids=ids,
            bucket=s3_server.bucket,
            endpoint=s3_server.endpoint,
            region=s3_server.region,
            access_key_id=s3_server.access_key_id,
            secret_access_key=s3_server.secret_access_key,
            prefix=prefix,
            allow_http=True,
        )
        for _ in range(3)
    ]
    queues = [BucketQueues(objects, ids) for objects in stores]
    yield queues
    for one in queues:
        await one.close()
    for objects in stores:
        await objects.close()


async def consume(queues):
    everything = []
    while got := await queues.lease("q", limit=5, seconds=60, now=1):
        await queues.acknowledge(got, now=2)
        everything += got
    return everything


async def test_consumers_share_a_queue_and_nothing_is_leased_twice(consumers):
    assert await consumers[0].send("q", MESSAGES, now=0) == len(MESSAGES)
    shares = await asyncio.gather(*(consume(queues) for queues in consumers))
    # Who lost all of a page to others may have gone home before the end.
    shares.append(await consume(consumers[0]))
    leased = [one for share in shares for one in share]
    assert sorted((one.id, one.body) for one in leased) == [(one.id, one.body) for one in MESSAGES]
    assert {one.deliveries for one in leased} == {1}
    depth = await consumers[0].depth("q", now=10**9)
    assert (depth.waiting, depth.leased, depth.dead) == (0, 0, 0)


async def test_a_lease_ended_in_several_ways_at_once_ends_in_one(consumers):
    await consumers[0].send("q", MESSAGES[:8], now=0)
    for leased in await consumers[0].lease("q", limit=8, seconds=60, now=1):
        answers = await asyncio.gather(
            consumers[0].acknowledge([leased], now=2),
            consumers[1].release(leased, now=2, delay_seconds=100, error="x"),
            consumers[2].bury(leased, now=2, reason="x"),
            return_exceptions=True,
        )
        assert [type(answer) for answer in answers if answer is not None] == [Lost, Lost]


async def test_the_same_messages_sent_at_once_in_opposite_orders_are_there_once(consumers):
    orders = (MESSAGES, MESSAGES[::-1], MESSAGES[30:] + MESSAGES[:30])
    new = await asyncio.gather(
        *(queues.send("q", order, now=0) for queues, order in zip(consumers, orders, strict=True))
    )
    assert sum(new) == len(MESSAGES)
    leased = await consumers[0].lease("q", limit=1000, seconds=60, now=1)
    assert Counter(one.id for one in leased) == Counter(one.id for one in MESSAGES)


async def test_those_who_replay_and_discard_share_the_dead(consumers):
    await consumers[0].send("q", MESSAGES[:20], now=0)
    leased = await consumers[0].lease("q", limit=20, seconds=60, now=1)
    await asyncio.gather(*(consumers[0].bury(one, now=1, reason="x") for one in leased))
    calls = [queues.replay("q", now=2, limit=10) for queues in consumers[:2]]
    calls.append(consumers[2].discard("q", chosen=Chosen(text="X"), now=2, limit=10))
    acted = await asyncio.gather(*calls)
    depth = await consumers[0].depth("q", now=2)
    assert (depth.dead, depth.waiting) == (20 - sum(acted), acted[0] + acted[1])


async def test_others_are_noticed_by_asking_and_their_counts_are_seen(consumers):
    mine, theirs, _ = consumers
    await mine.wait(["q"], seconds=60)  # the first time comes back at once: now it knows the bell
    assert await mine.lease("q", limit=1, seconds=9, now=0) == []
    waiting = asyncio.create_task(mine.wait(["q"], seconds=60))
    async with asyncio.timeout(30):
        await theirs.send("q", MESSAGES[:1], now=0)
        await waiting
    assert len(await mine.lease("q", limit=1, seconds=9, now=0)) == 1
    await theirs.close()  # lays down what it has counted
    counted = await mine.counters("q")
    assert (counted[Happening.SENT], counted[Happening.DELIVERED]) == (1, 1)
