"""Beside published programs on the same plain list: neither can tell, and nothing is lost that we took."""

import asyncio

import pytest

from quire.model.errors import Lost, Misconfigured, Reject, Unavailable
from quire.queues.port import DEDUPE_SECONDS, Message
from quire.queues.redis_lists import RedisListQueues
from quire.system import SystemIds
from quire.testing.time import CountingIds

pytestmark = pytest.mark.service
ONE, TWO, THREE = b'{"n": 1}', b'{"n": 2}', b'{"n": 3}'
PATIENCE_SECONDS = 30.0


def messages(*bodies):
    return [Message(id=body.decode()[:9], body=body) for body in bodies]


def bodies(leased):
    return [one.body for one in leased]


async def lease(queues, *, now=0.0, seconds=10.0, limit=10, worker="w"):
    return await queues.lease("q", limit=limit, seconds=seconds, now=now, worker=worker)


async def test_published_producers_are_read_first_in_first_out(queues, published):
    for body in (ONE, TWO, THREE):
        published.lpush("q", body)
    assert bodies(await lease(queues, limit=2)) == [ONE, TWO]
    assert bodies(await lease(queues)) == [THREE]


async def test_published_consumers_read_what_was_sent_as_it_is(queues, published):
    await queues.send("q", messages(ONE, TWO), now=0)
    assert [published.brpop(["q"], timeout=1)[1] for _ in range(2)] == [ONE, TWO]


async def test_a_message_that_comes_again_is_unchanged_and_counted(queues, published):
    published.lpush("q", ONE)
    (leased,) = await lease(queues)
    await queues.release(leased, now=1, delay_seconds=5, error="busy")
    assert await queues.next_due("q", now=1) == 6
    (again,) = await lease(queues, now=6)
    assert (again.body, again.deliveries) == (ONE, 2)
    await queues.release(again, now=7, error="busy")
    assert published.lrange("q", 0, -1) == [ONE]


async def test_while_it_is_worked_on_it_lies_in_the_list_of_its_worker(queues, published):
    published.lpush("q", ONE, TWO)
    one, two = await lease(queues, worker="host-1")
    assert published.lrange("q:processing:host-1", 0, -1) == [two.body, one.body]
    assert published.ttl("q:worker:host-1") > 0
    await queues.acknowledge([one, two], now=1)
    assert set(published.keys("q*")) == {b"q:numbers", b"q:counts", b"q:worker:host-1"}


async def test_what_was_tried_stands_behind_the_others_and_what_was_interrupted_before_them(
    queues, published
):
    published.lpush("q", ONE, TWO, THREE)
    one, two = await lease(queues, limit=2)
    await queues.release(one, now=1, error="busy")
    assert bodies(await queues.peek("q", limit=9, now=1))[:2] == [THREE, ONE]
    await queues.release(two, now=1, counted=False)
    assert bodies(await lease(queues, now=1)) == [TWO, THREE, ONE]


async def test_leases_that_ran_out_come_first_and_in_their_order(queues, published):
    published.lpush("q", ONE, TWO)
    await lease(queues, seconds=5)
    published.lpush("q", THREE)
    again = await lease(queues, now=5)
    assert [(one.body, one.deliveries) for one in again] == [(ONE, 2), (TWO, 2), (THREE, 1)]


async def test_late_work_counts_unless_somebody_else_took_the_message(queues, published):
    published.lpush("q", ONE, TWO)
    one, two = await lease(queues, seconds=1)
    assert await queues.next_due("q", now=2) is None  # both wait again
    assert published.rpop("q") == ONE
    with pytest.raises(Lost) as caught:
        await queues.acknowledge([one, two], now=3)
    assert caught.value.ids == (one.id,)
    assert published.llen("q") == 0


async def test_a_message_that_an_operator_moved_away_is_lost_to_its_worker(queues, published):
    published.lpush("q", ONE)
    (leased,) = await lease(queues)
    published.lmove("q:processing:w", "q", "LEFT", "RIGHT")
    for ending in (
        queues.acknowledge([leased], now=1),
        queues.release(leased, now=1),
        queues.dead_letter(leased, now=1, reason="x"),
    ):
        with pytest.raises(Lost):
            await ending
    assert published.lrange("q", 0, -1) == [ONE]


async def test_equal_messages_are_delivered_each_for_itself(queues, published):
    published.lpush("q", ONE, ONE)
    first, second = await lease(queues)
    assert first.token != second.token
    await queues.acknowledge([first], now=1)
    assert published.llen("q:processing:w") == 1
    await queues.acknowledge([second], now=1)
    assert published.llen("q:processing:w") == 0


class TestLeftovers:
    async def test_what_a_dead_program_has_left_is_returned_once(self, queues, published, url):
        published.lpush("q:processing:old", ONE, TWO)
        published.lpush("q", THREE)
        other = RedisListQueues(url, ids=SystemIds(), max_bytes=100)
        found = await asyncio.gather(lease(queues, worker="a"), lease(other, worker="b"))
        await other.close()
        assert sorted(bodies([one for some in found for one in some])) == [ONE, TWO, THREE]
        assert published.llen("q:processing:old") == 0

    async def test_the_oldest_comes_first_and_before_what_waits(self, queues, published):
        published.lpush("q", ONE, TWO)
        for _ in range(2):
            published.lmove("q", "q:processing:old", "RIGHT", "LEFT")
        published.lpush("q", THREE)
        assert bodies(await lease(queues)) == [ONE, TWO, THREE]

    async def test_a_worker_that_shows_a_sign_of_life_keeps_its_messages(self, queues, published):
        published.lpush("q:processing:alive", ONE)
        published.set("q:worker:alive", "1", ex=100)
        assert await lease(queues) == []
        published.delete("q:worker:alive")
        assert await lease(queues, now=1) == []  # looked for at the start and every minute
        assert bodies(await lease(queues, now=61)) == [ONE]

    async def test_what_is_leased_is_no_leftover(self, queues, published, url):
        published.lpush("q", ONE, ONE)
        (leased,) = await lease(queues, limit=1, seconds=100)
        published.delete("q:worker:w")  # its process stood still for so long
        published.lmove("q", "q:processing:w", "RIGHT", "LEFT")
        other = RedisListQueues(url, ids=SystemIds(), max_bytes=100)
        assert bodies(await lease(other, worker="b", now=1)) == [ONE]
        await other.close()
        await queues.acknowledge([leased], now=2)
        assert published.llen("q:processing:w") == 0

    async def test_names_with_wildcards_are_taken_as_they_are(self, queues, published):
        published.lpush("q:processing:w", ONE)
        assert await queues.lease("?", limit=1, seconds=1, now=0) == []
        assert await queues.lease("[q]", limit=1, seconds=1, now=0) == []
        assert published.llen("q:processing:w") == 1


class TestDeadLetters:
    async def test_they_lie_in_a_list_as_they_were_and_the_reason_beside_them(self, queues, published):
        published.lpush("q", ONE)
        (leased,) = await lease(queues)
        await queues.release(leased, now=1, error="busy", error_class="b")
        (leased,) = await lease(queues, now=2)
        await queues.dead_letter(leased, now=3, reason='no "picture"', error_class="image_not_found")
        assert published.lrange("q:dead", 0, -1) == [ONE]
        letter = await queues.get_dead_letter("q", leased.id)
        assert (letter.body, letter.reason, letter.error_class) == (ONE, 'no "picture"', "image_not_found")
        assert (letter.deliveries, letter.buried_at) == (2, 3)
        assert [(one.ending, one.worker, one.error) for one in letter.history] == [
            ("released", "w", "busy"),
            ("buried", "w", 'no "picture"'),
        ]

    async def test_one_that_was_moved_back_by_hand_is_delivered_and_may_die_again(self, queues, published):
        published.lpush("q", ONE)
        for _ in range(2):
            (leased,) = await lease(queues)
            await queues.dead_letter(leased, now=3, reason="x")
            assert published.lmove("q:dead", "q", "RIGHT", "LEFT") == ONE
        assert bodies(await lease(queues)) == [ONE]

    async def test_one_that_was_put_there_by_hand_is_shown_and_replayed(self, queues, published):
        published.lpush("q:dead", ONE, TWO)
        letters = await queues.list_dead_letters("q", limit=9)
        assert [(one.body, one.reason) for one in letters] == [(ONE, ""), (TWO, "")]
        assert await queues.replay("q", now=1, limit=9) == 2
        assert bodies(await lease(queues, now=1)) == [ONE, TWO]

    async def test_the_same_message_twice_is_one_dead_letter_with_the_last_reason(self, queues, published):
        published.lpush("q", ONE, ONE)
        for number, leased in enumerate(await lease(queues)):
            await queues.dead_letter(leased, now=number, reason=f"reason {number}")
        (letter,) = await queues.list_dead_letters("q", limit=9)
        assert letter.reason == "reason 1"
        assert published.llen("q:dead") == 1

    async def test_a_message_that_is_too_large_is_given_up_without_being_fetched(self, queues, published):
        published.lpush("q", b"x" * 10_001, ONE, b"y" * 20_000)
        assert bodies(await lease(queues)) == [ONE]
        letters = await queues.list_dead_letters("q", limit=9)
        assert [(one.error_class, len(one.body)) for one in letters] == [
            ("message_too_large", 10_001),
            ("message_too_large", 20_000),
        ]
        assert (await queues.depth("q", now=0)).dead == 2

    async def test_bytes_that_are_no_text_are_delivered_as_they_are(self, queues, published):
        every = bytes(range(256))
        published.lpush("q", every, b"")
        assert bodies(await lease(queues)) == [every, b""]


class TestSending:
    async def test_an_answer_that_was_lost_may_be_asked_for_again(self, queues, published):
        assert await queues.send("q", messages(ONE), now=0) == 1
        assert published.brpop(["q"], timeout=1)[1] == ONE
        assert await queues.send("q", messages(ONE), now=DEDUPE_SECONDS - 1) == 0
        assert await queues.send("q", messages(ONE), now=DEDUPE_SECONDS + 1) == 1

    async def test_a_message_that_is_too_large_is_refused(self, queues, published):
        with pytest.raises(Reject) as caught:
            await queues.send("q", messages(ONE, b"x" * 10_001), now=0)
        assert caught.value.code == "message_too_large"
        assert published.llen("q") == 0

    async def test_a_key_of_another_kind_is_left_alone_and_named(self, queues, published):
        published.set("q", "a text")
        for call in (queues.send("q", messages(ONE), now=0), lease(queues), queues.wait(["q"], seconds=1)):
            with pytest.raises(Misconfigured, match="refuses"):
                await call
        assert published.get("q") == b"a text"

    async def test_a_server_that_does_not_know_a_command_is_too_old(self, queues):
        for command in (["LMOVEALL", "q"], ["EVAL", "return redis.call('LMOVEALL', 'q')", 0]):
            with pytest.raises(Misconfigured, match=r"6\.2 or newer"):
                await queues._server.ask(*command)

    async def test_a_server_that_is_away_is_unavailable(self):
        away = RedisListQueues("redis://127.0.0.1:1/0", ids=CountingIds(), max_bytes=100)
        for call in (away.send("q", messages(ONE), now=0), lease(away), away.wait(["q"], seconds=1)):
            with pytest.raises(Unavailable):
                await call
        await away.close()


class TestWaiting:
    async def test_all_who_wait_are_woken_and_nothing_is_taken(self, queues, published):
        waiting = [asyncio.create_task(queues.wait(["p", "q"], seconds=60)) for _ in range(3)]
        await blocked(published, 6)
        published.lpush("q", ONE)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.gather(*waiting)
        assert published.lrange("q", 0, -1) == [ONE]

    async def test_the_order_stays_when_messages_are_waited_for(self, queues, published):
        published.lpush("q", ONE, TWO, THREE)
        for _ in range(5):
            await queues.wait(["q"], seconds=60)
        assert published.lrange("q", 0, -1) == [THREE, TWO, ONE]

    async def test_a_published_consumer_that_waits_too_gets_the_message(self, queues, published):
        waiting = asyncio.create_task(queues.wait(["q"], seconds=60))
        await blocked(published, 1)
        popping = asyncio.create_task(asyncio.to_thread(published.brpop, ["q"], 60))
        await blocked(published, 2)
        await queues.send("q", messages(ONE), now=0)
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert (await popping)[1] == ONE
            await waiting
        assert await lease(queues) == []

    async def test_a_cancelled_wait_takes_nothing_and_leaves_the_connection_in_order(self, queues, published):
        waiting = asyncio.create_task(queues.wait(["q"], seconds=60))
        await blocked(published, 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await blocked(published, 0)
        published.lpush("q", ONE)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await queues.wait(["q"], seconds=60)
        assert bodies(await lease(queues)) == [ONE]


async def blocked(client, number):
    """Until the server has this many clients that wait."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while client.info("clients")["blocked_clients"] != number:
            await asyncio.sleep(0)
