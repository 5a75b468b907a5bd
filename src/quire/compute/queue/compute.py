"""Queue compute: orders wait in a queue for workers that see neither the ledger nor this process.

Promises: no more than so many are out; each order becomes one message, whose name is that of its attempt;
the first report of an attempt that is out counts and every other changes nothing. What nobody begins with in
time, or nobody reports, is interrupted. Time in the queue is not run time: how long a step may run is judged
where it runs. Must not know: the ledger, and how workers work.
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
from quire.compute.failures import Failure
from quire.compute.pool.worker import report_of
from quire.compute.pool.worker_handle import Name, name_of
from quire.compute.queue import envelopes
from quire.compute.queue.envelopes import (
    SCHEMA_VERSION,
    WHOLE_HOUSE,
    Envelope,
    Task,
)
from quire.compute.queue.sender import Posting, Sleep, unless_ended
from quire.compute.queue.withdrawal import withdrawn
from quire.model.clock import Clock
from quire.model.errors import Lost, QuireError, Reject, Retry
from quire.model.signal import Signal
from quire.model.work import Order, Report, StepCall
from quire.queues.port import DeadLetterFilter, Message, QueueStore

_log = logging.getLogger("quire.compute")
REPORTS_AT_ONCE = 200
LEASE_SECONDS = 60.0
WAIT_SECONDS = 2.0
PAUSE_SECONDS = 1.0
END_SECONDS = 5.0
FIRST_TIDY_SECONDS = 5.0  # by then a predecessor that died is known to be dead
TIDY_SECONDS = 60.0
DEAD_SECONDS = 10.0
PEEKED = 1000
SERIAL_BITS = 20  # orders that may be handed out in a millisecond
# While we stop, so many messages of other houses, for each of ours, are held for a moment.
MOST_HELD = 20


class Estate(Protocol):
    """What the houses on one ledger have in common."""

    async def present(self) -> Collection[str]:
        """The names of those that are there. Raises Retry."""
        ...

    async def fold(self, report: Report) -> None:
        """Settle what was told to one that is gone; too late, or twice, is no error. Raises Retry."""
        ...


class Terms(Struct, frozen=True, kw_only=True):
    """`wait_seconds` is how long an order may wait for its start; after that and its timeout, whoever works
    on it has `slack_seconds` to store and to report.
    """

    queue: str = "quire-tasks"
    max_out: int = 1000
    wait_seconds: float = 3600.0
    slack_seconds: float = 120.0
    look_seconds: float = 2.0


class Sent(Struct, frozen=True):
    """An order that is out."""

    call: StepCall
    order: Order
    serial: int
    at: float
    over_at: float  # by the clock that only goes forward


class QueueCompute:
    def __init__(
        self,
        queues: QueueStore,
        blobs: Blobs,
        *,
        house: str,
        terms: Terms,
        clock: Clock,
        signal: Signal,
        sleep: Sleep,
        estate: Estate | None = None,
    ) -> None:
        """`house` is the name of the estate, a dash, and that of this process, which no other ever has."""
        self._queues = queues
        self._blobs = blobs
        self._house = house
        self._terms = terms
        self._clock = clock
        self._signal = signal
        self._sleep = sleep
        self._estate = estate
        self._inbox = envelopes.reports_queue(terms.queue, house)
        self._posting = Posting(queues, clock, sleep)
        self._out: dict[Name, Sent] = {}
        self._reports: list[Report] = []
        # Beyond all that an earlier one in this process has given.
        self._serial = int(clock.now() * 1000) << SERIAL_BITS
        self._proof = ""
        self._errands: set[asyncio.Task[None]] = set()
        self._loops: list[asyncio.Task[None]] = []
        self._heard = asyncio.Event()
        self._end = asyncio.Event()
        self._tidy_at = 0.0
        self._dead_at = 0.0
        self._stopping = False
        self._stopped = False

    def start(self) -> None:
        """Begin to listen for reports and to look after what is out."""
        self._tidy_at = self._clock.monotonic() + FIRST_TIDY_SECONDS
        self._loops = [asyncio.create_task(self._always(work)) for work in (self._listen, self._watch)]

    def room(self, compute: str = "") -> int:  # noqa: ARG002 the only one of its name
        # Small top-ups would cost a transaction each: wait until a good part can be filled.
        free = self._terms.max_out - len(self._out)
        return free if free * 3 >= self._terms.max_out and not self._stopping else 0

    async def hand(self, call: StepCall, orders: list[Order]) -> None:
        now, moment = self._clock.now(), self._clock.monotonic()
        over_at = moment + self._terms.wait_seconds + call.timeout_seconds + self._terms.slack_seconds
        sent = []
        for order in orders:
            self._serial += 1
            sent.append(Sent(call, order, self._serial, now, over_at))
        self._out.update((name_of(one.order), one) for one in sent)
        self._background(self._send(sent))

    def reports(self) -> list[Report]:
        taken, self._reports = self._reports, []
        return taken

    def revoke(self, batch_no: int) -> None:
        self._reports = [report for report in self._reports if report.batch_no != batch_no]
        gone = [self._out.pop(name) for name in [name for name in self._out if name[0] == batch_no]]
        if gone:
            self._recall(batch_no, gone)
        self._signal.set()  # there is room for others now

    async def stop(self, grace_seconds: float) -> list[Order]:
        """What nobody has taken is taken back; what outlasts the grace is told to stop."""
        if self._stopped:
            return []
        self._stopping = True
        until = self._clock.monotonic() + grace_seconds
        await self._finish_errands(max(1.0, grace_seconds))
        unstarted: list[Order] = []
        with suppress(QuireError):  # then it ends as interrupted below
            unstarted = await self._withdraw()
        while self._out and (left := until - self._clock.monotonic()) > 0:
            self._heard.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._heard.wait()
        if rest := list(self._out.values()):
            self._recall(WHOLE_HOUSE, rest)
            for sent in rest:
                self._fail(sent, failures.of_interruption())
            await self._finish_errands(1.0)
        self._stopped = True
        self._end.set()
        if self._loops:
            await asyncio.wait(self._loops, timeout=END_SECONDS)
        for task in (*self._loops, *self._errands):
            task.cancel()
        await self._posting.close()
        return unstarted

    async def _send(self, sent: Sequence[Sent]) -> None:
        """What cannot be told becomes its report."""
        try:
            await self._prove()
        except Exception as error:  # noqa: BLE001 - whatever a store raises becomes the reports
            for one in sent:
                self._fail(one, failures.of_store(error, one.call))
            return
        posted = []
        for one in sent:
            if self._out.get(name_of(one.order)) is not one:
                continue  # revoked meanwhile
            try:
                body = await envelopes.pack_task(self._envelope(one), Task(one.call, one.order), self._blobs)
            except Exception as error:  # noqa: BLE001 - see above
                self._fail(one, failures.of_store(error, one.call))
                continue
            message = Message(id=self._message_id(one), body=body)
            posted.append((one, self._posting.send(self._terms.queue, message)))
        for one, sending in posted:
            try:
                await sending
            except Exception as error:  # noqa: BLE001 - see above
                self._fail(one, failures.of_error(error, one.call))

    def _envelope(self, sent: Sent) -> Envelope:
        return Envelope(
            schema_version=SCHEMA_VERSION,
            house=self._house,
            batch_no=sent.order.batch_no,
            serial=sent.serial,
            start_by=sent.at + self._terms.wait_seconds,
            proof=self._proof,
        )

    def _message_id(self, sent: Sent) -> str:
        """The attempt's name, after that of the house and the number of the handing: sending it again is
        sending it once.
        """
        return "-".join(map(str, (self._house, sent.serial, *name_of(sent.order))))

    async def _prove(self) -> None:
        """A blob by which workers know that they see our store, and not an empty folder of the same name."""
        if not self._proof:
            estate = self._house.partition("-")[0]
            self._proof = (await content.put_bytes(self._blobs, f"queue compute of {estate}\n".encode())).key

    async def hear(self) -> None:
        """Take all reports that are there. Raises Retry."""
        while await self._take(self._inbox, self._note) == REPORTS_AT_ONCE:
            pass

    async def _take(self, queue: str, take: Callable[[Report], Awaitable[None]]) -> int:
        """Hand on what is in a queue of reports; how many messages there were."""
        now = self._clock.now()
        leased = await self._queues.lease(
            queue, limit=REPORTS_AT_ONCE, seconds=LEASE_SECONDS, now=now, worker=self._house
        )
        done = []
        for one in leased:
            try:
                told = envelopes.read_told(one.body, queue)
                await take(await envelopes.report_of(told, self._blobs))
            except Reject as error:
                _log.warning("report_refused queue=%s id=%s: %s", queue, one.id, error)
                with suppress(Lost):
                    now = self._clock.now()
                    await self._queues.bury(one, now=now, reason=str(error), error_class=error.code)
            else:
                done.append(one)
        if done:
            with suppress(Lost):
                await self._queues.acknowledge(done, now=self._clock.now())
        return len(leased)

    async def _note(self, report: Report) -> None:
        """The first one of an attempt that is out; a second, or one of what was revoked, changes nothing."""
        if self._out.pop((report.batch_no, report.task_no, report.attempt), None) is not None:
            self._reports.append(report)
            self._heard.set()
            self._signal.set()

    async def look(self) -> None:
        """Who has had its time; recalls that have had theirs; houses that are gone. Raises Retry."""
        now = self._clock.monotonic()
        for sent in [sent for sent in self._out.values() if now > sent.over_at]:
            self._fail(sent, failures.of_no_report(self._terms.queue))
        if self._out and now >= self._dead_at:
            self._dead_at = now + DEAD_SECONDS
            await self._find_dead()
        recalls = envelopes.recalls_queue(self._terms.queue)
        # They are sent with a delay: once one is due, nothing that it speaks of can be begun any more.
        past = await self._queues.lease(
            recalls, limit=REPORTS_AT_ONCE, seconds=LEASE_SECONDS, now=self._clock.now(), worker=self._house
        )
        if past:
            with suppress(Lost):
                await self._queues.acknowledge(past, now=self._clock.now())
        if self._estate is not None and now >= self._tidy_at:
            self._tidy_at = now + TIDY_SECONDS
            await self.tidy(self._estate)

    async def _find_dead(self) -> None:
        """What a worker could not read, as of another version, is told now and not when its time is over."""
        ids = {self._message_id(sent): sent for sent in self._out.values()}
        for one in await self._queues.dead(
            self._terms.queue, chosen=DeadLetterFilter(ids=list(ids)), limit=len(ids)
        ):
            self._fail(ids[one.id], failures.of_dead_letter(one.error_class, one.reason))

    async def tidy(self, estate: Estate) -> None:
        """What houses left that are gone: their reports are settled, their tasks recalled. Raises Retry."""
        name, _, own = self._house.partition("-")
        ours = f"{name}-"
        present = {own, *await estate.present()}  # we are, also when we were taken for dead for a moment
        reports = envelopes.reports_queue(self._terms.queue, ours)
        for queue in await self._queues.names():
            if queue.startswith(reports) and queue.removeprefix(reports) not in present:
                while await self._take(queue, estate.fold) == REPORTS_AT_ONCE:
                    pass
        gone: dict[str, Envelope] = {}  # the last one of each
        now = self._clock.now()
        for waiting in await self._queues.peek(self._terms.queue, limit=PEEKED, now=now):
            with suppress(Reject):  # whoever takes it buries it
                found = envelopes.read_envelope(waiting.body)
                foreign = found.house.startswith(ours) and found.house.removeprefix(ours) not in present
                if foreign and (found.house not in gone or found.serial > gone[found.house].serial):
                    gone[found.house] = found
        for last in gone.values():
            self._background(
                self._tell(last.house, WHOLE_HOUSE, last.serial, seconds=max(1.0, last.start_by - now))
            )

    async def _withdraw(self) -> list[Order]:
        """Of what is out, that which nobody has begun with."""
        ids = {self._message_id(sent): sent for sent in self._out.values()}
        found = await withdrawn(
            self._queues, self._terms.queue, set(ids), most=MOST_HELD * self._terms.max_out, clock=self._clock
        )
        unstarted = []
        for one in found:
            if one.deliveries > 1:  # somebody had begun with it, and died
                self._fail(ids[one.id], failures.of_interruption())
            elif self._out.pop(name_of(ids[one.id].order), None) is not None:
                unstarted.append(ids[one.id].order)
        return unstarted

    def _recall(self, batch_no: int, gone: Sequence[Sent]) -> None:
        lives = max(sent.over_at for sent in gone) - self._clock.monotonic()
        self._background(self._tell(self._house, batch_no, self._serial, seconds=max(1.0, lives)))

    async def _tell(self, house: str, batch_no: int, serial: int, *, seconds: float) -> None:
        """Everybody who works on the queue reads it there until it is due."""
        recall = Message(
            id=f"{house}-{serial}-{batch_no}", body=envelopes.pack_recall(house, batch_no, serial)
        )
        try:
            queue = envelopes.recalls_queue(self._terms.queue)
            await self._posting.send(queue, recall, delay_seconds=seconds)
        except QuireError as error:  # what runs on is work in vain, and cannot be folded
            _log.warning("recall_refused id=%s: %s", recall.id, error)

    def _fail(self, sent: Sent, failure: Failure) -> None:
        if self._out.pop(name_of(sent.order), None) is not None:
            self._reports.append(report_of(sent.order, sent.at, 0.0, "queue", failure))
            self._signal.set()

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    async def _finish_errands(self, seconds: float) -> None:
        if self._errands:
            await asyncio.wait(set(self._errands), timeout=seconds)

    async def _listen(self) -> None:
        await self.hear()
        await unless_ended(self._queues.wait([self._inbox], seconds=WAIT_SECONDS), self._end)

    async def _watch(self) -> None:
        await self.look()
        await unless_ended(self._sleep(self._terms.look_seconds), self._end)

    async def _always(self, work: Callable[[], Awaitable[None]]) -> None:
        while not self._end.is_set():
            try:
                await work()
                continue
            except Retry:  # the queues or the store are away: the next time
                pass
            except Exception:  # noqa: BLE001 - nobody else listens: whatever it is, it is told and tried again
                _log.exception("queue_compute_failed")
            await unless_ended(self._sleep(PAUSE_SECONDS), self._end)
