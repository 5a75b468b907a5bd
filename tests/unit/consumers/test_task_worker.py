"""A worker on a queue, with queues in memory and a pool that does as it is told."""

import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest

from quire.blobs import content
from quire.compute.queue import envelopes
from quire.compute.queue.envelopes import ALL_BATCHES, Task, TaskEnvelope, derive_ledger_id
from quire.consumers.task_worker import QueueWorker, QueueWorkerOptions
from quire.model.errors import Misconfigured, Unavailable
from quire.model.queues import QueuePolicy
from quire.model.work import Order, Outcome, StepCall, StepResult
from quire.queues.port import MAX_MESSAGE_BYTES, Message
from quire.system import LoopSignal, SystemClock, SystemIds
from quire.testing.factories import file, report
from quire.testing.memory_blobs import MemoryBlobs
from quire.testing.memory_queues import MemoryQueues

SENDER = f"{derive_ledger_id(b'secret', 'ledger')}-{1:026d}"
REPORTS = envelopes.reports_queue("t", SENDER)
CALL = StepCall(step="noop", version=1)
CLOCK = SystemClock()
PATIENCE_SECONDS = 30


class Pool:
    """Keeps what it is handed until the test says what becomes of it."""

    def __init__(self, signal):
        self.given = asyncio.Queue()
        self.revoked = []
        self.trouble = None
        self._signal = signal
        self._reports = []

    async def submit(self, _call, orders):
        for order in orders:
            self.given.put_nowait(order)

    def take_reports(self):
        if self.trouble is not None:
            raise self.trouble
        taken, self._reports = self._reports, []
        return taken

    def revoke(self, batch_no):
        self.revoked.append(batch_no)

    def end(self, order, **changes):
        done = report(order.task_no, order.attempt, batch_no=order.batch_no, **changes)
        self._reports.append(done)
        self._signal.set()

    def fail(self, error):
        self.trouble = error
        self._signal.set()


class Bench:
    def __init__(self):
        self.queues, self.blobs = MemoryQueues(), MemoryBlobs()
        self.pool = self.worker = self.running = None
        self.proof = ""

    @asynccontextmanager
    async def opened(self, **policy):
        signal = LoopSignal()
        self.pool = Pool(signal)
        known = {"name": "t", "max_batch_size": 1, "max_retries": 2, "lease_seconds": 30.0, "concurrency": 2}
        self.worker = QueueWorker(
            self.queues,
            self.blobs,
            self.pool,
            options=QueueWorkerOptions(policy=QueuePolicy(**(known | policy)), name="far", look_seconds=0.01),
            clock=CLOCK,
            ids=SystemIds(),
            signal=LoopSignal(),
            pool_signal=signal,
            sleep=asyncio.sleep,
        )
        self.running = asyncio.create_task(self.worker.run(grace_seconds=0))
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                yield self.worker
        finally:
            self.worker.stop()
            await asyncio.wait([self.running])

    async def send(self, task_no, *, serial=1, start_in=60.0, batch_no=7, blobs=None):
        proof = (await content.put_bytes(blobs or self.blobs, b"proof")).key
        envelope = TaskEnvelope(
            schema_version=1,
            sender=SENDER,
            batch_no=batch_no,
            serial=serial,
            start_by=CLOCK.now() + start_in,
            proof=proof,
        )
        task = Task(CALL, Order(batch_no, task_no, 3, file("a")))
        body = await envelopes.pack_task(envelope, task, self.blobs)
        await self.queues.send("t", [Message(id=f"m{task_no}", body=body)], now=CLOCK.now())

    async def taken(self):
        return await self.pool.given.get()

    async def take_reports(self, count=1):
        """The next so many, as they come."""
        found = []
        while len(found) < count:
            for one in await self.queues.lease(REPORTS, limit=9, seconds=60, now=CLOCK.now()):
                told = envelopes.read_report(one.body, REPORTS)
                found.append(await envelopes.load_report(told, self.blobs))
            await self.queues.wait([REPORTS], seconds=0.05)
        return found

    async def until(self, condition):
        while not await condition():
            await asyncio.sleep(0)

    async def settled(self):
        """Nothing of the tasks is left."""

        async def empty():
            depth = await self.queues.depth("t", now=CLOCK.now())
            return depth.waiting + depth.leased == 0

        await self.until(empty)


@pytest.fixture
async def bench():
    return Bench()


async def test_a_report_names_the_attempt_and_is_sent_before_the_task_is_gone(bench):
    async with bench.opened():
        await bench.send(5)
        order = await bench.taken()
        bench.pool.end(order, result=StepResult(facts={"pages": 2}))
        (told,) = await bench.take_reports()
        assert (told.batch_no, told.task_no, told.attempt) == (7, 5, 3)
        assert told.result == StepResult(facts={"pages": 2})
        await bench.settled()


async def test_a_task_is_kept_while_its_report_cannot_be_sent(bench):
    sent, refusals = bench.queues.send, []

    async def send(queue, messages, **more):
        if queue == REPORTS and len(refusals) < 2:
            assert (await bench.queues.depth("t", now=CLOCK.now())).leased == 1
            refusals.append(queue)
            raise Unavailable("away")
        return await sent(queue, messages, **more)

    bench.queues.send = send
    async with bench.opened():
        await bench.send(5)
        bench.pool.end(await bench.taken())
        assert len(await bench.take_reports()) == 1
        await bench.settled()
    assert len(refusals) == 2


async def test_what_waited_too_long_is_reported_and_not_begun(bench):
    async with bench.opened():
        await bench.send(5, start_in=-1.0)
        (told,) = await bench.take_reports()
        assert (told.outcome, told.error_class) == (Outcome.INTERRUPTED, "late_start")
        assert bench.pool.given.empty()


async def test_a_message_whose_workers_died_each_time_is_a_failed_attempt(bench):
    await bench.send(5)
    for _ in range(3):  # a first delivery and two retries, whose leases are over at once
        await bench.queues.lease("t", limit=1, seconds=0, now=CLOCK.now())
    async with bench.opened():
        (told,) = await bench.take_reports()
        assert (told.outcome, told.error_class) == (Outcome.CRASHED, "too_many_deliveries")
        assert "3 times" in told.error
        assert bench.pool.given.empty()
        await bench.settled()


async def test_what_cannot_be_read_is_a_dead_letter_with_the_reason(bench):
    bad = [Message(id="a", body=b"nonsense"), Message(id="b", body=b'{"schema_version": 9}')]
    await bench.queues.send("t", bad, now=CLOCK.now())
    async with bench.opened():
        await bench.settled()
    assert await bench.queues.count_dead_letters("t") == {"not_json": 1, "wrong_schema_version": 1}


@pytest.mark.parametrize("batch_no", [7, ALL_BATCHES])
async def test_a_recall_ends_what_runs_and_what_waits_and_nothing_later(bench, batch_no):
    async with bench.opened(concurrency=1):
        await bench.send(5, serial=1)
        await bench.send(6, serial=2)
        await bench.send(7, serial=3)
        await bench.send(8, serial=1, batch_no=9)
        running = await bench.taken()
        recall = Message(id="r", body=envelopes.pack_recall(SENDER, batch_no, 2))
        await bench.queues.send("t-recalls", [recall], now=CLOCK.now(), delay_seconds=60)
        later = await bench.taken()
        assert bench.pool.revoked == [running.batch_no]
        assert later.task_no == 7
        bench.pool.end(later)
        if batch_no == 7:
            other = await bench.taken()
            assert other.task_no == 8
            bench.pool.end(other)
        await bench.settled()
    assert {one.task_no for one in await bench.take_reports(1 + (batch_no == 7))} == {7, 8} - (
        set() if batch_no == 7 else {8}
    )


async def test_a_task_whose_lease_is_lost_is_ended(bench):
    async with bench.opened(lease_seconds=0.1):
        await bench.send(5)
        order = await bench.taken()
        # Somebody else has it by now, as far as the queue knows.
        bench.queues.extend = _lost(bench.queues.extend)
        await bench.until(_true(lambda: bench.pool.revoked))
        assert bench.pool.revoked[0] == order.batch_no


def _lost(_extend):
    from quire.model.errors import Lost

    async def extend(leased, **_more):
        raise Lost("gone", ids=tuple(one.id for one in leased))

    return extend


def _true(condition):
    async def asked():
        await asyncio.sleep(0)
        return condition()

    return asked


async def test_stopping_releases_what_runs_uncounted(bench):
    async with bench.opened():
        await bench.send(5)
        order = await bench.taken()
        bench.worker.stop()
        await asyncio.wait([bench.running])
        assert bench.pool.revoked == [order.batch_no]
    (again,) = await bench.queues.lease("t", limit=1, seconds=1, now=CLOCK.now())
    assert again.deliveries == 1


async def test_a_worker_that_does_not_see_the_store_ends_and_fails_nothing(bench):
    async with bench.opened():
        await bench.send(5, blobs=MemoryBlobs())
        await asyncio.wait([bench.running])
        with pytest.raises(Misconfigured, match=r"does not see.*s3\.bucket"):
            bench.running.result()
    now = CLOCK.now() + 3600  # it is given back with a delay
    (again,) = await bench.queues.lease("t", limit=1, seconds=1, now=now)
    assert again.deliveries == 1


async def test_a_pool_that_breaks_ends_the_worker(bench):
    async with bench.opened():
        bench.pool.fail(Misconfigured("no processes"))
        await asyncio.wait([bench.running])
        with pytest.raises(Misconfigured, match="no processes"):
            bench.running.result()


async def test_a_report_that_is_far_too_large_becomes_a_failure_that_says_so(bench, monkeypatch):
    monkeypatch.setattr(envelopes, "MAX_STORED_BYTES", MAX_MESSAGE_BYTES)
    async with bench.opened():
        await bench.send(5)
        bench.pool.end(await bench.taken(), result=StepResult(facts={"text": "x" * MAX_MESSAGE_BYTES}))
        (told,) = await bench.take_reports()
        assert (told.outcome, told.error_class) == (Outcome.REJECTED, "bad_result")
        assert "let the step write a file instead" in told.error


async def test_short_tasks_are_taken_ahead_and_long_ones_are_not(bench):
    async with bench.opened(concurrency=1) as worker:
        assert worker._at_once() == 1
        worker._record_pace(0.001)
        assert worker._at_once() == 64
        for _ in range(30):
            worker._record_pace(2.0)
        assert worker._at_once() == 1


def test_an_envelope_holds_no_bytes():
    assert "bytes" not in {str(one.type) for one in msgspec.structs.fields(TaskEnvelope)}
