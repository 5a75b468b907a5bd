"""Looking at queues, working with dead letters, metrics, and the trying of backends."""

import re

import pytest
from msgspec import structs

from quire.consumers import administration
from quire.consumers.administration import QueueContext
from quire.consumers.guarantees import check_guarantees
from quire.consumers.metrics import format_metrics
from quire.model.errors import Missing
from quire.model.queues import KNOWN_QUEUES
from quire.queues.port import DeadLetterFilter, Message
from quire.queues.routed import RoutedQueues
from quire.testing.memory_queues import MemoryQueues
from quire.testing.time import CountingIds, FakeClock

QUEUE = "arke-batch-jobs"


class Counter:
    """A context, and hands that fill its queues."""

    def __init__(self):
        self.clock = FakeClock(1_700_000_040.0)  # on the minute
        self.queues = MemoryQueues()
        self.context = QueueContext(queues=self.queues, policies=KNOWN_QUEUES, clock=self.clock)

    async def send(self, *ids, queue=QUEUE, body=b"{}", **options):
        messages = [Message(id=one, body=body) for one in ids]
        await self.queues.send(queue, messages, now=self.clock.now(), **options)

    async def lease(self, limit=1, queue=QUEUE):
        return await self.queues.lease(queue, limit=limit, seconds=30, now=self.clock.now(), worker="w")

    async def dead_letter(self, *ids, error_class="transient", reason="rate limit", **options):
        for one in ids:
            await self.send(one, **options)
            (leased,) = await self.lease()
            await self.queues.dead_letter(
                leased, now=self.clock.now(), reason=reason, error_class=error_class
            )


@pytest.fixture
def counter():
    return Counter()


async def test_a_queue_is_described_with_depth_age_rate_and_retries(counter):
    await counter.send("a", "b", "c", "d", "e")
    await counter.send("later", delay_seconds=100)
    done, again, _out = await counter.lease(3)
    await counter.queues.acknowledge([done], now=counter.clock.now())
    await counter.queues.release(again, now=counter.clock.now(), error="x")
    counter.clock.advance(20)
    (line,) = await administration.list_queues(counter.context)
    assert (line.waiting, line.delayed, line.in_flight, line.dead) == (3, 1, 1, 0)
    assert (line.oldest_age_seconds, line.dead_letter, line.max_retries) == (20, "arke-batch-jobs-dlq", 3)
    assert line.seconds_looked_at == 320
    assert line.acknowledged_per_second == pytest.approx(1 / 320, abs=0.001)
    assert line.retry_rate == pytest.approx(1 / 3, abs=0.001)


async def test_what_happened_long_ago_is_no_throughput(counter):
    await counter.send("a")
    await counter.queues.acknowledge(await counter.lease(), now=counter.clock.now())
    counter.clock.advance(1000)
    (line,) = await administration.list_queues(counter.context)
    assert (line.acknowledged_per_second, line.retry_rate, line.oldest_age_seconds) == (0, None, None)


async def test_configured_queues_are_listed_when_asked_for(counter):
    assert await administration.list_queues(counter.context) == []
    everything = await administration.list_queues(counter.context, everything=True)
    assert [one.queue for one in everything] == sorted(KNOWN_QUEUES)


async def test_peeking_tells_waiting_delayed_and_in_flight_apart_and_delivers_nothing(counter):
    await counter.send("out")
    await counter.lease()
    await counter.send("text", body="grüße".encode())
    await counter.send("bytes", body=b"\xff\x00", delay_seconds=9)
    lines = await administration.peek(counter.context, QUEUE, limit=9)
    assert [(one.id, one.state) for one in lines] == [
        ("text", "waiting"),
        ("bytes", "delayed"),
        ("out", "in_flight"),
    ]
    assert [(one.body, one.body_base64) for one in lines] == [("grüße", None), (None, "/wA="), ("{}", None)]
    assert [one.deliveries for one in lines] == [0, 0, 1]


async def test_a_queue_is_found_by_the_name_of_its_dead_letters(counter):
    assert await administration.resolve_name(counter.context, "preprocess-dlq") == "arke-preprocess-jobs"
    with pytest.raises(Missing, match="did you mean arke-batch-jobs"):
        await administration.resolve_name(counter.context, "arke-batch-job")
    with pytest.raises(Missing, match="list --all"):
        await administration.peek(counter.context, "??", limit=1)


async def test_dead_letters_are_searched_grouped_and_paged(counter):
    await counter.dead_letter("a", "b", "c")
    await counter.dead_letter(
        "d", error_class="not_json", reason="the message is not JSON", body=b"<Order 66>"
    )
    assert await administration.count_by_error_class(counter.context, QUEUE) == {
        "transient": 3,
        "not_json": 1,
    }

    async def found(chosen, after=0, limit=9):
        return await administration.list_dead_letters(
            counter.context, QUEUE, chosen, after=after, limit=limit
        )

    assert [one.id for one in await found(DeadLetterFilter(text="ORDER"))] == ["d"]
    assert [one.id for one in await found(DeadLetterFilter(error_class="transient"))] == ["a", "b", "c"]
    first = await found(DeadLetterFilter(), limit=2)
    assert [one.id for one in await found(DeadLetterFilter(), after=first[-1].no)] == ["c", "d"]


async def test_many_dead_letters_come_in_pages(counter, monkeypatch):
    monkeypatch.setattr(administration, "PAGE", 2)
    await counter.dead_letter(*"abcde")
    assert (
        len(
            await administration.list_dead_letters(
                counter.context, QUEUE, DeadLetterFilter(), after=0, limit=99
            )
        )
        == 5
    )
    assert (
        len(
            await administration.list_dead_letters(
                counter.context, QUEUE, DeadLetterFilter(), after=0, limit=3
            )
        )
        == 3
    )
    assert await administration.count_dead(counter.context, QUEUE, DeadLetterFilter(text="rate")) == 5


async def test_a_dead_letter_is_shown_with_its_history(counter):
    await counter.send("a")
    (leased,) = await counter.lease()
    await counter.queues.release(leased, now=counter.clock.now(), error_class="transient", error="429")
    (leased,) = await counter.lease()
    await counter.queues.dead_letter(
        leased, now=counter.clock.now(), reason="401", error_class="misconfigured"
    )
    letter = await administration.show_dead_letter(counter.context, "arke-batch-jobs-dlq", "a")
    assert [(one.delivery, one.ending, one.error, one.worker) for one in letter.history] == [
        (1, "released", "429", "w"),
        (2, "buried", "401", "w"),
    ]
    assert (letter.reason, letter.error_class, letter.deliveries) == ("401", "misconfigured", 2)
    with pytest.raises(Missing):
        await administration.show_dead_letter(counter.context, QUEUE, "b")


@pytest.mark.parametrize(
    ("chosen", "count"),
    [
        (DeadLetterFilter(), 4),
        (DeadLetterFilter(error_class="transient"), 3),
        (DeadLetterFilter(error_class="nope"), 0),
        (DeadLetterFilter(ids=["a", "d"]), 2),
        (DeadLetterFilter(error_class="transient", text="B"), 1),
    ],
)
async def test_what_is_chosen_is_counted_and_replayed(counter, chosen, count):
    await counter.dead_letter("a", "b", "c", reason="x")
    await counter.dead_letter("d", error_class="not_json", reason="x")
    assert await administration.count_dead(counter.context, QUEUE, chosen) == count
    assert await administration.replay(counter.context, QUEUE, chosen) == count
    depth = await counter.queues.depth(QUEUE, now=counter.clock.now())
    assert (depth.waiting, depth.dead) == (count, 4 - count)


async def test_an_id_that_does_not_exist_is_reported_before_anything_is_changed(counter):
    await counter.dead_letter("a")
    with pytest.raises(Missing):
        await administration.discard(counter.context, QUEUE, DeadLetterFilter(ids=["a", "typo"]))
    assert await administration.count_dead(counter.context, QUEUE, DeadLetterFilter()) == 1


async def test_a_replay_in_steps_ends_although_a_consumer_gives_up_again(counter, monkeypatch):
    monkeypatch.setattr(administration, "CHUNK", 2)
    await counter.dead_letter(*"abcde")
    replay = counter.queues.replay

    async def and_buried_again(queue, **options):
        done = await replay(queue, **options)
        for leased in await counter.lease(99):
            await counter.queues.dead_letter(
                leased, now=counter.clock.now(), reason="again", error_class="transient"
            )
        return done

    counter.queues.replay = and_buried_again
    assert await administration.replay(counter.context, QUEUE, DeadLetterFilter()) == 5
    assert await administration.count_dead(counter.context, QUEUE, DeadLetterFilter()) == 5


async def test_with_a_rate_they_become_due_one_after_the_other(counter, monkeypatch):
    monkeypatch.setattr(administration, "CHUNK", 2)
    await counter.dead_letter(*"abcd")
    assert await administration.replay(counter.context, QUEUE, DeadLetterFilter(), per_second=0.5) == 4
    lines = await administration.peek(counter.context, QUEUE, limit=9)
    assert [one.state for one in lines] == ["waiting", "delayed", "delayed", "delayed"]
    counter.clock.advance(4)
    assert len(await counter.lease(9)) == 3


async def test_discarding_is_final_and_purging_leaves_the_dead_alone(counter, monkeypatch):
    monkeypatch.setattr(administration, "CHUNK", 2)
    await counter.dead_letter(*"abcde")
    await counter.send("x", "y")
    await counter.send("z", delay_seconds=9)
    assert await administration.count_waiting(counter.context, QUEUE) == 3
    assert await administration.purge(counter.context, QUEUE) == 3
    assert await administration.discard(counter.context, QUEUE, DeadLetterFilter(ids=["a"])) == 1
    assert await administration.discard(counter.context, QUEUE, DeadLetterFilter()) == 4
    depth = await counter.queues.depth(QUEUE, now=counter.clock.now())
    assert (depth.waiting, depth.dead) == (0, 0)


async def test_prometheus_reads_every_queue(counter):
    await counter.send("a", "b")
    await counter.dead_letter("c", queue=QUEUE)
    await counter.send("x", queue='evil"} 1\n# \\')
    counter.clock.advance(5)
    text = await format_metrics(counter.context)
    lines = text.splitlines()
    assert f'quire_queue_messages_total{{queue="{QUEUE}",happening="sent"}} 3' in lines
    assert f'quire_queue_depth{{queue="{QUEUE}",state="dead"}} 1' in lines
    assert f'quire_queue_oldest_age_seconds{{queue="{QUEUE}"}} 5.0' in lines
    assert r'quire_queue_depth{queue="evil\"} 1\n# \\",state="waiting"} 1' in lines
    sample = re.compile(r'^quire_queue_\w+\{(\w+="([^"\\\n]|\\["\\n])*",?)+\} [\d.]+$')
    assert all(line.startswith("# ") or sample.match(line) for line in lines)
    assert len([line for line in lines if line.startswith("# TYPE")]) == 3
    assert text.endswith("\n")


async def test_a_backend_that_keeps_its_promises_passes_and_is_left_empty(counter):
    promises = await check_guarantees(counter.queues, counter.clock, CountingIds())
    assert len(promises) == 12
    assert [one for one in promises if not one.ok] == []
    (name,) = await counter.queues.names()
    depth = await counter.queues.depth(name, now=counter.clock.now() + 10**6)
    assert (depth.waiting, depth.delayed, depth.leased, depth.dead) == (0, 0, 0, 0)


class Forgetful(MemoryQueues):
    async def acknowledge(self, leased, *, now):
        pass


class Generous(MemoryQueues):
    async def dead_letter(self, leased, *, now, reason, error_class=""):
        if self._find_leased(leased):
            await super().dead_letter(leased, now=now, reason=reason, error_class=error_class)


class Deaf(MemoryQueues):
    def _wake(self, queue):
        pass


@pytest.mark.parametrize(
    ("kind", "broken"),
    [
        (Forgetful, "what is acknowledged never comes again"),
        (Generous, "who lost a lease can do nothing with it"),
        (Deaf, "who waits is woken"),
    ],
)
async def test_a_broken_promise_is_named(counter, kind, broken, monkeypatch):
    monkeypatch.setattr("quire.consumers.guarantees.WOKEN_WITHIN_SECONDS", 0.01)
    promises = await check_guarantees(kind(), counter.clock, CountingIds())
    failed = [one for one in promises if not one.ok]
    assert broken in [one.name for one in failed]
    assert all(one.detail for one in failed)
    assert len(promises) == 12


async def test_a_backend_that_is_away_fails_every_promise_with_the_reason(counter):
    counter.queues.away = True
    promises = await check_guarantees(counter.queues, counter.clock, CountingIds())
    assert {(one.ok, one.detail) for one in promises} == {(False, "the queues are away")}


async def test_queues_whose_server_is_away_are_named_and_can_be_left_out(counter):
    far = MemoryQueues()
    routed = RoutedQueues(counter.queues, far, lambda name: name.startswith("jarvis."), counter.clock)
    context = structs.replace(counter.context, queues=routed)
    await counter.send("a")
    assert await administration.find_unreachable(context) == {}
    far.away = True
    away = await administration.find_unreachable(context)
    assert away == dict.fromkeys(["jarvis.ocr.jobs", "jarvis.recipes.jobs"], "the queues are away")
    listed = await administration.list_queues(context, everything=True, without=away)
    assert {one.queue for one in listed} == KNOWN_QUEUES.keys() - away.keys()
