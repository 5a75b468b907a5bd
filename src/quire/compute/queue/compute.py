"""Queue compute: orders wait in a queue for workers that see neither the ledger nor this process.

Promises: the number of orders in the queue is bounded; each order becomes one message, named after its
attempt; the first report of a waiting attempt counts and every other changes nothing. An order that no worker
starts in time, or reports, is interrupted. Time in the queue is not run time: the worker enforces the time
limit of the step. Must not know: the ledger, and how workers work.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Protocol

from msgspec import Struct

from quire.blobs import content
from quire.blobs.port import Blobs
from quire.compute import failures
from quire.compute.failures import AttemptFailure
from quire.compute.queue import envelopes
from quire.compute.queue.envelopes import ALL_BATCHES, SCHEMA_VERSION, Task, TaskEnvelope
from quire.compute.queue.sender import MessageSender, Sleep, wait_unless_ended
from quire.compute.queue.withdrawal import withdraw_messages
from quire.compute.reports import build_report
from quire.model.clock import Clock
from quire.model.errors import Lost, QuireError, Reject, Retry
from quire.model.signal import Signal
from quire.model.work import AttemptKey, Order, Report, StepCall
from quire.queues.port import DeadLetterFilter, Message, QueueStore

_log = logging.getLogger("quire.compute")
REPORTS_AT_ONCE = 200
LEASE_SECONDS = 60.0
WAIT_SECONDS = 2.0
PAUSE_SECONDS = 1.0
END_SECONDS = 5.0
FIRST_CLEANUP_SECONDS = 5.0  # by then a predecessor that died is known to be dead
CLEANUP_SECONDS = 60.0
DEAD_SECONDS = 10.0
PEEK_LIMIT = 1000
SERIAL_BITS = 20  # orders that may be sent in a millisecond
# While this compute stops, so many messages of other senders are leased for a moment, for each of its own.
MAX_HELD = 20


class QueueMembers(Protocol):
    """The member processes of one ledger, and how to settle reports for those that are gone."""

    async def member_names(self) -> Collection[str]:
        """The names of all living members. Raises Retry."""
        ...

    async def settle_report(self, report: Report) -> None:
        """Settle a report to a member that is gone; too late, or twice, is no error. Raises Retry."""
        ...


class QueueComputeOptions(Struct, frozen=True, kw_only=True):
    """`wait_seconds` is how long an order may wait for its start; after that and its timeout, its worker has
    `slack_seconds` to store the result and report.
    """

    queue: str = "quire-tasks"
    max_out: int = 1000
    wait_seconds: float = 3600.0
    slack_seconds: float = 120.0
    look_seconds: float = 2.0


class QueuedOrder(Struct, frozen=True):
    """An order whose message is in the queue or with a worker."""

    call: StepCall
    order: Order
    serial: int
    at: float
    over_at: float  # by the monotonic clock


class QueueCompute:
    def __init__(
        self,
        queues: QueueStore,
        blobs: Blobs,
        *,
        sender: str,
        options: QueueComputeOptions,
        clock: Clock,
        signal: Signal,
        sleep: Sleep,
        members: QueueMembers | None = None,
    ) -> None:
        """`sender` is the id of the ledger, a dash, and the unique name of this process."""
        self._queues = queues
        self._blobs = blobs
        self._name = sender
        self._options = options
        self._clock = clock
        self._signal = signal
        self._sleep = sleep
        self._members = members
        self._reports_queue = envelopes.reports_queue(options.queue, sender)
        self._sender = MessageSender(queues, clock, sleep)
        self._out: dict[AttemptKey, QueuedOrder] = {}
        self._reports: list[Report] = []
        # Above all numbers of an earlier compute of this process.
        self._serial = int(clock.now() * 1000) << SERIAL_BITS
        self._proof = ""
        self._background_tasks: set[asyncio.Task[None]] = set()
        self._loops: list[asyncio.Task[None]] = []
        self._received = asyncio.Event()
        self._end = asyncio.Event()
        self._cleanup_at = 0.0
        self._dead_at = 0.0
        self._stopping = False
        self._stopped = False

    def start(self) -> None:
        """Begin to receive reports and to check the waiting orders."""
        self._cleanup_at = self._clock.monotonic() + FIRST_CLEANUP_SECONDS
        self._loops = [asyncio.create_task(self._repeat(work)) for work in (self._receive, self._check)]

    def capacity(self, compute: str = "", call: StepCall | None = None) -> int:  # noqa: ARG002 of one name
        # Small top-ups would cost a transaction each: wait until a good part can be filled.
        free = self._options.max_out - len(self._out)
        return free if free * 3 >= self._options.max_out and not self._stopping else 0

    async def submit(self, call: StepCall, orders: list[Order]) -> None:
        now, moment = self._clock.now(), self._clock.monotonic()
        beside = self._options.wait_seconds + self._options.slack_seconds
        sent = []
        for order in orders:
            self._serial += 1
            over_at = moment + beside + call.longest_seconds(order.file.size)
            sent.append(QueuedOrder(call, order, self._serial, now, over_at))
        self._out.update((one.order.attempt_key, one) for one in sent)
        self._background(self._send(sent))

    def take_reports(self) -> list[Report]:
        taken, self._reports = self._reports, []
        return taken

    def revoke(self, batch_no: int) -> None:
        self._reports = [report for report in self._reports if report.batch_no != batch_no]
        gone = [self._out.pop(name) for name in [name for name in self._out if name[0] == batch_no]]
        if gone:
            self._recall(batch_no, gone)
        self._signal.set()  # other batches may be submitted now

    async def stop(self, grace_seconds: float) -> list[Order]:
        """Withdraw orders that no worker has taken; recall those that outlast the grace."""
        if self._stopped:
            return []
        self._stopping = True
        until = self._clock.monotonic() + grace_seconds
        await self._finish_background(max(1.0, grace_seconds))
        unstarted: list[Order] = []
        with suppress(QuireError):  # then those orders end as interrupted below
            unstarted = await self._withdraw()
        while self._out and (left := until - self._clock.monotonic()) > 0:
            self._received.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._received.wait()
        if rest := list(self._out.values()):
            self._recall(ALL_BATCHES, rest)
            for sent in rest:
                self._fail(sent, failures.of_interruption())
            await self._finish_background(1.0)
        self._stopped = True
        self._end.set()
        if self._loops:
            await asyncio.wait(self._loops, timeout=END_SECONDS)
        for task in (*self._loops, *self._background_tasks):
            task.cancel()
        await self._sender.close()
        return unstarted

    async def _send(self, sent: Sequence[QueuedOrder]) -> None:
        """Send orders as messages. One that cannot be sent becomes a failure report."""
        try:
            await self._store_proof()
        except Exception as error:  # noqa: BLE001 - any error of a store becomes the reports
            for one in sent:
                self._fail(one, failures.of_store(error, one.call))
            return
        messages = []
        for one in sent:
            if self._out.get(one.order.attempt_key) is not one:
                continue  # revoked meanwhile
            try:
                body = await envelopes.pack_task(self._envelope(one), Task(one.call, one.order), self._blobs)
            except Exception as error:  # noqa: BLE001 - see above
                self._fail(one, failures.of_store(error, one.call))
                continue
            message = Message(id=self._message_id(one), body=body)
            messages.append((one, self._sender.send(self._options.queue, message)))
        for one, sending in messages:
            try:
                await sending
            except Exception as error:  # noqa: BLE001 - see above
                self._fail(one, failures.of_error(error, one.call))

    def _envelope(self, sent: QueuedOrder) -> TaskEnvelope:
        return TaskEnvelope(
            schema_version=SCHEMA_VERSION,
            sender=self._name,
            batch_no=sent.order.batch_no,
            serial=sent.serial,
            start_by=sent.at + self._options.wait_seconds,
            proof=self._proof,
        )

    def _message_id(self, sent: QueuedOrder) -> str:
        """The name of the sender, the serial number and the attempt: sending the message again changes
        nothing.
        """
        return "-".join(map(str, (self._name, sent.serial, *sent.order.attempt_key)))

    async def _store_proof(self) -> None:
        """Store a blob by which workers recognise this store: an empty folder of the same name has none."""
        if not self._proof:
            ledger_id = self._name.partition("-")[0]
            self._proof = (
                await content.put_bytes(self._blobs, f"queue compute of {ledger_id}\n".encode())
            ).key

    async def receive_reports(self) -> None:
        """Take all reports that have arrived. Raises Retry."""
        while await self._drain(self._reports_queue, self._accept) == REPORTS_AT_ONCE:
            pass

    async def _drain(self, queue: str, accept: Callable[[Report], Awaitable[None]]) -> int:
        """Pass the messages of a queue of reports on; how many there were."""
        now = self._clock.now()
        leased = await self._queues.lease(
            queue, limit=REPORTS_AT_ONCE, seconds=LEASE_SECONDS, now=now, worker=self._name
        )
        done = []
        for one in leased:
            try:
                envelope = envelopes.read_report(one.body, queue)
                await accept(await envelopes.load_report(envelope, self._blobs))
            except Reject as error:
                _log.warning("report_refused queue=%s id=%s: %s", queue, one.id, error)
                with suppress(Lost):
                    now = self._clock.now()
                    await self._queues.dead_letter(one, now=now, reason=str(error), error_class=error.code)
            else:
                done.append(one)
        if done:
            with suppress(Lost):
                await self._queues.acknowledge(done, now=self._clock.now())
        return len(leased)

    async def _accept(self, report: Report) -> None:
        """Keep the first report of a waiting attempt; a second, or one of a revoked order, is ignored."""
        if self._out.pop(report.attempt_key, None) is not None:
            self._reports.append(report)
            self._received.set()
            self._signal.set()

    async def check_orders(self) -> None:
        """Fail overdue orders, remove expired recalls, clean up after dead members. Raises Retry."""
        now = self._clock.monotonic()
        for sent in [sent for sent in self._out.values() if now > sent.over_at]:
            self._fail(sent, failures.of_no_report(self._options.queue))
        if self._out and now >= self._dead_at:
            self._dead_at = now + DEAD_SECONDS
            await self._check_dead_letters()
        recalls = envelopes.recalls_queue(self._options.queue)
        # They are sent with a delay: once one is due, no order that it recalls can be started any more.
        past = await self._queues.lease(
            recalls, limit=REPORTS_AT_ONCE, seconds=LEASE_SECONDS, now=self._clock.now(), worker=self._name
        )
        if past:
            with suppress(Lost):
                await self._queues.acknowledge(past, now=self._clock.now())
        if self._members is not None and now >= self._cleanup_at:
            self._cleanup_at = now + CLEANUP_SECONDS
            await self.clean_up(self._members)

    async def _check_dead_letters(self) -> None:
        """Fail orders that a worker could not read, as of another version, and those of which the message or
        the report was damaged, before their time is over.
        """
        ids = {self._message_id(sent): sent for sent in self._out.values()}
        for queue in (self._options.queue, self._reports_queue):
            for one in await self._queues.list_dead_letters(
                queue, chosen=DeadLetterFilter(ids=list(ids)), limit=len(ids)
            ):
                self._fail(ids[one.id], failures.of_dead_letter(one.error_class, one.reason))

    async def clean_up(self, members: QueueMembers) -> None:
        """Clean up after members that are gone: settle their reports, recall their tasks. Raises Retry."""
        ledger_id, _, own = self._name.partition("-")
        ours = f"{ledger_id}-"
        alive = {
            own,
            *await members.member_names(),
        }  # this process is, even when it counted as dead for a moment
        reports = envelopes.reports_queue(self._options.queue, ours)
        for queue in await self._queues.names():
            if queue.startswith(reports) and queue.removeprefix(reports) not in alive:
                while await self._drain(queue, members.settle_report) == REPORTS_AT_ONCE:
                    pass
        gone: dict[str, TaskEnvelope] = {}  # the last envelope of each sender
        now = self._clock.now()
        for waiting in await self._queues.peek(self._options.queue, limit=PEEK_LIMIT, now=now):
            with suppress(Reject):  # the worker that takes it makes it a dead letter
                found = envelopes.read_envelope(waiting.body)
                is_gone = found.sender.startswith(ours) and found.sender.removeprefix(ours) not in alive
                if is_gone and (found.sender not in gone or found.serial > gone[found.sender].serial):
                    gone[found.sender] = found
        for last in gone.values():
            self._background(
                self._send_recall(
                    last.sender, ALL_BATCHES, last.serial, seconds=max(1.0, last.start_by - now)
                )
            )

    async def _withdraw(self) -> list[Order]:
        """Withdraw the orders that no worker has started."""
        ids = {self._message_id(sent): sent for sent in self._out.values()}
        found = await withdraw_messages(
            self._queues,
            self._options.queue,
            set(ids),
            max_others=MAX_HELD * self._options.max_out,
            clock=self._clock,
        )
        unstarted = []
        for one in found:
            if one.deliveries > 1:  # a worker had started it, and died
                self._fail(ids[one.id], failures.of_interruption())
            elif self._out.pop(ids[one.id].order.attempt_key, None) is not None:
                unstarted.append(ids[one.id].order)
        return unstarted

    def _recall(self, batch_no: int, gone: Sequence[QueuedOrder]) -> None:
        seconds = max(sent.over_at for sent in gone) - self._clock.monotonic()
        self._background(self._send_recall(self._name, batch_no, self._serial, seconds=max(1.0, seconds)))

    async def _send_recall(self, sender: str, batch_no: int, serial: int, *, seconds: float) -> None:
        """Every worker of the queue reads the recall there until it is due."""
        recall = Message(
            id=f"{sender}-{serial}-{batch_no}", body=envelopes.pack_recall(sender, batch_no, serial)
        )
        try:
            queue = envelopes.recalls_queue(self._options.queue)
            await self._sender.send(queue, recall, delay_seconds=seconds)
        except QuireError as error:  # the orders run in vain, and their reports change nothing
            _log.warning("recall_refused id=%s: %s", recall.id, error)

    def _fail(self, sent: QueuedOrder, failure: AttemptFailure) -> None:
        if self._out.pop(sent.order.attempt_key, None) is not None:
            self._reports.append(build_report(sent.order, sent.at, 0.0, "queue", failure))
            self._signal.set()

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background_tasks.add(task)
        task.add_done_callback(self._background_tasks.discard)

    async def _finish_background(self, seconds: float) -> None:
        if self._background_tasks:
            await asyncio.wait(set(self._background_tasks), timeout=seconds)

    async def _receive(self) -> None:
        await self.receive_reports()
        await wait_unless_ended(self._queues.wait([self._reports_queue], seconds=WAIT_SECONDS), self._end)

    async def _check(self) -> None:
        await self.check_orders()
        await wait_unless_ended(self._sleep(self._options.look_seconds), self._end)

    async def _repeat(self, work: Callable[[], Awaitable[None]]) -> None:
        while not self._end.is_set():
            try:
                await work()
                continue
            except Retry:  # the queues or the store are unavailable: try again next time
                pass
            except Exception:  # noqa: BLE001 - the only receiver: any error is logged, then it goes on
                _log.exception("queue_compute_failed")
            await wait_unless_ended(self._sleep(PAUSE_SECONDS), self._end)
