"""Queues on a real Redis: the suite, and step by step the same as the queues in memory."""

import asyncio
import random
import uuid

import pytest

from quire.model.errors import Lost, Missing
from quire.queues.port import DEDUPE_SECONDS, DeadLetterFilter, FailedDelivery, Message, QueueCounter
from quire.queues.redis_streams import RedisStreamQueues
from quire.testing.memory_queues import MemoryQueues
from quire.testing.queues_suite import QueuesSuite
from quire.testing.time import CountingIds

pytestmark = pytest.mark.service
DAY = DEDUPE_SECONDS


@pytest.fixture
async def queues(redis_server):
    queues = RedisStreamQueues(redis_server, ids=CountingIds(), prefix=f"test-{uuid.uuid4().hex}")
    yield queues
    await queues.close()


async def lease_all(queues, *, now, seconds=10, worker=""):
    return await queues.lease("q", limit=1000, seconds=seconds, now=now, worker=worker)


def some(*ids, priority=3):
    return [Message(id=name, body=f"body of {name}".encode(), priority=priority) for name in ids]


def ids(found):
    return [one.id for one in found]


class TestRedis(QueuesSuite):
    pass


class TestOrder:
    async def test_urgent_ones_come_first_whenever_they_were_sent(self, queues):
        await queues.send(
            "q", [*some("late", priority=5), *some("normal"), *some("first", priority=1)], now=0
        )
        assert ids(await queues.lease("q", limit=2, seconds=9, now=1)) == ["first", "normal"]
        assert ids(await lease_all(queues, now=1)) == ["late"]

    async def test_what_became_due_first_is_delivered_first(self, queues):
        await queues.send("q", some("delayed"), now=0, delay_seconds=5)
        await queues.send("q", some("held"), now=1)
        await queues.lease("q", limit=1, seconds=6, now=1)
        await queues.send("q", some("between"), now=6)
        await queues.send("q", some("new"), now=8)
        assert ids(await lease_all(queues, now=9)) == ["delayed", "between", "held", "new"]

    async def test_delayed_ones_of_one_sending_are_delivered_as_given(self, queues):
        await queues.send("q", some("c", "a", "d", "b"), now=0, delay_seconds=5)
        assert ids(await lease_all(queues, now=5)) == ["c", "a", "d", "b"]

    async def test_leases_that_end_together_come_back_as_they_were_given(self, queues):
        await queues.send("q", some("c", "a", "d", "b"), now=0)
        await lease_all(queues, now=0, seconds=5)
        assert ids(await lease_all(queues, now=5)) == ["c", "a", "d", "b"]

    async def test_clocks_that_differ_do_not_turn_the_order_round(self, queues):
        await queues.send("q", some("b", "a"), now=0)
        await queues.send("q", some("late"), now=0, delay_seconds=1.5)
        late = await queues.lease("q", limit=2, seconds=1, now=0)
        await queues.send("q", some("c", "d"), now=2)
        await queues.send("q", some("behind"), now=0.5, delay_seconds=1)
        assert ids(await queues.peek("q", limit=9, now=3)) == ["b", "a", "late", "behind", "c", "d"]
        await queues.acknowledge(late[:1], now=3)
        assert ids(await lease_all(queues, now=3)) == ["a", "late", "behind", "c", "d"]

    async def test_a_crowd_that_becomes_due_does_not_let_later_ones_pass(self, queues):
        """More than one call brings over: who sends then stands behind the rest."""
        crowd = [f"{number:04d}" for number in range(2500)]
        await queues.send("q", some(*crowd), now=0, delay_seconds=5)
        await queues.send("q", some("new"), now=9)
        assert (await queues.depth("q", now=9)).waiting == 2501
        assert ids(await queues.lease("q", limit=3000, seconds=9, now=9)) == [*crowd, "new"]


class TestLeases:
    async def test_sets_are_acknowledged_and_extended_but_for_those_that_are_lost(self, queues):
        await queues.send("q", some("a", "b", "c"), now=0)
        await queues.send("p", some("a"), now=0)
        a, b, c = await lease_all(queues, now=0)
        (other,) = await queues.lease("p", limit=1, seconds=10, now=0)
        await queues.acknowledge([a], now=1)
        with pytest.raises(Lost) as lost:
            await queues.extend([a, b, other], seconds=50, now=1)
        assert lost.value.ids == ("a",)
        assert ids(await lease_all(queues, now=20)) == ["c"]
        with pytest.raises(Lost) as lost:
            await queues.acknowledge([b, c, other], now=21)
        assert lost.value.ids == ("c",)
        depths = [await queues.depth(name, now=21) for name in ("q", "p")]
        assert [(one.waiting, one.leased) for one in depths] == [(0, 1), (0, 0)]

    async def test_late_work_counts_until_another_consumer_leases_the_message(self, queues):
        await queues.send("q", some("a"), now=0)
        (late,) = await lease_all(queues, now=0, seconds=1)
        await queues.send("q", some("b"), now=5)  # brings the other one back into the stream
        with pytest.raises(Lost):
            await queues.extend([late], seconds=9, now=0.5)
        await queues.acknowledge([late], now=6)
        assert ids(await lease_all(queues, now=7)) == ["b"]

    async def test_a_lease_that_ran_out_may_still_be_released_or_given_up_by_its_holder(self, queues):
        await queues.send("q", some("a", "b"), now=0)
        a, b = await lease_all(queues, now=0, seconds=1, worker="w")
        await queues.release(a, now=5, error="x")
        await queues.dead_letter(b, now=5, reason="y")
        (again,) = await lease_all(queues, now=6)
        assert (again.id, again.deliveries) == ("a", 2)
        assert [trial.ending for trial in (await queues.get_dead_letter("q", "b")).history] == ["buried"]
        assert (await queues.counters("q"))[QueueCounter.EXPIRED] == 0

    async def test_a_delivery_that_does_not_count_leaves_no_trace(self, queues):
        await queues.send("q", some("a"), now=0)
        (leased,) = await lease_all(queues, now=0)
        await queues.release(leased, now=1, counted=False)
        (leased,) = await lease_all(queues, now=2)
        assert leased.deliveries == 1
        await queues.dead_letter(leased, now=3, reason="x")
        assert len((await queues.get_dead_letter("q", "a")).history) == 1
        assert (await queues.counters("q"))[QueueCounter.RELEASED] == 0

    async def test_many_thousands_go_through_one_call(self, queues):
        names = [f"{number:05d}" for number in range(9000)]
        assert await queues.send("q", some(*names), now=0) == 9000
        assert await queues.send("q", some(*names, "new"), now=0) == 1
        leased = await queues.lease("q", limit=9001, seconds=9, now=1)
        assert ids(leased) == [*names, "new"]
        await queues.extend(leased, seconds=60, now=2)
        await queues.acknowledge(leased, now=3)
        depth = await queues.depth("q", now=100)
        assert (depth.waiting, depth.leased, depth.oldest_at) == (0, 0, None)

    async def test_nothing_is_asked_of_the_server_for_nothing(self, queues):
        await queues.send("q", [], now=0)
        assert await queues.lease("q", limit=0, seconds=9, now=0) == []
        assert await queues.peek("q", limit=0, now=0) == []
        await queues.acknowledge([], now=0)
        await queues.extend([], seconds=9, now=0)
        await queues.wait([], seconds=0)
        await queues.wait(["q"], seconds=0)
        assert await queues.names() == []

    async def test_next_due_is_the_earliest_that_is_not_due_yet(self, queues):
        assert await queues.next_due("q", now=0) is None
        await queues.send("q", some("a"), now=0)
        assert await queues.next_due("q", now=0) is None
        await queues.send("q", some("b"), now=0, delay_seconds=7.5)
        assert await queues.next_due("q", now=0) == 7.5
        await lease_all(queues, now=0, seconds=5.25)
        assert await queues.next_due("q", now=0) == 5.25
        assert await queues.next_due("q", now=6) == 7.5

    async def test_moments_keep_all_their_digits(self, queues):
        now = 1_700_000_000.123456
        await queues.send("q", some("a"), now=now)
        (leased,) = await lease_all(queues, now=now)
        assert leased.sent_at == now
        assert await queues.next_due("q", now=now) == now + 10
        await queues.dead_letter(leased, now=now, reason="")
        letter = await queues.get_dead_letter("q", "a")
        assert (letter.buried_at, letter.history[0].at) == (now, now)


class TestIds:
    async def test_an_id_is_remembered_for_a_window_after_its_end_and_swept_then(self, queues):
        assert await queues.send("q", some("a", "b"), now=0) == 2
        a, b = await lease_all(queues, now=0)
        await queues.acknowledge([a], now=10)
        await queues.dead_letter(b, now=10, reason="x")
        assert await queues.send("q", some("a", "b"), now=9 + DAY) == 0
        assert await queues.sweep(now=9 + DAY) == 0
        assert await queues.send("q", some("a"), now=10 + DAY) == 1  # whether anybody has swept or not
        assert await queues.discard("q", now=20, limit=9) == 1
        assert await queues.send("q", some("b"), now=30) == 0
        assert await queues.sweep(now=20 + DAY) == 1
        assert await queues.send("q", some("a", "b"), now=20 + DAY) == 1

    async def test_a_queue_is_forgotten_a_window_after_its_last_message(self, queues):
        for name in ("q", "r", "ä {b}c"):
            await queues.send(name, some("a"), now=0)
        await queues.acknowledge(await lease_all(queues, now=0), now=0)
        await queues.acknowledge(await queues.lease("r", limit=1, seconds=1, now=0), now=DAY)
        assert await queues.sweep(now=DAY) == 1
        assert await queues.names() == ["r", "ä {b}c"]


class TestDeadLetters:
    async def test_the_whole_history_goes_through_a_replay(self, queues):
        await queues.send("q", some("a"), now=0)
        await lease_all(queues, now=0, seconds=1, worker="one")
        (leased,) = await lease_all(queues, now=2, worker='t"wo')
        await queues.release(leased, now=3, error_class="slow", error="cut\0off\nhere")
        (leased,) = await lease_all(queues, now=4)
        await queues.dead_letter(leased, now=5, reason="poison \udcff", error_class="bad")
        letter = await queues.get_dead_letter("q", "a")
        assert (letter.deliveries, letter.sent_at, letter.buried_at) == (3, 0, 5)
        assert (letter.error_class, letter.reason, letter.body) == ("bad", "poison \udcff", b"body of a")
        history = (
            FailedDelivery(delivery=1, at=2, ending="expired", worker="one"),
            FailedDelivery(
                delivery=2, at=3, ending="released", worker='t"wo', error_class="slow", error="cut\0off\nhere"
            ),
            FailedDelivery(delivery=3, at=5, ending="buried", error_class="bad", error="poison \udcff"),
        )
        assert letter.history == history
        assert await queues.replay("q", now=6, limit=1) == 1
        with pytest.raises(Missing):
            await queues.get_dead_letter("q", "a")
        (leased,) = await lease_all(queues, now=7)
        assert (leased.deliveries, leased.sent_at) == (1, 0)
        await queues.dead_letter(leased, now=8, reason="again")
        trials = (await queues.get_dead_letter("q", "a")).history
        assert trials[:3] == history
        assert [(one.at, one.ending) for one in trials[3:]] == [(6, "replayed"), (8, "buried")]

    @pytest.fixture
    async def buried(self, queues):
        names = [f"m{number}" for number in range(6)]
        await queues.send(
            "q", [Message(id=name, body=b"\xff Stra\xc3\x9fe " + name.encode()) for name in names], now=0
        )
        for number, leased in enumerate(await lease_all(queues, now=0)):
            await queues.dead_letter(
                leased, now=1, reason=f"Reason {number}", error_class="odd" if number % 2 else "even"
            )
        return queues

    async def test_they_are_found_by_id_class_and_text(self, buried):
        async def found(**chosen):
            return ids(await buried.list_dead_letters("q", chosen=DeadLetterFilter(**chosen), limit=9))

        assert await found() == [f"m{number}" for number in range(6)]
        assert await found(ids=["m4", "m0", "none", "\0"]) == ["m0", "m4"]
        assert await found(ids=[]) == []
        assert await found(error_class="odd") == ["m1", "m3", "m5"]
        assert await found(error_class="odd", ids=["m0", "m1"]) == ["m1"]
        assert await found(text="REASON 3") == ["m3"]
        assert await found(text="STRASSE M2") == ["m2"]
        assert await found(text="nowhere") == []
        assert await buried.count_dead_letters("q") == {"even": 3, "odd": 3}

    async def test_they_are_read_page_by_page(self, buried):
        first = await buried.list_dead_letters("q", limit=4)
        rest = await buried.list_dead_letters("q", after=first[-1].no, limit=4)
        assert ids(first + rest) == [f"m{number}" for number in range(6)]
        assert await buried.list_dead_letters("q", limit=0) == []

    async def test_more_than_a_page_is_found(self, queues):
        names = [f"{number:03d}" for number in range(250)]
        await queues.send("q", some(*names), now=0)
        for leased in await lease_all(queues, now=0):
            await queues.dead_letter(leased, now=1, reason="even" if int(leased.id) % 2 == 0 else "odd")
        assert ids(await queues.list_dead_letters("q", limit=1000)) == names
        assert (
            ids(await queues.list_dead_letters("q", chosen=DeadLetterFilter(text="even"), limit=1000))
            == names[::2]
        )
        assert await queues.discard("q", chosen=DeadLetterFilter(text="even"), now=2, limit=120) == 120
        assert (await queues.depth("q", now=2)).dead == 130

    async def test_a_replay_with_a_rate_makes_them_due_one_after_the_other(self, buried):
        chosen = DeadLetterFilter(error_class="odd")
        assert await buried.replay("q", chosen=chosen, now=10, per_second=2, limit=9) == 3
        assert ids(await lease_all(buried, now=10)) == ["m1"]
        assert await buried.next_due("q", now=10) == 10.5
        assert ids(await lease_all(buried, now=11)) == ["m3", "m5"]
        assert await buried.count_dead_letters("q") == {"even": 3}

    async def test_replay_and_discard_take_no_more_than_asked_oldest_first(self, buried):
        assert await buried.replay("q", now=2, limit=2) == 2
        assert await buried.discard("q", now=2, limit=3) == 3
        assert ids(await buried.list_dead_letters("q", limit=9)) == ["m5"]
        assert ids(await lease_all(buried, now=3)) == ["m0", "m1"]
        counted = await buried.counters("q")
        assert (counted[QueueCounter.REPLAYED], counted[QueueCounter.DISCARDED]) == (2, 3)

    async def test_two_replays_at_once_replay_each_dead_letter_once(self, buried):
        assert sum(await asyncio.gather(*(buried.replay("q", now=2, limit=9) for _ in range(4)))) == 6
        assert len(await lease_all(buried, now=3)) == 6


class TestOverview:
    async def test_depth_tells_the_oldest_that_waits_or_is_out(self, queues):
        assert (await queues.depth("q", now=0)).oldest_at is None
        await queues.send("q", some("a"), now=1, delay_seconds=50)
        await queues.send("q", some("b"), now=2)
        depth = await queues.depth("q", now=3)
        assert (depth.waiting, depth.delayed, depth.leased, depth.oldest_at) == (1, 1, 0, 2)
        (leased,) = await lease_all(queues, now=3)
        depth = await queues.depth("q", now=4)
        assert (depth.waiting, depth.delayed, depth.leased, depth.oldest_at) == (0, 1, 1, 2)
        await queues.release(leased, now=5, delay_seconds=60)
        depth = await queues.depth("q", now=6)
        assert (depth.waiting, depth.delayed, depth.leased, depth.oldest_at) == (0, 2, 0, None)
        depth = await queues.depth("q", now=70)
        assert (depth.waiting, depth.delayed, depth.leased, depth.oldest_at) == (2, 0, 0, 1)

    async def test_peek_shows_what_comes_next_and_then_what_is_out_and_changes_nothing(self, queues):
        await queues.send("q", some("out", "expired"), now=0)
        await queues.lease("q", limit=1, seconds=100, now=1, worker="w")
        await queues.lease("q", limit=1, seconds=5, now=1)
        await queues.send("q", some("delayed", priority=1), now=2, delay_seconds=50)
        await queues.send("q", some("due"), now=2, delay_seconds=1)
        await queues.send("q", some("waits"), now=2)
        await queues.send("q", some("urgent", priority=1), now=3)
        expected = [
            ("urgent", 1, 0, 3.0, None),
            ("waits", 3, 0, 2.0, None),
            ("due", 3, 0, 3.0, None),
            ("expired", 3, 1, 6.0, None),
            ("delayed", 1, 0, 52.0, None),
            ("out", 3, 1, 101.0, "w"),
        ]
        for _ in range(2):
            seen = await queues.peek("q", limit=9, now=7)
            assert [
                (one.id, one.priority, one.deliveries, one.due_at, one.leased_to) for one in seen
            ] == expected
        assert seen[-1].body == b"body of out"
        assert ids(await queues.peek("q", limit=2, now=7)) == ["urgent", "waits"]
        assert ids(await lease_all(queues, now=7)) == ["urgent", "waits", "due", "expired"]

    async def test_counters_since_the_beginning_and_of_the_last_hour(self, queues):
        await queues.send("q", some("a", "b"), now=0)
        await queues.send("q", some("c"), now=3000)
        assert (await queues.counters("q"))[QueueCounter.SENT] == 3
        assert (await queues.counters("q", since=59))[QueueCounter.SENT] == 3
        assert (await queues.counters("q", since=3010))[QueueCounter.SENT] == 1
        await queues.sweep(now=3700)
        assert (await queues.counters("q"))[QueueCounter.SENT] == 3
        assert (await queues.counters("q", since=0))[QueueCounter.SENT] == 1

    async def test_purge_deletes_what_waits_or_is_delayed(self, queues):
        await queues.send("q", some("dead", "out", "expired"), now=0)
        (dead,) = await queues.lease("q", limit=1, seconds=9, now=0)
        await queues.dead_letter(dead, now=0, reason="x")
        (out,) = await queues.lease("q", limit=1, seconds=99, now=0)
        await queues.lease("q", limit=1, seconds=1, now=0)
        await queues.send("q", some(*(f"w{n}" for n in range(7000))), now=0)
        await queues.send("q", some("delayed"), now=0, delay_seconds=50)
        assert await queues.purge("q", now=5) == 7002
        depth = await queues.depth("q", now=5)
        assert (depth.waiting, depth.delayed, depth.leased, depth.dead) == (0, 0, 1, 1)
        assert await lease_all(queues, now=60) == []
        await queues.acknowledge([out], now=60)
        assert await queues.send("q", some("w1"), now=60) == 1
        assert ids(await lease_all(queues, now=60)) == ["w1"]


class TestWaiting:
    async def test_it_ends_at_once_when_something_waits(self, queues):
        await queues.send("q", some("a"), now=0)
        async with asyncio.timeout(10):
            await queues.wait(["p", "q"], seconds=60)

    async def test_it_ends_when_the_time_is_over(self, queues):
        async with asyncio.timeout(10):
            await queues.wait(["q"], seconds=0.01)

    async def test_all_waiting_consumers_are_woken_and_nothing_is_leased(self, queues, redis_server):
        waiting = [asyncio.create_task(queues.wait(["p", "q"], seconds=60)) for _ in range(3)]
        await blocked(redis_server, 3)
        await queues.send("q", some("a"), now=0)
        async with asyncio.timeout(10):
            await asyncio.gather(*waiting)
        assert ids(await lease_all(queues, now=0)) == ["a"]

    async def test_a_release_wakes_too(self, queues, redis_server):
        await queues.send("q", some("a"), now=0)
        (leased,) = await lease_all(queues, now=0)
        waiting = asyncio.create_task(queues.wait(["q"], seconds=60))
        await blocked(redis_server, 1)
        await queues.release(leased, now=1)
        async with asyncio.timeout(10):
            await waiting

    async def test_a_cancelled_wait_leaves_the_connection_in_order(self, queues, redis_server):
        waiting = asyncio.create_task(queues.wait(["q"], seconds=60))
        await blocked(redis_server, 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await blocked(redis_server, 0)
        await queues.send("q", some("a"), now=0)
        async with asyncio.timeout(10):
            await queues.wait(["q"], seconds=60)


async def blocked(url, number):
    """Until the server has this many clients that wait."""
    from redis.asyncio import Redis

    async with asyncio.timeout(10), Redis.from_url(url) as client:
        while (await client.info("clients"))["blocked_clients"] != number:
            pass


class TestRepair:
    async def test_a_message_leased_by_nobody_is_found_again(self, queues, redis_server):
        """As after a stranger's XREADGROUP: no call of ours leaves such a thing behind."""
        from redis.asyncio import Redis

        await queues.send("q", some("a", "b", "c"), now=0)
        (leased,) = await queues.lease("q", limit=1, seconds=9, now=0)
        stream = queues._keys.of("q")[2]
        async with Redis.from_url(redis_server) as client:
            await client.xreadgroup("quire", "stranger", {stream: ">"})
        assert await lease_all(queues, now=1) == []
        await queues.sweep(now=2)
        again = await lease_all(queues, now=3)
        assert [(one.id, one.body, one.deliveries) for one in again] == [
            ("b", b"body of b", 2),
            ("c", b"body of c", 2),
        ]
        await queues.acknowledge([leased, *again], now=4)
        depth = await queues.depth("q", now=100)
        assert (depth.waiting, depth.leased) == (0, 0)


class TestAgainstMemory:
    @pytest.mark.parametrize("seed", range(8))
    async def test_any_sequence_of_calls_ends_the_same_as_in_memory(self, queues, seed):
        chance = random.Random(seed)
        memory = MemoryQueues()
        now = 1000.0
        loans = []
        for step in range(250):
            now += chance.choice([0.25, 0.5, 3.75])
            await play(chance, step, now, loans, (queues, memory))
            assert await seen(queues, now) == await seen(memory, now), (seed, step)


async def play(chance, step, now, loans, both):
    """One call on both; loans are pairs of the two leases."""
    kind = chance.choice(["send", "send", "lease", "lease", "lease", "end", "end", "end", "dead", "rare"])
    if kind == "send":
        messages = [
            Message(
                id=f"{step}-{number}" if chance.random() < 0.8 else "same",
                body=b"%d" % step,
                priority=chance.randint(1, 5),
            )
            for number in range(chance.randint(1, 4))
        ]
        delay = chance.choice([0, 0, 2.125, 9.125])
        told = [await one.send("q", messages, now=now, delay_seconds=delay) for one in both]
    elif kind == "lease":
        seconds = chance.choice([1.0625, 8.09375])
        (mine, its) = [await one.lease("q", limit=1, seconds=seconds, now=now, worker="w") for one in both]
        told = [
            [(one.id, one.body, one.deliveries, one.priority, one.sent_at) for one in got]
            for got in (mine, its)
        ]
        loans.extend(zip(mine, its, strict=True))
    elif kind == "end" and loans:
        pair = loans.pop(chance.randrange(len(loans)))
        end = chance.choice([acknowledge, extend, release, give_back, dead_letter])
        told = [await outcome(end(one, leased, now)) for one, leased in zip(both, pair, strict=True)]
        if end is extend:
            loans.append(pair)
    elif kind == "dead":
        act = chance.choice(["replay", "discard"])
        chosen = DeadLetterFilter(error_class=chance.choice(["x", "y", None]))
        told = [
            await getattr(one, act)("q", chosen=chosen, now=now, limit=chance.randint(2, 2)) for one in both
        ]
    elif kind == "rare" and chance.random() < 0.2:
        told = [await one.purge("q", now=now) for one in both]
    else:
        told = [await one.next_due("q", now=now) for one in both]
    assert told[0] == told[1], (step, kind)


async def acknowledge(queues, leased, now):
    await queues.acknowledge([leased], now=now)


async def extend(queues, leased, now):
    await queues.extend([leased], seconds=4.03125, now=now)


async def release(queues, leased, now):
    await queues.release(leased, now=now, delay_seconds=2.015625, error="e", error_class="f")


async def give_back(queues, leased, now):
    await queues.release(leased, now=now, counted=False)


async def dead_letter(queues, leased, now):
    await queues.dead_letter(leased, now=now, reason="r", error_class="x" if leased.id < "2" else "y")


async def outcome(call):
    try:
        return await call
    except Lost as lost:
        return lost.ids


async def seen(queues, now):
    depth = await queues.depth("q", now=now)
    letters = await queues.list_dead_letters("q", limit=1000)
    return (
        (depth.waiting, depth.delayed, depth.leased, depth.dead),
        await queues.peek("q", limit=1000, now=now),
        [
            (
                one.id,
                one.body,
                one.deliveries,
                one.sent_at,
                [(trial.ending, trial.at, trial.worker) for trial in one.history],
            )
            for one in letters
        ],
        await queues.count_dead_letters("q"),
        await queues.counters("q"),
        await queues.counters("q", since=now - 100),
    )
