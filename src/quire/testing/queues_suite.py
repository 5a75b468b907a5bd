"""What every queue adapter must keep. Subclass it and give a fixture `queues`."""

import pytest

from quire.model.errors import Lost, Reject
from quire.queues.port import MAX_MESSAGE_BYTES, Leased, Message, Queues


async def _one(queues: Queues, *, now: float, seconds: float = 10.0) -> Leased:
    (leased,) = await queues.lease("q", limit=10, seconds=seconds, now=now)
    return leased


class QueuesSuite:
    async def test_a_message_is_delivered_and_once_acknowledged_never_again(self, queues: Queues) -> None:
        await queues.send("q", [Message(id="m", body=b"hello")], now=0)
        leased = await _one(queues, now=1)
        assert (leased.id, leased.body, leased.deliveries) == ("m", b"hello", 1)
        await queues.acknowledge(leased, now=2)
        assert await queues.lease("q", limit=10, seconds=10, now=10**9) == []

    async def test_the_same_id_is_one_message_also_after_it_was_acknowledged(self, queues: Queues) -> None:
        await queues.send("q", [Message(id="m", body=b"1"), Message(id="m", body=b"2")], now=0)
        await queues.acknowledge(await _one(queues, now=1), now=1)
        await queues.send("q", [Message(id="m", body=b"3")], now=2)
        assert await queues.lease("q", limit=10, seconds=10, now=3) == []

    async def test_queues_do_not_mix(self, queues: Queues) -> None:
        await queues.send("p", [Message(id="m", body=b"p")], now=0)
        assert await queues.lease("q", limit=10, seconds=10, now=1) == []

    async def test_a_leased_message_is_hidden_until_its_lease_runs_out(self, queues: Queues) -> None:
        await queues.send("q", [Message(id="m", body=b"")], now=0)
        await _one(queues, now=1, seconds=10)
        assert await queues.lease("q", limit=10, seconds=10, now=10.9) == []
        assert (await _one(queues, now=11)).deliveries == 2

    async def test_who_lost_the_lease_can_do_nothing_with_it(self, queues: Queues) -> None:
        await queues.send("q", [Message(id="m", body=b"")], now=0)
        late = await _one(queues, now=1, seconds=1)
        current = await _one(queues, now=3)
        with pytest.raises(Lost):
            await queues.acknowledge(late, now=4)
        with pytest.raises(Lost):
            await queues.release(late, now=4, delay_seconds=0, error="x")
        with pytest.raises(Lost):
            await queues.bury(late, now=4, reason="x")
        with pytest.raises(Lost):
            await queues.extend(late, seconds=9, now=4)
        await queues.acknowledge(current, now=5)

    async def test_an_extended_lease_lasts_longer(self, queues: Queues) -> None:
        await queues.send("q", [Message(id="m", body=b"")], now=0)
        leased = await _one(queues, now=1, seconds=5)
        await queues.extend(leased, seconds=20, now=5)
        assert await queues.lease("q", limit=10, seconds=10, now=20) == []
        await queues.acknowledge(leased, now=21)

    async def test_a_released_message_comes_back_after_its_delay(self, queues: Queues) -> None:
        await queues.send("q", [Message(id="m", body=b"")], now=0)
        await queues.release(await _one(queues, now=1), now=1, delay_seconds=5, error="not yet")
        assert await queues.lease("q", limit=10, seconds=10, now=5.9) == []
        assert (await _one(queues, now=6)).deliveries == 2

    async def test_a_buried_message_stays_dead(self, queues: Queues) -> None:
        await queues.send("q", [Message(id="m", body=b"")], now=0)
        await queues.bury(await _one(queues, now=1), now=1, reason="poison")
        assert await queues.lease("q", limit=10, seconds=10, now=10**9) == []
        assert (await queues.depth("q", now=2)).dead == 1

    async def test_depth_tells_waiting_leased_and_dead_apart(self, queues: Queues) -> None:
        await queues.send("q", [Message(id=str(n), body=b"") for n in range(4)], now=0)
        first, _ = await queues.lease("q", limit=2, seconds=10, now=1)
        await queues.bury(first, now=1, reason="x")
        depth = await queues.depth("q", now=2)
        assert (depth.waiting, depth.leased, depth.dead) == (2, 1, 1)
        assert (await queues.depth("q", now=100)).waiting == 3

    async def test_oldest_first_and_not_more_than_asked(self, queues: Queues) -> None:
        await queues.send("q", [Message(id=str(n), body=b"") for n in range(5)], now=0)
        leased = await queues.lease("q", limit=3, seconds=10, now=1)
        assert [one.id for one in leased] == ["0", "1", "2"]

    async def test_a_delayed_message_is_not_early(self, queues: Queues) -> None:
        await queues.send("q", [Message(id="m", body=b"")], now=0, delay_seconds=60)
        assert await queues.lease("q", limit=10, seconds=10, now=59) == []
        await _one(queues, now=60)

    async def test_a_large_message_is_refused_with_advice(self, queues: Queues) -> None:
        with pytest.raises(Reject, match="blob"):
            await queues.send("q", [Message(id="m", body=b"x" * (MAX_MESSAGE_BYTES + 1))], now=0)
        await queues.send("q", [Message(id="m", body=b"x" * MAX_MESSAGE_BYTES)], now=0)
