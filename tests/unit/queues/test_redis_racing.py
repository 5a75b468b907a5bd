"""Several consumers on one Redis: whatever they do at the same moment, a message is out once."""

import asyncio
import uuid

import pytest

from quire.model.errors import Lost
from quire.queues.port import Message
from quire.queues.redis_streams import RedisStreamQueues
from quire.testing.time import CountingIds

pytestmark = pytest.mark.service
MESSAGES = [Message(id=f"{number:03d}", body=b"%d" % number) for number in range(500)]


@pytest.fixture
async def consumers(redis_server):
    ids = CountingIds()  # shared: real ids are never the same twice
    prefix = f"test-{uuid.uuid4().hex}"
    both = [RedisStreamQueues(redis_server, ids=ids, prefix=prefix) for _ in range(2)]
    yield both
    for queues in both:
        await queues.close()


async def consume(queues, both_have_some):
    """Lease and acknowledge until there is nothing left; goes on only when the other has some as well."""
    got = await queues.lease("q", limit=7, seconds=60, now=1)
    everything = list(got)
    await both_have_some.wait()
    while got:
        await queues.acknowledge(got, now=2)
        got = await queues.lease("q", limit=7, seconds=60, now=2)
        everything += got
    return everything


async def test_two_consumers_share_a_queue_and_nothing_is_leased_twice(consumers):
    await consumers[0].send("q", MESSAGES, now=0)
    both_have_some = asyncio.Barrier(2)
    shares = await asyncio.gather(*(consume(queues, both_have_some) for queues in consumers))
    assert all(shares)
    leased = [one for share in shares for one in share]
    assert sorted((one.id, one.body) for one in leased) == [(one.id, one.body) for one in MESSAGES]
    assert {one.deliveries for one in leased} == {1}
    depth = await consumers[0].depth("q", now=10**9)
    assert (depth.waiting, depth.leased, depth.dead) == (0, 0, 0)


async def test_leases_that_ran_out_are_taken_over_by_one_of_two(consumers):
    await consumers[0].send("q", MESSAGES, now=0)
    await consumers[0].lease("q", limit=len(MESSAGES), seconds=1, now=0)
    calls = [queues.lease("q", limit=90, seconds=60, now=2) for queues in consumers for _ in range(4)]
    again = [one for leased in await asyncio.gather(*calls) for one in leased]
    assert sorted(one.id for one in again) == [one.id for one in MESSAGES]
    assert {one.deliveries for one in again} == {2}


async def test_the_same_messages_sent_at_once_are_there_once(consumers):
    calls = [
        queues.send("q", messages, now=0) for queues in consumers for messages in (MESSAGES, MESSAGES[::-1])
    ]
    assert sorted(await asyncio.gather(*calls)) == [0, 0, 0, len(MESSAGES)]
    assert (await consumers[0].depth("q", now=0)).waiting == len(MESSAGES)


async def test_a_lease_ended_in_two_ways_at_once_ends_in_one(consumers):
    await consumers[0].send("q", MESSAGES[:20], now=0)
    for leased in await consumers[0].lease("q", limit=20, seconds=60, now=1):
        answers = await asyncio.gather(
            consumers[0].acknowledge([leased], now=2),
            consumers[1].release(leased, now=2, error="x"),
            consumers[1].dead_letter(leased, now=2, reason="x"),
            return_exceptions=True,
        )
        assert [type(answer) for answer in answers if answer is not None] == [Lost, Lost]


async def test_more_calls_at_once_than_connections_wait_their_turn(consumers):
    await consumers[0].send("q", MESSAGES[:100], now=0)
    calls = [consumers[0].lease("q", limit=1, seconds=60, now=1) for _ in range(100)]
    assert len({got[0].id for got in await asyncio.gather(*calls)}) == 100
