"""What every queue adapter promises about dead letters. Part of `QueuesSuite`."""

import pytest

from quire.model.errors import Missing
from quire.queues.port import DEDUPE_SECONDS, DeadLetterFilter, Message, QueueStore


async def dead_letter(
    queues: QueueStore, *ids: str, now: float = 1.0, error_class: str = "", reason: str = "x"
) -> None:
    """Send them and give each up."""
    await queues.send("q", [Message(id=name, body=f"body of {name}".encode()) for name in ids], now=now)
    leased = {one.id: one for one in await queues.lease("q", limit=1000, seconds=10, now=now)}
    for name in ids:
        await queues.dead_letter(leased[name], now=now, reason=reason, error_class=error_class)


async def dead(queues: QueueStore, chosen: DeadLetterFilter = DeadLetterFilter()) -> list[str]:
    return [one.id for one in await queues.list_dead_letters("q", chosen=chosen, limit=100)]


class DeadLettersSuite:
    async def test_a_dead_letter_stays_dead_and_its_id_is_known(self, queues: QueueStore) -> None:
        await dead_letter(queues, "m")
        far = 10 * DEDUPE_SECONDS
        assert await queues.lease("q", limit=10, seconds=10, now=far) == []
        assert await queues.send("q", [Message(id="m", body=b"")], now=far) == 0
        await queues.sweep(now=far)
        assert (await queues.depth("q", now=far)).dead == 1

    async def test_a_dead_letter_has_payload_and_history(self, queues: QueueStore) -> None:
        await queues.send("q", [Message(id="m", body=b"\xffbody", priority=2)], now=0.5)
        (first,) = await queues.lease("q", limit=1, seconds=10, now=1, worker="one")
        await queues.release(first, now=2, error_class="busy", error="come later")
        await queues.lease("q", limit=1, seconds=10, now=3, worker="two")
        (third,) = await queues.lease("q", limit=1, seconds=10, now=13, worker="three")
        await queues.dead_letter(third, now=14, reason="poison", error_class="bad")
        letter = await queues.get_dead_letter("q", "m")
        assert (letter.queue, letter.id, letter.body, letter.priority) == ("q", "m", b"\xffbody", 2)
        assert (letter.deliveries, letter.sent_at, letter.buried_at) == (3, 0.5, 14)
        assert (letter.error_class, letter.reason) == ("bad", "poison")
        assert [(one.delivery, one.at, one.ending, one.worker) for one in letter.history] == [
            (1, 2, "released", "one"),
            (2, 13, "expired", "two"),
            (3, 14, "buried", "three"),
        ]
        assert [(one.error_class, one.error) for one in letter.history] == [
            ("busy", "come later"),
            ("", ""),
            ("bad", "poison"),
        ]
        assert await queues.list_dead_letters("q", limit=9) == [letter]

    async def test_what_went_wrong_may_be_any_text(self, queues: QueueStore) -> None:
        await queues.send("q", [Message(id="m", body=b"")], now=0)
        (first,) = await queues.lease("q", limit=1, seconds=10, now=1, worker="nul\0, half \udcff")
        await queues.release(first, now=2, error_class="nul\0", error="cut\0off\n\"'{}%s")
        (second,) = await queues.lease("q", limit=1, seconds=10, now=3)
        await queues.dead_letter(second, now=4, reason="poison \udcff", error_class="half \udcff")
        letter = await queues.get_dead_letter("q", "m")
        assert letter.history[0].error.startswith("cut")
        assert letter.history[0].error.endswith("off\n\"'{}%s")
        assert letter.reason.startswith("poison ")

    async def test_an_unknown_dead_letter_is_missing(self, queues: QueueStore) -> None:
        await queues.send("q", [Message(id="alive", body=b"")], now=0)
        await dead_letter(queues, "m")
        for queue, name in (("q", "alive"), ("q", "other"), ("p", "m"), ("q", ""), ("q", "a\0b")):
            with pytest.raises(Missing):
                await queues.get_dead_letter(queue, name)

    async def test_dead_letters_are_read_page_by_page_in_order(self, queues: QueueStore) -> None:
        await dead_letter(queues, "c", "a", "b", now=1)
        await dead_letter(queues, "d", now=2)
        first = await queues.list_dead_letters("q", limit=3)
        assert [one.id for one in first] == ["c", "a", "b"]
        assert [one.no for one in first] == sorted({one.no for one in first})
        assert [one.id for one in await queues.list_dead_letters("q", after=first[1].no, limit=9)] == [
            "b",
            "d",
        ]
        assert await queues.list_dead_letters("p", limit=9) == []

    async def test_the_number_of_a_dead_letter_never_comes_again(self, queues: QueueStore) -> None:
        await dead_letter(queues, "a")
        (first,) = await queues.list_dead_letters("q", limit=1)
        await queues.discard("q", now=2, limit=1)
        await dead_letter(queues, "b")
        assert [one.id for one in await queues.list_dead_letters("q", after=first.no, limit=9)] == ["b"]

    async def test_a_message_that_is_given_up_again_is_the_last_one(self, queues: QueueStore) -> None:
        await dead_letter(queues, "a", "b")
        assert await queues.replay("q", chosen=DeadLetterFilter(ids=["a"]), now=2, limit=9) == 1
        (again,) = await queues.lease("q", limit=9, seconds=9, now=2)
        await queues.dead_letter(again, now=3, reason="again")
        assert await dead(queues) == ["b", "a"]

    async def test_dead_letters_are_chosen_by_id_class_and_text(self, queues: QueueStore) -> None:
        await dead_letter(queues, "one", "two", error_class="busy", reason="Server ÜBERLASTET")
        await dead_letter(queues, "three", error_class="bad", reason="no such page")
        assert await dead(queues, DeadLetterFilter(ids=["two", "three", "other", "a\0b"])) == ["two", "three"]
        assert await dead(queues, DeadLetterFilter(ids={"two"}, error_class="bad")) == []
        assert await dead(queues, DeadLetterFilter(ids=())) == []
        assert await dead(queues, DeadLetterFilter(error_class="busy")) == ["one", "two"]
        assert await dead(queues, DeadLetterFilter(error_class="")) == []
        assert await dead(queues, DeadLetterFilter(text="überlastet")) == ["one", "two"]
        assert await dead(queues, DeadLetterFilter(text="BODY OF T")) == ["two", "three"]
        assert await dead(queues, DeadLetterFilter(text="THREE")) == ["three"]
        assert await dead(queues, DeadLetterFilter(text="%")) == []
        assert await dead(queues, DeadLetterFilter(text="body", error_class="bad")) == ["three"]
        assert await queues.list_dead_letters("q", chosen=DeadLetterFilter(text="body"), limit=0) == []

    async def test_text_is_found_beside_bodies_that_are_none(self, queues: QueueStore) -> None:
        messages = [Message(id="a", body=b"\xff\xfe\0"), Message(id="b", body="\0 Straße".encode())]
        await queues.send("q", messages, now=0)
        for leased in await queues.lease("q", limit=9, seconds=9, now=0):
            await queues.dead_letter(leased, now=1, reason="x")
        assert await dead(queues, DeadLetterFilter(text="straße")) == ["b"]

    async def test_classes_are_counted_most_first(self, queues: QueueStore) -> None:
        assert await queues.count_dead_letters("q") == {}
        await dead_letter(queues, "a", error_class="rare")
        await dead_letter(queues, "b", "c", "d", error_class="often")
        await dead_letter(queues, "e", "f")
        assert list((await queues.count_dead_letters("q")).items()) == [("often", 3), ("", 2), ("rare", 1)]

    async def test_a_replayed_message_starts_again_and_keeps_its_history(self, queues: QueueStore) -> None:
        await dead_letter(queues, "m", reason="first")
        assert await queues.replay("q", now=5, limit=9) == 1
        assert await dead(queues) == []
        (leased,) = await queues.lease("q", limit=9, seconds=9, now=5)
        assert (leased.body, leased.deliveries, leased.sent_at) == (b"body of m", 1, 1.0)
        await queues.dead_letter(leased, now=6, reason="second", error_class="bad")
        letter = await queues.get_dead_letter("q", "m")
        assert [(one.at, one.ending) for one in letter.history] == [
            (1, "buried"),
            (5, "replayed"),
            (6, "buried"),
        ]
        assert (letter.reason, letter.error_class, letter.buried_at) == ("second", "bad", 6)

    async def test_the_oldest_are_replayed_first_and_not_more_than_asked(self, queues: QueueStore) -> None:
        await dead_letter(queues, "c", "a", "b")
        assert await queues.replay("q", now=5, limit=2) == 2
        assert [one.id for one in await queues.lease("q", limit=9, seconds=9, now=5)] == ["c", "a"]
        assert await dead(queues) == ["b"]
        assert (
            await queues.replay("q", chosen=DeadLetterFilter(text="nothing like this"), now=5, limit=9) == 0
        )
        assert await queues.replay("q", chosen=DeadLetterFilter(text="body"), now=5, limit=0) == 0
        assert await queues.replay("q", chosen=DeadLetterFilter(text="BODY"), now=5, limit=9) == 1

    async def test_replayed_together_they_come_in_the_order_of_their_numbers(
        self, queues: QueueStore
    ) -> None:
        await queues.send("q", [Message(id=name, body=b"") for name in "abc"], now=0)
        for leased in reversed(await queues.lease("q", limit=9, seconds=9, now=0)):
            await queues.dead_letter(leased, now=1, reason="x")
        await queues.replay("q", now=2, limit=9)
        assert [one.id for one in await queues.lease("q", limit=9, seconds=9, now=2)] == ["c", "b", "a"]

    async def test_replayed_at_a_rate_they_become_due_one_after_the_other(self, queues: QueueStore) -> None:
        await dead_letter(queues, "a", "b", "c")
        assert await queues.replay("q", now=10, per_second=0.5, limit=9) == 3
        for now, expected in ((10, ["a"]), (11.9, []), (12, ["b"]), (13.9, []), (14, ["c"])):
            leased = await queues.lease("q", limit=9, seconds=99, now=now)
            assert [one.id for one in leased] == expected

    async def test_what_is_discarded_is_gone_and_its_id_known_for_a_while(self, queues: QueueStore) -> None:
        await dead_letter(queues, "a", "b", "c", error_class="bad")
        assert await queues.discard("q", chosen=DeadLetterFilter(error_class="bad"), now=5, limit=2) == 2
        assert await dead(queues) == ["c"]
        assert await queues.send("q", [Message(id="a", body=b"")], now=6) == 0
        assert await queues.replay("q", chosen=DeadLetterFilter(ids=["a"]), now=6, limit=9) == 0
        assert await queues.send("q", [Message(id="a", body=b"")], now=6 + DEDUPE_SECONDS) == 1
        (again,) = await queues.lease("q", limit=9, seconds=9, now=6 + DEDUPE_SECONDS)
        await queues.dead_letter(again, now=7 + DEDUPE_SECONDS, reason="x")
        assert len((await queues.get_dead_letter("q", "a")).history) == 1
