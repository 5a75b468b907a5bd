"""What every queue adapter must keep. Subclass `QueuesSuite` and give a fixture `queues`: an empty store.

Everything goes through the port, with time handed in. What concerns dead letters and looking on is in modules
of its own.
"""

import asyncio

import pytest

from quire.model.errors import Lost, Reject
from quire.queues.port import (
    DEDUPE_SECONDS,
    LEAST,
    MAX_MESSAGE_BYTES,
    NORMAL,
    URGENT,
    LeasedMessage,
    Message,
    MessageQueues,
    QueueStore,
)
from quire.testing.queues_dead_suite import DeadLettersSuite
from quire.testing.queues_overview_suite import OverviewSuite

# Longer than any test may take: who waits so long was not woken.
LONG_SECONDS = 60.0


def plain(*ids: str, priority: int = NORMAL) -> list[Message]:
    return [Message(id=name, body=name.encode(), priority=priority) for name in ids]


async def one_of(queues: MessageQueues, *, now: float, seconds: float = 10.0) -> LeasedMessage:
    (leased,) = await queues.lease("q", limit=10, seconds=seconds, now=now)
    return leased


async def names_of(queues: MessageQueues, *, now: float, limit: int = 10, seconds: float = 10.0) -> list[str]:
    return [one.id for one in await queues.lease("q", limit=limit, seconds=seconds, now=now)]


class SendingSuite:
    async def test_a_message_is_delivered_and_once_acknowledged_never_again(self, queues: QueueStore) -> None:
        await queues.send("q", [Message(id="m", body=b"hello", priority=2)], now=0.5)
        leased = await one_of(queues, now=1)
        assert (leased.queue, leased.id, leased.body, leased.deliveries) == ("q", "m", b"hello", 1)
        assert (leased.priority, leased.sent_at) == (2, 0.5)
        await queues.acknowledge([leased], now=2)
        assert await queues.lease("q", limit=10, seconds=10, now=DEDUPE_SECONDS) == []

    async def test_sending_says_how_many_were_new(self, queues: QueueStore) -> None:
        assert await queues.send("q", plain("a", "b", "a"), now=0) == 2
        assert await queues.send("q", plain("b", "c"), now=1) == 1
        assert await queues.send("q", [], now=2) == 0
        assert await names_of(queues, now=3) == ["a", "b", "c"]

    async def test_of_one_id_the_first_message_counts(self, queues: QueueStore) -> None:
        await queues.send("q", [Message(id="m", body=b"1"), Message(id="m", body=b"2", priority=1)], now=0)
        await queues.send("q", [Message(id="m", body=b"3", priority=1)], now=0)
        leased = await one_of(queues, now=1)
        assert (leased.body, leased.priority) == (b"1", NORMAL)

    async def test_an_id_is_known_while_its_message_waits_or_is_out(self, queues: QueueStore) -> None:
        await queues.send("q", plain("m"), now=0)
        far = 10 * DEDUPE_SECONDS
        assert await queues.send("q", plain("m"), now=far) == 0
        await one_of(queues, now=far)
        assert await queues.send("q", plain("m"), now=2 * far) == 0

    async def test_an_acknowledged_id_is_known_until_its_window_is_over(self, queues: QueueStore) -> None:
        await queues.send("q", plain("m"), now=0)
        await queues.acknowledge([await one_of(queues, now=1)], now=10)
        assert await queues.send("q", plain("m"), now=9 + DEDUPE_SECONDS) == 0
        assert await queues.send("q", plain("other", "m"), now=11 + DEDUPE_SECONDS) == 2
        leased = await queues.lease("q", limit=9, seconds=1, now=12 + DEDUPE_SECONDS)
        assert sorted((one.id, one.deliveries) for one in leased) == [("m", 1), ("other", 1)]

    async def test_queues_do_not_mix(self, queues: QueueStore) -> None:
        await queues.send("p", plain("m"), now=0)
        assert await queues.lease("q", limit=10, seconds=10, now=1) == []
        assert await queues.send("q", plain("m"), now=0) == 1
        assert (await queues.depth("p", now=1)).waiting == 1

    async def test_a_body_may_hold_any_byte(self, queues: QueueStore) -> None:
        every = bytes(range(256))
        await queues.send("q", [Message(id="m", body=every), Message(id="n", body=b"")], now=0)
        assert [one.body for one in await queues.lease("q", limit=9, seconds=1, now=0)] == [every, b""]

    @pytest.mark.parametrize("name", ["ä/ö: 'x' \"y\" %s {} 漢 🙂", "x" * 200, " ", "*", "a:b"])
    async def test_an_id_may_be_any_text(self, queues: QueueStore, name: str) -> None:
        assert await queues.send("q", plain(name), now=0) == 1
        leased = await one_of(queues, now=1)
        assert leased.id == name
        await queues.acknowledge([leased], now=2)

    @pytest.mark.parametrize("name", ["", "x" * 201, "a\0b", "a\nb", "a\x7fb"])
    async def test_an_id_that_cannot_be_one_is_refused_with_all_the_others(
        self, queues: QueueStore, name: str
    ) -> None:
        with pytest.raises(Reject) as caught:
            await queues.send("q", [*plain("good"), Message(id=name, body=b"")], now=0)
        assert caught.value.code == "bad_message"
        assert await queues.lease("q", limit=10, seconds=10, now=1) == []

    @pytest.mark.parametrize("priority", [URGENT - 1, LEAST + 1])
    async def test_a_priority_that_is_none_is_refused(self, queues: QueueStore, priority: int) -> None:
        with pytest.raises(Reject) as caught:
            await queues.send("q", [*plain("good"), *plain("bad", priority=priority)], now=0)
        assert caught.value.code == "bad_message"
        assert (await queues.depth("q", now=1)).waiting == 0

    async def test_a_large_message_is_refused_with_advice(self, queues: QueueStore) -> None:
        with pytest.raises(Reject, match="blob") as caught:
            await queues.send(
                "q", [*plain("good"), Message(id="m", body=b"x" * (MAX_MESSAGE_BYTES + 1))], now=0
            )
        assert caught.value.code == "message_too_large"
        assert (await queues.depth("q", now=1)).waiting == 0
        await queues.send("q", [Message(id="m", body=b"x" * MAX_MESSAGE_BYTES)], now=0)
        assert len((await one_of(queues, now=1)).body) == MAX_MESSAGE_BYTES


class OrderSuite:
    async def test_messages_are_delivered_as_given_and_not_more_than_asked(self, queues: QueueStore) -> None:
        await queues.send("q", plain("c", "a", "d", "b"), now=0)
        assert await names_of(queues, limit=3, now=1) == ["c", "a", "d"]
        assert await names_of(queues, limit=3, now=1) == ["b"]
        assert await names_of(queues, limit=0, now=1) == []

    async def test_what_is_more_urgent_comes_first(self, queues: QueueStore) -> None:
        await queues.send("q", [one for n in (5, 3, 1, 4, 2) for one in plain(f"{n}", priority=n)], now=0)
        await queues.send("q", [one for n in (5, 1) for one in plain(f"{n} late", priority=n)], now=1)
        expected = ["1", "1 late", "2", "3", "4", "5", "5 late"]
        assert await names_of(queues, limit=4, now=2) == expected[:4]
        assert await names_of(queues, limit=4, now=2) == expected[4:]

    async def test_what_was_due_first_is_delivered_first_also_when_it_was_sent_last(
        self, queues: QueueStore
    ) -> None:
        await queues.send("q", plain("late"), now=0, delay_seconds=9)
        await queues.send("q", plain("soon"), now=1)
        assert await names_of(queues, now=10) == ["soon", "late"]

    async def test_an_urgent_message_that_became_due_overtakes_what_waits(self, queues: QueueStore) -> None:
        await queues.send("q", plain("urgent", priority=URGENT), now=0, delay_seconds=9)
        await queues.send("q", plain("a", "b", "c"), now=0)
        assert await names_of(queues, limit=1, now=8) == ["a"]
        assert await names_of(queues, limit=2, now=9) == ["urgent", "b"]

    async def test_a_delayed_message_is_not_early(self, queues: QueueStore) -> None:
        await queues.send("q", plain("m"), now=0, delay_seconds=60)
        assert await names_of(queues, now=59) == []
        assert await names_of(queues, now=60) == ["m"]

    async def test_a_lease_that_ran_out_takes_its_place_by_priority(self, queues: QueueStore) -> None:
        await queues.send("q", plain("urgent", priority=URGENT), now=0)
        await one_of(queues, now=0, seconds=5)
        await queues.send("q", plain("a"), now=1)
        assert await names_of(queues, limit=1, now=5) == ["urgent"]


class LeasingSuite:
    async def test_a_leased_message_is_hidden_until_its_lease_runs_out(self, queues: QueueStore) -> None:
        await queues.send("q", plain("m"), now=0)
        await one_of(queues, now=1, seconds=10)
        assert await queues.lease("q", limit=10, seconds=10, now=10.9) == []
        assert (await one_of(queues, now=11)).deliveries == 2

    async def test_a_lost_lease_allows_nothing(self, queues: QueueStore) -> None:
        await queues.send("q", plain("m"), now=0)
        late = await one_of(queues, now=1, seconds=1)
        current = await one_of(queues, now=3)
        assert late.token != current.token
        with pytest.raises(Lost):
            await queues.acknowledge([late], now=4)
        with pytest.raises(Lost):
            await queues.release(late, now=4, error="x")
        with pytest.raises(Lost):
            await queues.dead_letter(late, now=4, reason="x")
        with pytest.raises(Lost):
            await queues.extend([late], seconds=9, now=4)
        await queues.acknowledge([current], now=5)

    async def test_what_is_over_cannot_end_again(self, queues: QueueStore) -> None:
        await queues.send("q", plain("done", "back", "dead"), now=0)
        done, back, dead = await queues.lease("q", limit=3, seconds=10, now=1)
        await queues.acknowledge([done], now=2)
        await queues.release(back, now=2, delay_seconds=50)
        await queues.dead_letter(dead, now=2, reason="x")
        for one in (done, back, dead):
            with pytest.raises(Lost) as caught:
                await queues.acknowledge([one], now=3)
            assert caught.value.ids == (one.id,)
            with pytest.raises(Lost):
                await queues.extend([one], seconds=5, now=3)
            with pytest.raises(Lost):
                await queues.release(one, now=3)
            with pytest.raises(Lost):
                await queues.dead_letter(one, now=3, reason="x")

    async def test_a_token_that_is_none_proves_nothing(self, queues: QueueStore) -> None:
        await queues.send("q", plain("m"), now=0)
        await one_of(queues, now=0)
        for token in ("", "x", "1", "1.", ".1", "-1.x", "9" * 40 + ".x"):
            with pytest.raises(Lost):
                await queues.acknowledge(
                    [LeasedMessage(queue="q", id="m", body=b"", deliveries=1, token=token)], now=1
                )

    async def test_many_are_acknowledged_at_once_and_the_lost_ones_are_named(
        self, queues: QueueStore
    ) -> None:
        await queues.send("q", plain("a", "b"), now=0)
        await queues.send("q", plain("c"), now=2)
        late = await queues.lease("q", limit=2, seconds=1, now=0)
        (again,) = await queues.lease("q", limit=1, seconds=10, now=2)
        mine = await queues.lease("q", limit=1, seconds=10, now=2)
        assert (again.id, [one.id for one in mine]) == ("a", ["b"])
        rest = await queues.lease("q", limit=1, seconds=10, now=2)
        with pytest.raises(Lost) as caught:
            await queues.acknowledge([*late, *mine, *rest], now=3)
        assert sorted(caught.value.ids) == ["a", "b"]
        depth = await queues.depth("q", now=3)
        assert (depth.waiting, depth.leased) == (0, 1)
        await queues.acknowledge([again], now=3)
        await queues.acknowledge([], now=3)

    async def test_leases_of_several_queues_are_ended_at_once(self, queues: QueueStore) -> None:
        await queues.send("p", plain("m"), now=0)
        await queues.send("q", plain("m"), now=0)
        both = [
            *await queues.lease("p", limit=1, seconds=9, now=0),
            *await queues.lease("q", limit=1, seconds=9, now=0),
        ]
        await queues.extend(both, seconds=20, now=1)
        await queues.acknowledge(both, now=15)
        assert [(await queues.depth(name, now=15)).leased for name in ("p", "q")] == [0, 0]

    async def test_extended_leases_last_longer_counted_from_now(self, queues: QueueStore) -> None:
        await queues.send("q", plain("a", "b"), now=0)
        leased = await queues.lease("q", limit=2, seconds=5, now=1)
        await queues.extend(leased, seconds=20, now=5)
        assert await names_of(queues, now=24) == []
        assert await names_of(queues, now=25) == ["a", "b"]

    async def test_extending_may_also_shorten(self, queues: QueueStore) -> None:
        await queues.send("q", plain("a"), now=0)
        await queues.extend([await one_of(queues, now=0, seconds=50)], seconds=2, now=1)
        assert await names_of(queues, now=3) == ["a"]

    async def test_what_ran_out_is_not_extended_and_the_others_are(self, queues: QueueStore) -> None:
        await queues.send("q", plain("a", "b"), now=0)
        short = await queues.lease("q", limit=1, seconds=1, now=0)
        long = await queues.lease("q", limit=1, seconds=5, now=0)
        with pytest.raises(Lost) as caught:
            await queues.extend([*short, *long], seconds=20, now=4)
        assert caught.value.ids == ("a",)
        assert await names_of(queues, now=20) == ["a"]

    async def test_a_lease_that_ran_out_still_counts_while_nobody_else_has_it(
        self, queues: QueueStore
    ) -> None:
        await queues.send("q", plain("a", "b", "c"), now=0)
        acknowledged, released, buried = await queues.lease("q", limit=3, seconds=1, now=0)
        with pytest.raises(Lost):
            await queues.extend([acknowledged], seconds=9, now=1)
        await queues.acknowledge([acknowledged], now=2)
        await queues.release(released, now=2, delay_seconds=5)
        await queues.dead_letter(buried, now=2, reason="x")
        depth = await queues.depth("q", now=2)
        assert (depth.waiting, depth.delayed, depth.leased, depth.dead) == (0, 1, 0, 1)

    async def test_a_released_message_comes_back_after_its_delay(self, queues: QueueStore) -> None:
        await queues.send("q", plain("m"), now=0)
        await queues.release(await one_of(queues, now=1), now=1, delay_seconds=5, error="not yet")
        assert await queues.lease("q", limit=10, seconds=10, now=5.9) == []
        assert (await one_of(queues, now=6)).deliveries == 2

    async def test_a_delivery_that_is_not_counted_did_not_happen(self, queues: QueueStore) -> None:
        await queues.send("q", plain("m"), now=0)
        await queues.release(await one_of(queues, now=1), now=1, counted=False)
        leased = await one_of(queues, now=1)
        assert leased.deliveries == 1
        await queues.dead_letter(leased, now=2, reason="x")
        assert [one.ending for one in (await queues.get_dead_letter("q", "m")).history] == ["buried"]


class WaitingSuite:
    async def test_next_due_is_when_the_next_delay_or_lease_ends(self, queues: QueueStore) -> None:
        assert await queues.next_due("q", now=0) is None
        await queues.send("q", plain("now"), now=0)
        assert await queues.next_due("q", now=0) is None
        await queues.send("q", plain("later", priority=LEAST), now=0, delay_seconds=30)
        await queues.send("q", plain("soon"), now=0, delay_seconds=20)
        assert await queues.next_due("q", now=0) == 20
        leased = await one_of(queues, now=0, seconds=5)
        assert await queues.next_due("q", now=0) == 5
        await queues.acknowledge([leased], now=1)
        assert await queues.next_due("q", now=1) == 20
        assert await queues.next_due("q", now=20) == 30
        assert await queues.next_due("q", now=30) is None

    async def test_a_wait_ends_when_the_time_is_over(self, queues: QueueStore) -> None:
        await queues.wait(["q", "p"], seconds=0)
        await queues.wait(["q", "p"], seconds=0.01)

    async def test_a_wait_is_woken_by_what_is_sent(self, queues: QueueStore) -> None:
        async with asyncio.timeout(LONG_SECONDS / 2):
            waiting = asyncio.create_task(queues.wait(["p", "q"], seconds=LONG_SECONDS))
            sent = 0
            # Again, for the first ones may have been sent before it began to wait.
            while not (await asyncio.wait({waiting}, timeout=0.1))[0]:
                sent += await queues.send("q", plain(f"{sent}"), now=0)
            await waiting

    async def test_a_wait_is_woken_by_a_release_or_a_replay(self, queues: QueueStore) -> None:
        await queues.send("q", plain("back", "dead"), now=0)
        async with asyncio.timeout(LONG_SECONDS / 2):
            for replay in (False, True):
                await queues.lease("q", limit=9, seconds=0, now=0)
                waiting = asyncio.create_task(queues.wait(["q"], seconds=LONG_SECONDS))
                while not (await asyncio.wait({waiting}, timeout=0.1))[0]:
                    (leased, *_) = await queues.lease("q", limit=1, seconds=0, now=0)
                    if replay:
                        await queues.dead_letter(leased, now=0, reason="x")
                        await queues.replay("q", now=0, limit=9)
                    else:
                        await queues.release(leased, now=0)
                await waiting

    async def test_waiting_may_be_cancelled(self, queues: QueueStore) -> None:
        waiting = asyncio.create_task(queues.wait(["q"], seconds=LONG_SECONDS))
        await asyncio.wait({waiting}, timeout=0.01)
        waiting.cancel()
        await asyncio.wait({waiting}, timeout=LONG_SECONDS / 2)
        assert waiting.done()


class QueuesSuite(SendingSuite, OrderSuite, LeasingSuite, WaitingSuite, DeadLettersSuite, OverviewSuite):
    """All of it."""
