"""Two consumers on one PostgreSQL: whatever they do at the same moment, a message is out once."""

import asyncio

import pytest
from tests.servers.postgres import fresh_schema

from quire.database.postgres import PostgresDatabase
from quire.model.errors import Lost
from quire.queues.port import DeadLetterFilter, Message, QueueCounter
from quire.queues.postgres import PostgresQueues
from quire.testing.time import CountingIds

pytestmark = pytest.mark.service
MESSAGES = [Message(id=f"{number:03d}", body=b"%d" % number) for number in range(500)]


@pytest.fixture
async def databases(postgres_server):
    dsn = fresh_schema(postgres_server)
    both = [PostgresDatabase(dsn) for _ in range(2)]
    for database in both:
        await database.open()
    yield both
    for database in both:
        await database.close()


@pytest.fixture
async def consumers(databases):
    ids = CountingIds()  # shared: real ids are never the same twice
    both = [PostgresQueues(database, ids) for database in databases]
    # At once: migrations race as well.
    await asyncio.gather(*(queues.prepare() for queues in both))
    return both


async def consume(queues, both_have_some):
    """Lease and acknowledge until there is nothing left; goes on only when the other has some as well."""
    got = await queues.lease("q", limit=7, seconds=60, now=1)
    everything = list(got)
    await both_have_some.wait()
    while got:
        await asyncio.gather(*(queues.acknowledge(got[part::2], now=2) for part in range(2)))
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
    # One that found rows locked passed them over and may have come back with fewer: the rest still waits.
    again += await consumers[0].lease("q", limit=len(MESSAGES), seconds=60, now=2)
    assert sorted(one.id for one in again) == [one.id for one in MESSAGES]
    assert {one.deliveries for one in again} == {2}


async def test_a_lease_does_not_wait_for_one_that_is_under_way(consumers, databases):
    await consumers[0].send("q", MESSAGES[:4], now=0)
    locked, enough = asyncio.Event(), asyncio.Event()

    async def hold(connection):
        await connection.execute("SELECT no FROM messages WHERE id IN ('000', '002') FOR UPDATE")
        locked.set()
        await enough.wait()

    holding = asyncio.create_task(databases[0].write(hold))
    await locked.wait()
    try:
        async with asyncio.timeout(10):  # reached only by a lease that waits
            leased = await consumers[1].lease("q", limit=4, seconds=60, now=1)
    finally:
        enough.set()
        await holding
    assert [one.id for one in leased] == ["001", "003"]


async def test_the_same_messages_sent_at_once_in_opposite_orders_are_there_once(consumers, databases):
    """Rows written in the order of the sending would end in a deadlock."""
    begun, enough = asyncio.Event(), asyncio.Event()

    async def hold(connection):
        # Neither order gets past the middle, so that both have begun before one of them can end.
        await connection.execute(
            "INSERT INTO messages (queue, id, body, due_at, sent_at) VALUES ('q', '250', '', 0, 0)"
        )
        begun.set()
        await enough.wait()
        await connection.rollback()

    async def waiting(connection):
        query = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND datname = current_database() AND query LIKE '%messages_no%'"
        )
        return (await (await connection.execute(query)).fetchone())[0]

    holding = asyncio.create_task(databases[0].write(hold))
    await begun.wait()
    sends = [
        asyncio.create_task(queues.send("q", messages, now=0))
        for queues, messages in zip(consumers, (MESSAGES, MESSAGES[::-1]), strict=True)
    ]
    try:
        async with asyncio.timeout(10):
            while await databases[0].read(waiting) < len(sends):
                pass
    finally:
        enough.set()
        await holding
    await asyncio.gather(*sends)
    assert (await consumers[0].depth("q", now=0)).waiting == len(MESSAGES)


async def test_a_lease_ended_in_two_ways_at_once_ends_in_one(consumers):
    await consumers[0].send("q", MESSAGES[:20], now=0)
    for leased in await consumers[0].lease("q", limit=20, seconds=60, now=1):
        answers = await asyncio.gather(
            consumers[0].acknowledge([leased], now=2),
            consumers[1].release(leased, now=2, delay_seconds=0, error="x"),
            consumers[1].dead_letter(leased, now=2, reason="x"),
            return_exceptions=True,
        )
        assert [type(answer) for answer in answers if answer is not None] == [Lost, Lost]


async def test_two_that_replay_and_discard_share_the_dead_letters(consumers):
    await consumers[0].send("q", MESSAGES[:60], now=0)
    leased = await consumers[0].lease("q", limit=60, seconds=60, now=1)
    await asyncio.gather(*(consumers[0].dead_letter(one, now=1, reason="x") for one in leased))
    calls = [queues.replay("q", now=2, limit=30) for queues in consumers]
    calls += [queues.discard("q", chosen=DeadLetterFilter(text="X"), now=2, limit=30) for queues in consumers]
    acted = sum(await asyncio.gather(*calls))
    depth = await consumers[0].depth("q", now=2)
    counted = await consumers[0].counters("q")
    assert depth.dead == 60 - acted
    assert (depth.waiting, counted[QueueCounter.REPLAYED]) == (
        60 - depth.dead - counted[QueueCounter.DISCARDED],
    ) * 2


async def test_sent_again_while_it_is_acknowledged_it_is_known(consumers):
    for _ in range(10):
        await consumers[0].send("q", MESSAGES[:50], now=0)
        leased = await consumers[0].lease("q", limit=50, seconds=60, now=1)
        answers = await asyncio.gather(
            consumers[0].acknowledge(leased, now=2), consumers[1].send("q", MESSAGES[:50][::-1], now=2)
        )
        assert answers[1] == 0
        await consumers[0].sweep(now=10**6)


async def test_what_many_do_at_once_is_counted_exactly(consumers):
    halves = (MESSAGES[:250], MESSAGES[250:])
    await asyncio.gather(
        *(
            queues.send("q", half[part::5], now=0)
            for queues, half in zip(consumers, halves, strict=True)
            for part in range(5)
        )
    )
    await asyncio.gather(*(consume(queues, asyncio.Barrier(1)) for queues in consumers))
    counted = await consumers[0].counters("q", since=0)
    assert [
        counted[one] for one in (QueueCounter.SENT, QueueCounter.DELIVERED, QueueCounter.ACKNOWLEDGED)
    ] == [500] * 3
    await asyncio.gather(*(queues.sweep(now=10**4) for queues in consumers))
    assert await consumers[0].counters("q") == counted
