"""What every queue adapter promises about messages whose stored bytes have changed.

Subclass `DamagedMessagesSuite` and give the fixtures `queues`, an empty store, and `damage`, which changes
one bit of what is stored of a message: of its body, or of its checksum.
"""

from collections.abc import Awaitable, Callable

import pytest

from quire.queues.port import DAMAGED, Message, QueueStore

# Queue, id of the message, and one of PARTS.
Damage = Callable[[str, str, str], Awaitable[None]]
PARTS = ("body", "checksum")


def some(*ids: str) -> list[Message]:
    return [Message(id=name, body=f"body of {name}".encode()) for name in ids]


class DamagedMessagesSuite:
    @pytest.mark.parametrize("part", PARTS)
    async def test_a_damaged_message_is_never_delivered(
        self, queues: QueueStore, damage: Damage, part: str
    ) -> None:
        await queues.send("q", some("a", "b", "c"), now=0)
        await damage("q", "b", part)
        leased = await queues.lease("q", limit=2, seconds=10, now=1)
        assert [(one.id, one.body) for one in leased] == [("a", b"body of a"), ("c", b"body of c")]
        assert await queues.count_dead_letters("q") == {DAMAGED: 1}
        letter = await queues.get_dead_letter("q", "b")
        assert (letter.error_class, letter.is_damaged, letter.deliveries) == (DAMAGED, True, 1)
        assert letter.history[-1].error_class == DAMAGED

    async def test_the_dead_letter_keeps_the_bytes(self, queues: QueueStore, damage: Damage) -> None:
        (sent,) = some("m")
        await queues.send("q", [sent], now=0)
        await damage("q", "m", "body")
        (seen,) = await queues.peek("q", limit=9, now=0)
        assert seen.is_damaged
        assert await queues.lease("q", limit=9, seconds=10, now=1) == []
        kept = (await queues.get_dead_letter("q", "m")).body
        assert kept == seen.body
        assert len(kept) == len(sent.body)
        changed = int.from_bytes(kept, "big") ^ int.from_bytes(sent.body, "big")
        assert changed.bit_count() == 1

    async def test_a_damaged_message_that_is_replayed_is_not_delivered_either(
        self, queues: QueueStore, damage: Damage
    ) -> None:
        await queues.send("q", some("m"), now=0)
        await damage("q", "m", "body")
        await queues.lease("q", limit=9, seconds=10, now=1)
        assert await queues.replay("q", now=2, limit=9) == 1
        assert await queues.lease("q", limit=9, seconds=10, now=3) == []
        assert await queues.count_dead_letters("q") == {DAMAGED: 1}

    async def test_a_message_damaged_between_two_deliveries_is_not_delivered_again(
        self, queues: QueueStore, damage: Damage
    ) -> None:
        await queues.send("q", some("released", "left"), now=0)
        leased = {one.id: one for one in await queues.lease("q", limit=9, seconds=10, now=1)}
        await queues.release(leased["released"], now=2, delay_seconds=5)
        await damage("q", "released", "body")
        await damage("q", "left", "body")
        assert await queues.lease("q", limit=9, seconds=10, now=20) == []
        assert {one.id for one in await queues.list_dead_letters("q", limit=9)} == {"released", "left"}

    async def test_a_dead_letter_damaged_later_says_so_and_is_not_delivered(
        self, queues: QueueStore, damage: Damage
    ) -> None:
        await queues.send("q", some("m"), now=0)
        (leased,) = await queues.lease("q", limit=9, seconds=10, now=1)
        await queues.dead_letter(leased, now=2, reason="poison", error_class="bad")
        assert not (await queues.get_dead_letter("q", "m")).is_damaged
        await damage("q", "m", "body")
        letter = await queues.get_dead_letter("q", "m")
        assert (letter.error_class, letter.is_damaged) == ("bad", True)
        await queues.replay("q", now=3, limit=9)
        assert await queues.lease("q", limit=9, seconds=10, now=4) == []

    async def test_more_damaged_messages_than_are_asked_for_hold_up_nothing(
        self, queues: QueueStore, damage: Damage
    ) -> None:
        names = [f"{number:02}" for number in range(25)]
        await queues.send("q", some(*names, "good"), now=0)
        for name in names:
            await damage("q", name, "body")
        assert [one.id for one in await queues.lease("q", limit=2, seconds=10, now=1)] == ["good"]
        assert await queues.count_dead_letters("q") == {DAMAGED: 25}

    async def test_whole_messages_are_never_taken_for_damaged(self, queues: QueueStore) -> None:
        bodies = [b"", b"\0", b"\xff" * 100, b"\xf5\xc1\xfe\x96\xff\xa9\xfb\xd1", bytes(range(256)) * 9]
        messages = [
            Message(id=f"m{place} é\U0001f600", body=body, priority=1 + place % 5)
            for place, body in enumerate(bodies)
        ]
        await queues.send("q", messages, now=1_700_000_000.123456789)
        leased = await queues.lease("q", limit=9, seconds=10, now=1_700_000_001.1)
        assert {one.id: one.body for one in leased} == {one.id: one.body for one in messages}
        for one in leased:
            await queues.release(one, now=1_700_000_002)
        for one in await queues.lease("q", limit=9, seconds=10, now=1_700_000_003):
            await queues.dead_letter(one, now=1_700_000_003, reason="x")
        assert not any(one.is_damaged for one in await queues.list_dead_letters("q", limit=9))
        await queues.replay("q", now=1_700_000_004, limit=9)
        assert len(await queues.lease("q", limit=9, seconds=10, now=1_700_000_005)) == len(messages)
