"""Queue compute with queues in memory and a clock that is told the time."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from quire.compute.queue import envelopes
from quire.compute.queue.compute import QueueCompute, QueueComputeOptions
from quire.compute.queue.envelopes import ALL_BATCHES, derive_ledger_id
from quire.model.errors import Unavailable
from quire.model.work import Order, Outcome, StepCall
from quire.queues.port import DAMAGED, Message
from quire.system import LoopSignal
from quire.testing.factories import file, report
from quire.testing.memory_blobs import MemoryBlobs
from quire.testing.memory_queues import MemoryQueues
from quire.testing.time import FakeClock

LEDGER_ID = derive_ledger_id(b"secret", "ledger")
CALL = StepCall(step="noop", version=1, timeout_seconds=60.0)
OPTIONS = QueueComputeOptions(queue="t", max_out=9, wait_seconds=100.0, slack_seconds=10.0)


def sender(number):
    return f"{LEDGER_ID}-{number:026d}"


def order(task_no, batch_no=1):
    return Order(batch_no, task_no, 1, file("a"))


async def never(_seconds):
    await asyncio.Event().wait()


class Members:
    def __init__(self, *present):
        self.settled = []
        self._present = present

    async def member_names(self):
        return self._present

    async def settle_report(self, report):
        self.settled.append(report)


class Bench:
    def __init__(self):
        self.queues, self.blobs, self.clock = MemoryQueues(), MemoryBlobs(), FakeClock()

    @asynccontextmanager
    async def opened(self, number=1, members=None, sleep=never):
        compute = QueueCompute(
            self.queues,
            self.blobs,
            sender=sender(number),
            options=OPTIONS,
            clock=self.clock,
            signal=LoopSignal(),
            sleep=sleep,
            members=members,
        )
        try:
            yield compute
        finally:
            await compute.stop(0)

    async def handed(self, compute, *orders):
        await compute.submit(CALL, list(orders))
        await compute._finish_background(1)

    async def leased(self, limit=99):
        now = self.clock.now()
        return await self.queues.lease("t", limit=limit, seconds=30, now=now)

    async def told(self, report, number=1, message_id="r"):
        body = await envelopes.pack_report(sender(number), report, self.blobs)
        queue = envelopes.reports_queue("t", sender(number))
        await self.queues.send(queue, [Message(id=message_id, body=body)], now=self.clock.now())

    async def recalls(self):
        found = await self.queues.peek("t-recalls", limit=99, now=self.clock.now())
        recalls = [envelopes.read_recall(one.body) for one in found]
        return {(one.sender, one.batch_no): one.serial for one in recalls}


@pytest.fixture
def bench():
    return Bench()


async def test_an_order_is_one_message_that_names_its_attempt_and_its_latest_start(bench):
    async with bench.opened() as compute:
        await bench.handed(compute, order(5), order(6))
        first, second = await bench.leased()
        assert first.id.startswith(sender(1))
        assert first.id.endswith("-1-5-1")
        envelope = envelopes.read_envelope(first.body)
        assert envelope.start_by == bench.clock.now() + 100
        assert envelope.task.order == order(5)
        assert envelopes.read_envelope(second.body).serial == envelope.serial + 1
        assert await bench.blobs.head(envelope.proof)


async def test_the_first_report_of_an_attempt_counts_and_no_other(bench):
    async with bench.opened() as compute:
        await bench.handed(compute, order(5))
        await bench.told(report(5), message_id="a")
        await bench.told(report(5, outcome=Outcome.CRASHED), message_id="b")
        await bench.told(report(5, attempt=2), message_id="c")
        await bench.told(report(9), message_id="d")
        await compute.receive_reports()
        assert compute.take_reports() == [report(5)]
        depth = await bench.queues.depth(envelopes.reports_queue("t", sender(1)), now=bench.clock.now())
        assert (depth.waiting, depth.leased, depth.dead) == (0, 0, 0)


async def test_a_report_that_is_none_is_a_dead_letter(bench):
    async with bench.opened() as compute:
        queue = envelopes.reports_queue("t", sender(1))
        foreign = await envelopes.pack_report(sender(2), report(), bench.blobs)
        bad = [Message(id="a", body=b"{}"), Message(id="b", body=foreign)]
        await bench.queues.send(queue, bad, now=bench.clock.now())
        await compute.receive_reports()
        assert await bench.queues.count_dead_letters(queue) == {"wrong_schema_version": 1, "bad_message": 1}


async def test_what_a_worker_could_not_read_is_told_soon(bench):
    async with bench.opened() as compute:
        await bench.handed(compute, order(5), order(6))
        (first,) = await bench.leased(1)
        now = bench.clock.now()
        await bench.queues.dead_letter(first, now=now, reason="version 2", error_class="wrong_schema_version")
        await compute.check_orders()
        (told,) = compute.take_reports()
        assert (told.task_no, told.outcome) == (5, Outcome.ERRED)
        assert (told.error_class, "version 2" in told.error) == ("wrong_schema_version", True)


def spoil(queues, queue):
    """A bit of every waiting message changes."""
    for entry in queues._find_queue(queue).messages.values():
        body = bytearray(entry.message.body)
        body[-1] ^= 1
        entry.message = Message(id=entry.message.id, body=bytes(body))


async def test_a_task_whose_message_was_damaged_is_interrupted_to_be_sent_anew(bench):
    async with bench.opened() as compute:
        await bench.handed(compute, order(5))
        spoil(bench.queues, "t")
        assert await bench.leased(9) == []
        await compute.check_orders()
        (told,) = compute.take_reports()
        assert (told.task_no, told.outcome, told.error_class) == (5, Outcome.INTERRUPTED, DAMAGED)


async def test_a_task_whose_report_was_damaged_is_interrupted_at_once(bench):
    async with bench.opened() as compute:
        await bench.handed(compute, order(5))
        (leased,) = await bench.leased(9)
        await bench.told(report(5), message_id=leased.id)
        spoil(bench.queues, envelopes.reports_queue("t", sender(1)))
        await compute.receive_reports()
        assert compute.take_reports() == []
        await compute.check_orders()
        (told,) = compute.take_reports()
        assert (told.task_no, told.outcome, told.error_class) == (5, Outcome.INTERRUPTED, DAMAGED)


async def test_what_nobody_reports_is_interrupted_after_wait_timeout_and_slack(bench):
    async with bench.opened() as compute:
        await bench.handed(compute, order(5))
        bench.clock.advance(169)
        await compute.check_orders()
        assert compute.take_reports() == []
        bench.clock.advance(2)
        await compute.check_orders()
        (given_up,) = compute.take_reports()
        assert (given_up.outcome, given_up.error_class) == (Outcome.INTERRUPTED, "no_report")
        await bench.told(report(5))
        await compute.receive_reports()
        assert compute.take_reports() == []


async def test_a_revoked_batch_is_recalled_until_nothing_of_it_can_begin(bench):
    async with bench.opened() as compute:
        await bench.handed(compute, order(5), order(6, batch_no=2))
        serial = compute._serial
        compute.revoke(1)
        await compute._finish_background(1)
        assert await bench.recalls() == {(sender(1), 1): serial}
        await bench.told(report(5))
        await compute.receive_reports()
        assert compute.take_reports() == []
        bench.clock.advance(171)
        await compute.check_orders()
        assert await bench.recalls() == {}


async def test_the_house_is_recalled_when_it_stops_and_something_runs_on(bench):
    async with bench.opened() as compute:
        await bench.handed(compute, order(5), order(6))
        await bench.leased(1)
        assert await compute.stop(0) == [order(6)]
        assert [(one.task_no, one.outcome) for one in compute.take_reports()] == [(5, Outcome.INTERRUPTED)]
        assert [name for name, _ in await bench.recalls()] == [sender(1)]


async def test_messages_of_other_houses_are_given_back_untouched(bench):
    async with bench.opened(1) as one, bench.opened(2) as other:
        await bench.handed(other, order(1))
        await bench.handed(one, order(2))
        assert await one.stop(0) == [order(2)]
        (left,) = await bench.leased()
        assert (left.deliveries, left.id[: len(sender(2))]) == (1, sender(2))


async def test_one_that_somebody_had_begun_with_is_interrupted_and_not_given_back(bench):
    async with bench.opened() as compute:
        await bench.handed(compute, order(5))
        await bench.leased()
        bench.clock.advance(31)  # whoever had it is dead
        assert await compute.stop(0) == []
        assert [one.outcome for one in compute.take_reports()] == [Outcome.INTERRUPTED]


async def test_what_a_house_that_is_gone_was_told_is_settled_by_another(bench):
    members = Members(sender(3).partition("-")[2])  # we were taken for dead ourselves
    await bench.told(report(6), number=1)
    await bench.told(report(7), number=2)
    await bench.told(report(8), number=3)
    async with bench.opened(members=members) as compute:
        bench.clock.advance(10)
        await compute.clean_up(members)
        await compute.clean_up(members)
    assert members.settled == [report(7)]


async def test_the_tasks_of_a_house_that_is_gone_are_recalled(bench):
    dead = QueueCompute(
        bench.queues,
        bench.blobs,
        sender=sender(2),
        options=OPTIONS,
        clock=bench.clock,
        signal=LoopSignal(),
        sleep=never,
    )
    await bench.handed(dead, order(1), order(2))
    members = Members()
    async with bench.opened(members=members) as compute:
        await bench.handed(compute, order(3))
        await compute.clean_up(members)
        await compute._finish_background(1)
        assert await bench.recalls() == {(sender(2), ALL_BATCHES): dead._serial}


async def test_queues_that_are_away_are_waited_for(bench):
    tries = []
    answered = bench.queues.send

    async def send(*arguments, **more):
        tries.append(len(tries))
        if len(tries) < 3:
            raise Unavailable("away")
        return await answered(*arguments, **more)

    bench.queues.send = send
    paused = []

    async def sleep(seconds):
        paused.append(seconds)

    async with bench.opened(sleep=sleep) as compute:
        await bench.handed(compute, order(5))
        assert len(await bench.leased()) == 1
    assert paused[:2] == [0.1, 0.2]


async def test_many_orders_are_sent_together_and_no_more_than_there_is_room_for(bench):
    calls = []
    answered = bench.queues.send

    async def send(queue, messages, **more):
        calls.append(len(messages))
        return await answered(queue, messages, **more)

    bench.queues.send = send
    async with bench.opened() as compute:
        assert compute.capacity() == 9
        await bench.handed(compute, *(order(number) for number in range(7)))
        assert calls == [7]
        assert compute.capacity() == 0, "small top-ups cost as much as large ones"
        compute.revoke(1)
        assert compute.capacity() == 9
