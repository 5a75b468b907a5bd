"""What every queue adapter must keep about looking on and cleaning up. Part of `QueuesSuite`."""

from quire.queues.port import DEDUPE_SECONDS, Message, QueueCounter, QueueDepth, QueueStore


async def send(
    queues: QueueStore, *ids: str, now: float = 0, priority: int = 3, delay_seconds: float = 0
) -> None:
    messages = [Message(id=name, body=name.encode(), priority=priority) for name in ids]
    await queues.send("q", messages, now=now, delay_seconds=delay_seconds)


class OverviewSuite:
    async def test_depth_tells_waiting_delayed_leased_and_dead_apart(self, queues: QueueStore) -> None:
        assert await queues.depth("q", now=0) == QueueDepth(waiting=0, leased=0, dead=0)
        await send(queues, "a", "b", "c", "d", now=1)
        await send(queues, "e", now=2, delay_seconds=50)
        first, _ = await queues.lease("q", limit=2, seconds=10, now=3)
        await queues.dead_letter(first, now=3, reason="x")
        depth = await queues.depth("q", now=4)
        assert depth == QueueDepth(waiting=2, leased=1, dead=1, delayed=1, oldest_at=1)
        depth = await queues.depth("q", now=60)
        assert depth == QueueDepth(waiting=4, leased=0, dead=1, delayed=0, oldest_at=1)

    async def test_the_oldest_is_one_that_waits_or_is_out(self, queues: QueueStore) -> None:
        await send(queues, "dead", now=1)
        (dead,) = await queues.lease("q", limit=1, seconds=10, now=1)
        await queues.dead_letter(dead, now=1, reason="x")
        assert (await queues.depth("q", now=2)).oldest_at is None
        await send(queues, "later", now=2, delay_seconds=100)
        assert (await queues.depth("q", now=2)).oldest_at is None
        await send(queues, "out", now=3)
        (out,) = await queues.lease("q", limit=1, seconds=10, now=4)
        await send(queues, "waits", now=5)
        assert (await queues.depth("q", now=6)).oldest_at == 3
        await queues.acknowledge([out], now=7)
        assert (await queues.depth("q", now=7)).oldest_at == 5

    async def test_looking_shows_the_order_of_delivery_and_changes_nothing(self, queues: QueueStore) -> None:
        await send(queues, "out", now=0)
        await queues.lease("q", limit=1, seconds=100, now=0, worker="me")
        await send(queues, "delayed", now=0, delay_seconds=50)
        await send(queues, "b", "c", now=1)
        await send(queues, "urgent", now=2, priority=1)
        for _ in range(2):
            shown = await queues.peek("q", limit=9, now=3)
            assert [one.id for one in shown] == ["urgent", "b", "c", "delayed", "out"]
        assert [one.id for one in await queues.peek("q", limit=2, now=3)] == ["urgent", "b"]
        urgent, _, _, delayed, out = shown
        assert (urgent.queue, urgent.body, urgent.priority, urgent.deliveries) == ("q", b"urgent", 1, 0)
        assert (urgent.sent_at, urgent.due_at, urgent.leased_to) == (2, 2, None)
        assert (delayed.due_at, delayed.leased_to) == (50, None)
        assert (out.due_at, out.leased_to, out.deliveries) == (100, "me", 1)
        leased = await queues.lease("q", limit=9, seconds=1, now=3)
        assert [one.id for one in leased] == ["urgent", "b", "c"]

    async def test_one_whose_lease_ran_out_is_shown_as_waiting(self, queues: QueueStore) -> None:
        await send(queues, "m")
        await queues.lease("q", limit=1, seconds=1, now=0, worker="me")
        (shown,) = await queues.peek("q", limit=9, now=1)
        assert (shown.leased_to, shown.deliveries) == (None, 1)

    async def test_names_are_those_of_queues_with_messages(self, queues: QueueStore) -> None:
        assert await queues.names() == []
        await queues.send("b", [Message(id="m", body=b"")], now=0)
        await queues.send("a", [Message(id="m", body=b""), Message(id="n", body=b"")], now=0)
        (leased,) = await queues.lease("b", limit=1, seconds=1, now=0)
        await queues.dead_letter(leased, now=0, reason="x")
        assert sorted(await queues.names()) == ["a", "b"]

    async def test_everything_that_happens_is_counted(self, queues: QueueStore) -> None:
        await send(queues, "a", "b", "c", "d", "a")
        await send(queues, "a")
        a, b, c, d = await queues.lease("q", limit=9, seconds=10, now=1)
        await queues.acknowledge([a], now=2)
        await queues.release(b, now=2, error="x", delay_seconds=500)
        await queues.release(c, now=2, counted=False, delay_seconds=500)
        await queues.dead_letter(d, now=2, reason="x")
        await queues.replay("q", now=3, limit=9)
        await queues.lease("q", limit=9, seconds=1, now=3)
        (again,) = await queues.lease("q", limit=9, seconds=1, now=4)
        await queues.dead_letter(again, now=4, reason="x")
        await queues.discard("q", now=5, limit=9)
        assert await queues.counters("q") == {
            QueueCounter.SENT: 4,
            QueueCounter.DELIVERED: 6,
            QueueCounter.ACKNOWLEDGED: 1,
            QueueCounter.RELEASED: 1,
            QueueCounter.EXPIRED: 1,
            QueueCounter.DEAD_LETTERED: 2,
            QueueCounter.REPLAYED: 1,
            QueueCounter.DISCARDED: 1,
        }
        assert set((await queues.counters("p")).values()) <= {0}

    async def test_counters_of_the_last_hour_go_by_the_minute_and_all_of_them_stay(
        self, queues: QueueStore
    ) -> None:
        start = 600_000.0
        for minute in range(3):
            await send(queues, f"{minute}", now=start + 60 * minute + 59)

        async def sent(since: float | None) -> int:
            return (await queues.counters("q", since=since)).get(QueueCounter.SENT, 0)

        assert [await sent(since) for since in (None, start, start + 60, start + 119, start + 120)] == [
            3,
            3,
            2,
            2,
            1,
        ]
        await queues.sweep(now=start + 3600 + 60)
        assert [await sent(since) for since in (None, start + 60, start + 120)] == [3, 2, 1]
        await queues.sweep(now=start + 7200)
        await queues.sweep(now=start + 7300)
        assert await sent(None) == 3
        assert await sent(start + 7200) == 0

    async def test_purging_leaves_what_is_out_and_what_is_dead(self, queues: QueueStore) -> None:
        await send(queues, "dead", "out", "expired")
        (dead,) = await queues.lease("q", limit=1, seconds=10, now=0)
        await queues.dead_letter(dead, now=0, reason="x")
        (out,) = await queues.lease("q", limit=1, seconds=100, now=0)
        await queues.lease("q", limit=1, seconds=1, now=0)
        await send(queues, "waits", now=1)
        await send(queues, "delayed", now=1, delay_seconds=99)
        await queues.send("p", [Message(id="other", body=b"")], now=1)
        assert await queues.purge("q", now=2) == 3
        assert await queues.depth("q", now=2) == QueueDepth(waiting=0, leased=1, dead=1, oldest_at=0)
        assert (await queues.depth("p", now=2)).waiting == 1
        await queues.acknowledge([out], now=3)
        assert (await queues.counters("q"))[QueueCounter.DISCARDED] == 3
        assert await queues.send("q", [Message(id="waits", body=b"")], now=3) == 1

    async def test_sweeping_forgets_ids_whose_window_is_over_and_nothing_else(
        self, queues: QueueStore
    ) -> None:
        await send(queues, *(f"{number}" for number in range(1500)), "alive")
        leased = await queues.lease("q", limit=1500, seconds=10, now=1)
        await queues.acknowledge(leased[:1400], now=10)
        await queues.acknowledge(leased[1400:], now=20)
        assert await queues.sweep(now=9 + DEDUPE_SECONDS) == 0
        assert await queues.sweep(now=15 + DEDUPE_SECONDS) == 1400
        assert await queues.sweep(now=15 + DEDUPE_SECONDS) == 0
        assert await queues.send("q", [Message(id="1450", body=b"")], now=15 + DEDUPE_SECONDS) == 0
        assert (await queues.depth("q", now=20)).waiting == 1
