"""A consumer hands out, keeps, retries, buries, gives back and waits, on a clock that moves when told."""

import asyncio
import json

import pytest
from msgspec import Struct
from msgspec.structs import replace

from quire.consumers.bodies import json_decoder
from quire.consumers.consumer import CANCEL_SECONDS, Consumer
from quire.consumers.deduplication import StageMarks, once, stage_message_id
from quire.consumers.deliveries import DeliveryEvent
from quire.model.errors import Bug, Misconfigured, Missing, Reject, Retry, Unavailable
from quire.model.queues import KNOWN_QUEUES, QueuePolicy, policy_for
from quire.queues.port import MAX_MESSAGE_BYTES, URGENT, Message, QueueCounter
from quire.testing.memory_blobs import MemoryBlobs
from quire.testing.memory_queues import MemoryQueues
from quire.testing.time import CountingIds, FakeClock

POLICY = QueuePolicy(name="q", max_batch_size=1, lease_seconds=30, delays_seconds=(60, 300, 900))


class Hours(FakeClock):
    """A clock whose time passes for those that wait on its signals, and only by `go`."""

    def __init__(self):
        super().__init__()
        self.waiting = []

    async def settle(self):
        for _ in range(60):
            await asyncio.sleep(0)

    async def go(self, seconds):
        until = self.now() + seconds
        await self.settle()
        while due := [at for at, _ in self.waiting if at <= until]:
            self.advance(max(0.0, min(due) - self.now()))
            for at, future in list(self.waiting):
                if at <= self.now() and not future.done():
                    future.set_result(False)
            await self.settle()
        self.advance(max(0.0, until - self.now()))
        await self.settle()


class HoursSignal:
    def __init__(self, hours):
        self.hours = hours
        self.was_set = False
        self.future = None

    def set(self):
        self.was_set = True
        if self.future is not None and not self.future.done():
            self.future.set_result(True)

    async def wait(self, timeout_seconds=None):
        if not self.was_set:
            self.future = asyncio.get_running_loop().create_future()
            entry = (self.hours.now() + (timeout_seconds or 0), self.future)
            self.hours.waiting.append(entry)
            try:
                await self.future
            finally:
                self.hours.waiting.remove(entry)
        was_set, self.was_set = self.was_set, False
        return was_set


class Scene:
    """A queue, consumers of it, and what their handlers saw."""

    def __init__(self):
        self.hours = Hours()
        self.queues = MemoryQueues()
        self.notes = []
        self.troubles = []
        self.seen = []
        self.cancelled = []
        self.gates = {}
        self.errors = {}
        self.tasks = []

    async def send(self, *ids, body=b"{}", **options):
        await self.queues.send(
            "q", [Message(id=one, body=body) for one in ids], now=self.hours.now(), **options
        )

    def gate(self, *ids):
        """Their handlers wait until they are let go."""
        for one in ids:
            self.gates[one] = asyncio.Event()

    async def handler(self, _content, leased):
        self.seen.append((leased.id, leased.deliveries))
        if leased.id in self.gates:
            try:
                await self.gates[leased.id].wait()
            except asyncio.CancelledError:
                self.cancelled.append(leased.id)
                raise
        if error := self.errors.get(leased.id):
            raise error

    def consumer(self, policy=POLICY, *, decode=json.loads, worker="w", handler=None):
        return Consumer(
            self.queues,
            policy,
            handler or self.handler,
            decode=decode,
            clock=self.hours,
            ids=CountingIds(),
            signal=HoursSignal(self.hours),
            worker=worker,
            log=self.notes.append,
            trouble=self.troubles.append,
        )

    def begin(self, consumer, **options):
        task = asyncio.ensure_future(consumer.run(**options))
        self.tasks.append(task)
        return task

    async def opened(self, policy=POLICY, **options):
        consumer = self.consumer(policy, **options)
        self.begin(consumer)
        await self.hours.settle()
        return consumer

    async def depth(self):
        return await self.queues.depth("q", now=self.hours.now())

    def told(self, event):
        return [note for note in self.notes if note.event is event]


@pytest.fixture
async def scene():
    scene = Scene()
    yield scene
    for task in scene.tasks:
        task.cancel()
    await asyncio.gather(*scene.tasks, return_exceptions=True)


async def test_what_is_done_is_acknowledged(scene):
    await scene.send("a", "b", "c")
    await scene.opened()
    assert scene.seen == [("a", 1), ("b", 1), ("c", 1)]
    counters = await scene.queues.counters("q")
    assert (counters[QueueCounter.ACKNOWLEDGED], (await scene.depth()).leased) == (3, 0)
    assert [note.id for note in scene.told(DeliveryEvent.DONE)] == ["a", "b", "c"]


async def test_what_comes_later_wakes_a_consumer_that_rests(scene):
    await scene.opened()
    await scene.send("late")
    await scene.hours.settle()  # no time passes
    assert scene.seen == [("late", 1)]


async def test_a_delayed_message_is_begun_when_it_is_due(scene):
    await scene.send("later", delay_seconds=600)
    await scene.opened()
    await scene.hours.go(599)
    assert scene.seen == []
    await scene.hours.go(1)
    assert scene.seen == [("later", 1)]


async def test_not_more_than_its_concurrency_at_once_and_not_more_leased_than_agreed(scene):
    ids = [f"m{n}" for n in range(20)]
    scene.gate(*ids)
    await scene.send(*ids)
    await scene.opened(replace(POLICY, max_batch_size=4, concurrency=3))
    assert len(scene.seen) == 3
    assert (await scene.depth()).leased == 3 + 4 - 1


async def test_long_work_is_not_leased_ahead(scene):
    scene.gate("a")
    await scene.send("a", "b")
    await scene.opened()
    depth = await scene.depth()
    assert (depth.leased, depth.waiting) == (1, 1)


async def test_many_are_acknowledged_at_once(scene):
    calls = []
    acknowledge = scene.queues.acknowledge

    async def counted(leased, *, now):
        calls.append(len(leased))
        await asyncio.sleep(0)
        await acknowledge(leased, now=now)

    scene.queues.acknowledge = counted
    await scene.send(*[f"m{n}" for n in range(100)])
    await scene.opened(replace(POLICY, max_batch_size=50, concurrency=10))
    await scene.hours.settle()
    assert sum(calls) == 100
    assert max(calls) >= 10


async def test_an_incomplete_batch_is_waited_for_and_then_begun(scene):
    policy = replace(POLICY, max_batch_size=3, max_batch_timeout_seconds=30)
    await scene.send("a", "b")
    await scene.opened(policy)
    await scene.hours.go(29)
    assert scene.seen == []
    await scene.hours.go(1)
    assert [one for one, _ in scene.seen] == ["a", "b"]
    await scene.send("c")
    await scene.hours.go(10)
    await scene.send("d", "e")  # now it is whole
    await scene.hours.settle()
    assert [one for one, _ in scene.seen] == ["a", "b", "c", "d", "e"]


async def test_leases_are_extended_while_a_handler_works(scene):
    scene.gate("long")
    await scene.send("long")
    await scene.opened()
    await scene.hours.go(20 * POLICY.lease_seconds)
    assert await scene.queues.lease("q", limit=1, seconds=9, now=scene.hours.now(), worker="other") == []
    scene.gates["long"].set()
    await scene.hours.settle()
    assert scene.seen == [("long", 1)]
    assert (await scene.queues.counters("q"))[QueueCounter.ACKNOWLEDGED] == 1


async def test_a_lost_lease_stops_the_handler(scene):
    scene.gate("a")
    await scene.send("a")
    await scene.opened()
    # As if this process had been asleep: the lease ran out and another consumer has the message.
    scene.hours.advance(POLICY.lease_seconds + 1)
    (other,) = await scene.queues.lease("q", limit=1, seconds=900, now=scene.hours.now(), worker="other")
    await scene.hours.go(1)
    assert scene.cancelled == ["a"]
    assert [note.id for note in scene.told(DeliveryEvent.LOST)] == ["a"]
    await scene.queues.acknowledge([other], now=scene.hours.now())
    assert (other.deliveries, scene.seen) == (2, [("a", 1)])


async def test_work_that_ends_after_its_lease_was_lost_changes_nothing(scene):
    scene.gate("a")
    await scene.send("a")
    await scene.opened()
    scene.hours.advance(POLICY.lease_seconds + 1)
    (other,) = await scene.queues.lease("q", limit=1, seconds=900, now=scene.hours.now())
    scene.gates["a"].set()
    await scene.hours.settle()
    assert [note.id for note in scene.told(DeliveryEvent.LOST)] == ["a"]
    await scene.queues.extend([other], seconds=9, now=scene.hours.now())  # still theirs


@pytest.mark.parametrize(
    ("error", "error_class"),
    [
        (Reject("no such format", code="unsupported_format"), "unsupported_format"),
        (Missing("no manuscript"), "missing"),
        (Misconfigured("no API key"), "misconfigured"),
    ],
)
async def test_a_permanent_error_makes_a_dead_letter_at_once_with_its_class(scene, error, error_class):
    scene.errors["a"] = error
    await scene.send("a", "b")
    await scene.opened()
    (letter,) = await scene.queues.list_dead_letters("q", limit=9)
    assert (letter.id, letter.error_class, letter.reason, letter.deliveries) == (
        "a",
        error_class,
        str(error),
        1,
    )
    assert scene.seen == [("a", 1), ("b", 1)]
    (note,) = scene.told(DeliveryEvent.DEAD_LETTERED)
    assert (note.queue, note.id, note.delivery, note.worker, note.error_class) == (
        "q",
        "a",
        1,
        "w",
        error_class,
    )


@pytest.mark.parametrize("error", [Retry("rate limit"), ValueError("a surprise")])
async def test_a_passing_error_is_tried_again_after_exactly_1_5_and_15_minutes_then_dead(scene, error):
    scene.errors["a"] = error
    await scene.send("a")
    await scene.opened()
    for wait, deliveries in ((60, 2), (300, 3), (900, 4)):
        await scene.hours.go(wait - 1)
        assert len(scene.seen) == deliveries - 1
        await scene.hours.go(1)
        assert scene.seen[-1] == ("a", deliveries)
    (letter,) = await scene.queues.list_dead_letters("q", limit=9)
    assert [trial.ending for trial in letter.history] == ["released"] * 3 + ["buried"]
    assert all(str(error) in trial.error and trial.worker == "w" for trial in letter.history)
    assert len(scene.told(DeliveryEvent.RETRIED)) == 3


async def test_an_error_that_asks_for_a_longer_delay_gets_it(scene):
    scene.errors["a"] = Retry("come back later", delay_seconds=3600)
    await scene.send("a")
    await scene.opened()
    await scene.hours.go(3599)
    assert len(scene.seen) == 1
    await scene.hours.go(1)
    assert len(scene.seen) == 2


async def test_our_own_database_being_away_costs_no_delivery(scene):
    scene.errors["a"] = Unavailable("the ledger restarts")
    await scene.send("a")
    await scene.opened()
    await scene.hours.go(60 * 60)
    del scene.errors["a"]
    await scene.hours.go(60)
    assert {deliveries for _, deliveries in scene.seen} == {1}
    assert (await scene.queues.counters("q"))[QueueCounter.ACKNOWLEDGED] == 1


class Order(Struct, forbid_unknown_fields=True):
    schema_version: int
    book: str


@pytest.mark.parametrize(
    ("body", "error_class"),
    [
        (b"not json", "not_json"),
        (b"", "not_json"),
        (b"\xff\xfe", "not_json"),
        (b'{"deep": ' + b"[" * 100_000, "not_json"),
        (b"[]", "bad_message"),
        (b'{"schema_version": 1, "book": 7}', "bad_message"),
        (b'{"schema_version": 1, "book": "b", "price": 3}', "bad_message"),
        (b'{"schema_version": 2, "book": "b"}', "wrong_schema_version"),
        (b'{"book": "b"}', "wrong_schema_version"),
        (b'{"schema_version": "1", "book": "b"}', "bad_message"),
        (b'{"schema_version": 1, "book": "' + b"x" * 1000 + b'"}', "message_too_large"),
    ],
)
async def test_poison_is_dead_at_once_with_the_reason_and_the_consumer_continues(scene, body, error_class):
    await scene.send("poison", body=body)
    await scene.send("good", body=b'{"schema_version": 1, "book": "b"}')
    await scene.opened(
        decode=json_decoder(Order, schema_version=1, max_bytes=200_000 if b"[[" in body else 500)
    )
    (letter,) = await scene.queues.list_dead_letters("q", limit=9)
    assert (letter.error_class, letter.deliveries, letter.body) == (error_class, 1, body)
    assert scene.seen == [("good", 1)]


async def test_a_decoder_that_breaks_makes_a_dead_letter_too(scene):
    await scene.send("a")
    await scene.opened(decode=lambda _: 1 / 0)
    assert await scene.queues.count_dead_letters("q") == {"bad_message": 1}


async def test_the_largest_message_is_read(scene):
    body = json.dumps({"book": "x" * (MAX_MESSAGE_BYTES - 13)}).encode()
    assert len(body) <= MAX_MESSAGE_BYTES
    assert json_decoder(dict)(body)["book"]


async def test_a_message_that_kills_its_consumers_is_dead_before_it_is_handed_out_again(scene):
    await scene.send("deadly")
    for delivery in range(1, 5):  # the first and three retries: each takes its consumer down
        (leased,) = await scene.queues.lease("q", limit=1, seconds=30, now=scene.hours.now(), worker="victim")
        assert leased.deliveries == delivery
        scene.hours.advance(31)
    await scene.opened()
    assert scene.seen == []
    (letter,) = await scene.queues.list_dead_letters("q", limit=9)
    assert letter.error_class == "too_many_deliveries"
    assert "4 times" in letter.reason
    assert [trial.ending for trial in letter.history] == ["expired"] * 4 + ["buried"]


async def test_a_message_that_outlived_its_consumer_is_worked_on_while_its_count_allows(scene):
    await scene.send("a")
    for _ in range(3):
        await scene.queues.lease("q", limit=1, seconds=30, now=scene.hours.now())
        scene.hours.advance(31)
    await scene.opened()
    assert scene.seen == [("a", 4)]


async def test_stopping_finishes_what_runs_and_releases_the_rest_uncounted(scene):
    scene.gate("a")
    await scene.send("a", "b", "c")
    consumer = scene.consumer(replace(POLICY, max_batch_size=3))
    running = scene.begin(consumer, grace_seconds=100)
    await scene.hours.settle()
    consumer.stop()
    await scene.hours.go(50)
    assert not running.done()
    scene.gates["a"].set()
    await scene.hours.settle()
    assert running.done()
    depth = await scene.depth()
    assert (depth.waiting, depth.leased) == (2, 0)
    assert [one.deliveries for one in await scene.queues.peek("q", limit=9, now=scene.hours.now())] == [0, 0]
    assert (await scene.queues.counters("q"))[QueueCounter.ACKNOWLEDGED] == 1


async def test_what_does_not_end_within_the_grace_is_released_uncounted(scene):
    scene.gate("a")
    await scene.send("a")
    consumer = scene.consumer()
    running = scene.begin(consumer, grace_seconds=100)
    await scene.hours.settle()
    consumer.stop()
    await scene.hours.go(100)  # longer than a lease: it is kept
    await scene.hours.settle()
    assert running.done()
    assert scene.cancelled == ["a"]
    (one,) = await scene.queues.peek("q", limit=9, now=scene.hours.now())
    assert (one.deliveries, one.leased_to) == (0, None)
    assert [note.id for note in scene.told(DeliveryEvent.RELEASED)] == ["a"]


async def test_a_handler_that_will_not_let_go_does_not_hold_up_the_stop(scene):
    release = asyncio.Event()

    async def stubborn(_content, _leased):
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    await scene.send("a")
    consumer = scene.consumer(handler=stubborn)
    running = scene.begin(consumer, grace_seconds=1)
    await scene.hours.settle()
    consumer.stop()
    await scene.hours.go(1 + CANCEL_SECONDS)
    release.set()  # or the very last wait for it would take real seconds
    await scene.hours.settle()
    assert running.done()


async def test_an_outage_of_the_backend_is_waited_for_and_reported_once(scene):
    scene.queues.away = True
    await scene.opened()
    await scene.hours.go(120)
    assert scene.troubles == ["the queues are away"]
    scene.queues.away = False
    await scene.send("a")
    await scene.hours.go(6)
    assert scene.seen == [("a", 1)]
    assert scene.troubles == ["the queues are away", None]


async def test_what_was_done_while_the_backend_was_away_is_acknowledged_when_it_is_back(scene):
    scene.gate("a")
    await scene.send("a")
    await scene.opened()
    scene.queues.away = True
    scene.gates["a"].set()
    await scene.hours.go(15)
    scene.queues.away = False
    await scene.hours.go(6)
    assert scene.seen == [("a", 1)]
    assert (await scene.queues.counters("q"))[QueueCounter.ACKNOWLEDGED] == 1


async def test_stopping_while_the_backend_is_away_ends_within_the_grace(scene):
    await scene.send("a")
    consumer = scene.consumer()
    scene.gate("a")
    running = scene.begin(consumer, grace_seconds=10)
    await scene.hours.settle()
    scene.queues.away = True
    scene.gates["a"].set()
    consumer.stop()
    await scene.hours.go(11)
    assert running.done()
    running.result()


async def test_until_empty_ends_when_nothing_is_left_not_even_delayed(scene):
    await scene.send("a")
    await scene.send("b", delay_seconds=100)
    running = scene.begin(scene.consumer(), until_empty=True)
    await scene.hours.go(99)
    assert not running.done()
    await scene.hours.go(1)
    assert running.done()
    assert [one for one, _ in scene.seen] == ["a", "b"]


async def test_until_empty_ends_as_soon_as_its_own_work_is_stored(scene):
    scene.gate("a")
    await scene.send("a")
    running = scene.begin(scene.consumer(replace(POLICY, concurrency=2)), until_empty=True)
    await scene.hours.go(1)
    assert not running.done()
    scene.gates["a"].set()
    await scene.hours.settle()  # no time passes, though its lease would have lasted
    assert running.done()


async def test_until_empty_waits_for_what_others_have(scene):
    await scene.send("theirs")
    await scene.queues.lease("q", limit=1, seconds=20, now=scene.hours.now())
    running = scene.begin(scene.consumer(), until_empty=True)
    await scene.hours.go(19)
    assert not running.done()
    await scene.hours.go(1)
    assert running.done()
    assert scene.seen == [("theirs", 2)]


class Held:
    """Calls of one method of the queues wait here, before anything happens or before the answer."""

    def __init__(self, scene, name, *, after=False):
        self.let_go = asyncio.Event()
        self.calls = 0
        self.ended = 0
        act = getattr(scene.queues, name)

        async def held(*values, **options):
            self.calls += 1
            try:
                answer = await act(*values, **options) if after else None
                await self.let_go.wait()
                return answer if after else await act(*values, **options)
            finally:
                self.ended += 1

        setattr(scene.queues, name, held)


async def test_what_was_leased_is_begun_before_anything_else_is_asked(scene):
    await scene.send("later", delay_seconds=10)
    await scene.opened(replace(POLICY, concurrency=2))
    await scene.hours.go(9.9)
    held = Held(scene, "next_due")
    await scene.hours.go(0.1)
    assert held.calls == 1
    assert scene.seen == [("later", 1)]


async def test_more_is_leased_while_what_ended_is_stored(scene):
    held = Held(scene, "acknowledge")
    scene.gate("b")
    await scene.send("a", "b", "c")
    await scene.opened()
    assert held.calls == 1
    assert scene.seen == [("a", 1), ("b", 1)]
    held.let_go.set()
    scene.gates["b"].set()
    await scene.hours.settle()
    assert [note.id for note in scene.told(DeliveryEvent.DONE)] == ["a", "b", "c"]


async def test_what_cannot_be_stored_is_not_piled_up(scene):
    async def refuses(_leased, *, now):
        raise Unavailable("the disk is full")

    scene.queues.acknowledge = refuses
    await scene.send(*[f"m{n}" for n in range(50)])
    await scene.opened(replace(POLICY, max_batch_size=4, concurrency=3))
    await scene.hours.go(60)
    most = 3 + 4 - 1
    assert most <= (await scene.depth()).leased <= 2 * most


async def test_what_could_not_be_stored_while_more_was_leased_is_stored_later(scene):
    acknowledge, answers = scene.queues.acknowledge, [Unavailable("away"), None]

    async def hesitates(leased, *, now):
        if answer := answers.pop(0) if answers else None:
            raise answer
        await acknowledge(leased, now=now)

    scene.queues.acknowledge = hesitates
    await scene.send("a", "b")
    await scene.opened()
    await scene.hours.go(1)
    assert scene.seen == [("a", 1), ("b", 1)]
    assert (await scene.queues.counters("q"))[QueueCounter.ACKNOWLEDGED] == 2
    assert scene.troubles == ["away", None]


@pytest.mark.parametrize("broken", ["acknowledge", "lease"])
async def test_a_mistake_is_not_hidden_by_a_backend_that_is_away(scene, broken):
    scene.gate("a")
    await scene.send("a")
    running = scene.begin(scene.consumer(replace(POLICY, concurrency=2)))
    await scene.hours.settle()

    async def mistaken(*_, **__):
        raise Bug("a mistake of ours")

    scene.queues.away = True
    setattr(scene.queues, broken, mistaken)
    await scene.hours.go(3)  # the net: it looks again, at the latest then
    scene.gates["a"].set()
    await scene.hours.go(3)
    with pytest.raises(Bug):
        await running


async def test_a_consumer_cancelled_while_it_stores_and_leases_leaves_neither(scene):
    storing = Held(scene, "acknowledge")
    await scene.send("a")
    running = scene.begin(scene.consumer(replace(POLICY, concurrency=2)))
    scene.gate("a")
    await scene.hours.settle()
    leasing = Held(scene, "lease", after=True)
    await scene.send("b")
    scene.gates["a"].set()
    await scene.hours.settle()
    assert (storing.calls, leasing.calls) == (1, 1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert (storing.ended, leasing.ended) == (1, 1)


async def test_an_outage_shorter_than_what_is_left_of_a_lease_costs_no_lease(scene):
    scene.gate("a")
    await scene.send("a")
    await scene.opened(replace(POLICY, lease_seconds=3))
    await scene.hours.go(1.1)  # extended a moment ago, until 4
    scene.queues.away = True
    await scene.hours.go(2.1)
    scene.queues.away = False
    await scene.hours.go(10)
    assert (scene.cancelled, scene.told(DeliveryEvent.LOST)) == ([], [])


async def test_what_could_not_be_kept_while_the_backend_was_away_is_not_begun(scene):
    scene.gate("a")
    await scene.send("a", "b")
    await scene.opened(replace(POLICY, max_batch_size=2))
    scene.queues.away = True
    await scene.hours.go(POLICY.lease_seconds)
    scene.gates["a"].set()
    await scene.hours.settle()
    assert scene.seen == [("a", 1)]
    assert [note.id for note in scene.told(DeliveryEvent.LOST)] == ["b"]
    scene.queues.away = False
    await scene.hours.go(6)
    assert scene.seen == [("a", 1), ("b", 2)]


async def test_an_end_that_was_stored_but_not_answered_is_no_lost_lease(scene):
    acknowledge = scene.queues.acknowledge
    calls = []

    async def answer_is_lost(leased, *, now):
        calls.append(now)
        await acknowledge(leased, now=now)
        if len(calls) == 1:
            raise Unavailable("cut off")

    scene.queues.acknowledge = answer_is_lost
    await scene.send("a")
    await scene.opened()
    await scene.hours.go(1)
    assert len(calls) == 2
    assert [note.event for note in scene.notes] == [DeliveryEvent.RECEIVED, DeliveryEvent.UNCONFIRMED]
    assert (await scene.queues.counters("q"))[QueueCounter.ACKNOWLEDGED] == 1


async def test_a_cancelled_consumer_leaves_nothing_running(scene):
    scene.gate("a", "b")
    await scene.send("a", "b")
    running = scene.begin(scene.consumer())
    await scene.hours.settle()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert scene.cancelled == ["a"]
    assert scene.seen == [("a", 1)]  # the end of one must not begin the next


async def test_urgent_messages_are_begun_first(scene):
    await scene.send("normal")
    await scene.queues.send("q", [Message(id="now", body=b"{}", priority=URGENT)], now=scene.hours.now())
    await scene.opened()
    assert [one for one, _ in scene.seen] == ["now", "normal"]


async def test_a_log_event_has_all_its_fields(scene):
    await scene.send("a")
    scene.hours.advance(7)
    await scene.opened()
    (note,) = scene.told(DeliveryEvent.RECEIVED)
    assert (note.queue, note.id, note.delivery, note.worker, note.seconds) == ("q", "a", 1, "w", 7)


async def test_a_stage_of_a_batch_is_done_once_whatever_the_message_is_called(scene):
    done = []

    async def work(content, _leased):
        done.append(content["batch"])

    handler = once(work, lambda content: (content["batch"], "ocr"), StageMarks(MemoryBlobs()))
    await scene.send("one", "two", body=b'{"batch": "../b"}')
    await scene.send("other", body=b'{"batch": "c"}')
    await scene.opened(handler=handler)
    assert done == ["../b", "c"]
    assert (await scene.queues.counters("q"))[QueueCounter.ACKNOWLEDGED] == 3


async def test_a_stage_that_failed_is_not_marked():
    marks = StageMarks(MemoryBlobs())

    async def fails(_content, _leased):
        raise Retry("not now")

    with pytest.raises(Retry):
        await once(fails, lambda _: ("b", "ocr"), marks)({}, None)
    assert not await marks.is_done("b", "ocr")
    await marks.mark("b", "ocr")
    await marks.mark("b", "ocr")
    assert await marks.is_done("b", "ocr")
    assert stage_message_id("b", "ocr") == stage_message_id("b", "ocr") != stage_message_id("b", "llm")


def test_the_known_queues_are_as_their_systems_configure_them():
    rows = {
        name: (one.max_batch_size, one.max_batch_timeout_seconds, one.max_retries, one.dead_letter)
        for name, one in KNOWN_QUEUES.items()
    }
    assert rows["arke-preprocess-jobs"] == (1, 0, 3, "preprocess-dlq")
    assert rows["arke-batch-jobs"] == (10, 30, 3, "arke-batch-jobs-dlq")
    assert rows["manuscript-analysis-queue"] == (1, 60, 3, "manuscript-analysis-dlq")
    assert rows["asset-generation-queue"] == (1, 60, 2, "asset-generation-dlq")
    assert KNOWN_QUEUES["manuscript-analysis-queue"].delays_seconds == (60, 300, 900)


def test_backoff_doubles_with_jitter_up_to_its_cap():
    policy = QueuePolicy(name="q", first_delay_seconds=2, longest_delay_seconds=10)
    assert [policy.redelivery.delay_seconds(n, 0.0) for n in range(1, 6)] == [1, 2, 4, 5, 5]
    assert [policy.redelivery.delay_seconds(n, 0.999999) for n in range(1, 4)] == pytest.approx(
        [2, 4, 8], rel=1e-4
    )
    assert policy.redelivery.delay_seconds(10_000, 0.0) == 5


def test_the_last_exact_delay_stays():
    assert [POLICY.redelivery.delay_seconds(n, 0.3) for n in range(1, 6)] == [60, 300, 900, 900, 900]


def test_a_queue_without_settings_has_a_plain_policy_and_a_former_name_that_of_its_heir():
    assert policy_for("new").dead_letter == "new-dlq"
    assert policy_for("preprocess").dead_letter == "preprocess-dlq"
