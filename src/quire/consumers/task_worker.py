"""A worker on a queue: leases tasks, has them done by a pool of worker processes, and reports each.

Promises: a task's result is stored before its report is sent, and its message is acknowledged after that; who
is killed in between loses its lease, and somebody else does the task. What was recalled, or is past its time,
is not begun. A message whose workers die each time ends as a failed attempt. Must not know: the ledger, and
how worker processes are started.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from msgspec import Struct, structs

from quire.blobs.port import Blobs
from quire.compute import failures
from quire.compute.failures import Failure
from quire.compute.pool.worker import report_of
from quire.compute.queue import envelopes
from quire.compute.queue.envelopes import WHOLE_HOUSE, Envelope, Task
from quire.compute.queue.sender import Posting, Sleep, unless_ended
from quire.consumers.consumer import GRACE_SECONDS, Consumer, Trouble
from quire.consumers.deliveries import Note
from quire.model.clock import Clock
from quire.model.errors import Misconfigured, Missing, Reject, Retry, Unavailable
from quire.model.ids import Ids
from quire.model.queues import QueuePolicy
from quire.model.signal import Signal
from quire.model.work import Compute, Report
from quire.queues.port import Leased, Message, QueueStore

_log = logging.getLogger("quire.worker")
MOST_RECALLS = 1000
# Of short tasks a worker process has about this much before it, but no more than so many.
AHEAD_SECONDS = 0.25
MOST_AHEAD = 64
PAUSE_SECONDS = 1.0
END_SECONDS = 5.0
# Messages are judged here, by how often they were delivered, and not buried by the consumer.
_FOR_EVER = 1_000_000


class Terms(Struct, frozen=True, kw_only=True):
    """`policy` is that of the queue of tasks; its concurrency is the number of worker processes."""

    policy: QueuePolicy
    name: str
    look_seconds: float = 2.0


class QueueWorker:
    def __init__(
        self,
        queues: QueueStore,
        blobs: Blobs,
        pool: Compute,
        *,
        terms: Terms,
        clock: Clock,
        ids: Ids,
        signal: Signal,
        pool_signal: Signal,
        sleep: Sleep,
        note: Callable[[Note], None] | None = None,
        trouble: Trouble = lambda _: None,
    ) -> None:
        """`signal` is the worker's own; `pool_signal` is the one that the pool sets when it has news."""
        self._queues = queues
        self._blobs = blobs
        self._pool = pool
        self._terms = terms
        self._clock = clock
        self._pool_signal = pool_signal
        self._sleep = sleep
        self._posting = Posting(queues, clock, sleep)
        self._numbers = count(1)
        self._running: dict[int, tuple[Envelope, asyncio.Future[Report | None]]] = {}
        self._recalls: dict[tuple[str, int], int] = {}
        self._seen: set[str] = set()  # proofs that lie in our store
        self._blind: Misconfigured | None = None
        self._end = asyncio.Event()
        self._task_seconds: float | None = None  # a moving average
        self._consumer = Consumer(
            queues,
            structs.replace(terms.policy, max_retries=_FOR_EVER),
            self._handle,
            decode=envelopes.read_envelope,
            clock=clock,
            ids=ids,
            signal=signal,
            worker=terms.name,
            note=note,
            trouble=trouble,
            at_once=self._at_once,
        )

    def stop(self) -> None:
        """Take nothing more; `run` returns when what is running has ended or its grace is over."""
        self._consumer.stop()

    async def run(self, *, grace_seconds: float = GRACE_SECONDS, until_empty: bool = False) -> None:
        """Until `stop`, or until nothing is left. Raises Misconfigured when worker processes cannot be
        started, or do not see the store of the house that sends the tasks.
        """
        consuming = asyncio.create_task(
            self._consumer.run(grace_seconds=grace_seconds, until_empty=until_empty)
        )
        watching = asyncio.create_task(self._watch())
        beside = [asyncio.create_task(self._pump()), watching]
        try:
            await asyncio.wait({consuming, *beside}, return_when=asyncio.FIRST_COMPLETED)
            self._consumer.stop()
            await consuming
            for task in beside:
                if task.done():
                    task.result()
        finally:
            self._end.set()
            await asyncio.wait({watching}, timeout=END_SECONDS)
            for task in (consuming, *beside):
                task.cancel()
            await asyncio.wait({consuming, *beside}, timeout=END_SECONDS)
            await self._posting.close()
        if self._blind is not None:
            raise self._blind

    async def _handle(self, envelope: Envelope, leased: Leased) -> None:
        if self._is_recalled(envelope):
            return
        await self._look_at_store(envelope)
        task = await self._fetched(envelope)
        report = await self._report(envelope, task, leased)
        if report is None:
            return  # recalled
        body = await self._packed(envelope, task, report)
        queue = envelopes.reports_queue(self._terms.policy.name, envelope.house)
        # Under the task's own name: of two who did it, the second changes nothing.
        await self._posting.send(queue, Message(id=leased.id, body=body))

    async def _report(self, envelope: Envelope, task: Task, leased: Leased) -> Report | None:
        now = self._clock.now()
        if leased.deliveries > self._terms.policy.max_deliveries:
            return self._failed(task, failures.of_deliveries(task.call, leased.deliveries - 1))
        if now > envelope.start_by:
            return self._failed(task, failures.of_late_start(self._terms.policy.name))
        return await self._run(envelope, task)

    async def _run(self, envelope: Envelope, task: Task) -> Report | None:
        """Under a number of its own in place of the batch's: so this one can be ended without the others, and
        houses do not mix.
        """
        number = next(self._numbers)
        done: asyncio.Future[Report | None] = asyncio.get_running_loop().create_future()
        self._running[number] = (envelope, done)
        try:
            await self._pool.hand(task.call, [structs.replace(task.order, batch_no=number)])
            report = await done
        except asyncio.CancelledError:  # the lease is lost, or we stop
            self._pool.revoke(number)
            raise
        finally:
            del self._running[number]
        if report is None:
            self._pool.revoke(number)
            return None
        worker = f"{self._terms.name}-{report.worker.rpartition('-')[2]}"
        return structs.replace(report, batch_no=task.order.batch_no, worker=worker)

    def _at_once(self) -> int:
        """One for each process, until it is known that they are short: then the queue is the slower part."""
        each = AHEAD_SECONDS / max(self._task_seconds, 1e-6) if self._task_seconds is not None else 1
        return self._terms.policy.concurrency * max(1, min(MOST_AHEAD, int(each)))

    def _note_pace(self, seconds: float) -> None:
        known = self._task_seconds
        self._task_seconds = seconds if known is None else known + 0.3 * (seconds - known)

    def _failed(self, task: Task, failure: Failure) -> Report:
        return report_of(task.order, self._clock.now(), 0.0, self._terms.name, failure)

    async def _packed(self, envelope: Envelope, task: Task, report: Report) -> bytes:
        """A report that is too large is stored; while the store is away the lease is kept, and it waits."""
        while True:
            try:
                return await envelopes.pack_report(envelope.house, report, self._blobs)
            except Reject as error:
                failed = self._failed(task, failures.of_unreadable(error, task.call))
                spent = {name: getattr(report, name) for name in ("started_at", "seconds", "cost")}
                report = structs.replace(failed, **spent)
            except Retry:
                await self._sleep(PAUSE_SECONDS)

    async def _fetched(self, envelope: Envelope) -> Task:
        try:
            return await envelopes.task_of(envelope, self._blobs)
        except Retry as error:
            raise _away(error) from error

    async def _look_at_store(self, envelope: Envelope) -> None:
        """Without this an empty folder of the same name would fail every file as missing."""
        if envelope.proof in self._seen:
            return
        try:
            await self._blobs.head(envelope.proof)
        except Missing as error:
            self._blind = Misconfigured(
                "tasks came from a house whose blob store this worker does not see; give both the same store "
                "(s3.bucket, s3.prefix, s3.endpoint), or a home folder on a file system that both share"
            )
            self._consumer.stop()
            # Given back as if it had never been delivered: others may see the store.
            raise Unavailable(str(self._blind)) from error
        except Retry as error:
            raise _away(error) from error
        self._seen.add(envelope.proof)

    def _is_recalled(self, envelope: Envelope) -> bool:
        return any(
            envelope.serial <= self._recalls.get((envelope.house, number), -1)
            for number in (envelope.batch_no, WHOLE_HOUSE)
        )

    async def _pump(self) -> None:
        """What the pool reports goes to whoever waits for it. Raises what has broken the pool."""
        while True:
            for report in self._pool.reports():
                self._note_pace(report.seconds)
                _, done = self._running.get(report.batch_no, (None, None))
                if done is not None and not done.done():
                    done.set_result(report)
            await self._pool_signal.wait(None)

    async def _watch(self) -> None:
        """Recalls are read by everybody and taken by nobody: they lie delayed until they mean nothing."""
        while not self._end.is_set():
            with suppress(Retry):
                await self._read_recalls()
            for envelope, done in list(self._running.values()):
                if self._is_recalled(envelope) and not done.done():
                    done.set_result(None)
            await unless_ended(self._sleep(self._terms.look_seconds), self._end)

    async def _read_recalls(self) -> None:
        queue = envelopes.recalls_queue(self._terms.policy.name)
        recalls: dict[tuple[str, int], int] = {}
        for waiting in await self._queues.peek(queue, limit=MOST_RECALLS, now=self._clock.now()):
            try:
                recall = envelopes.read_recall(waiting.body)
            except Reject as error:
                _log.warning("recall_refused id=%s: %s", waiting.id, error)
                continue
            place = (recall.house, recall.batch_no)
            recalls[place] = max(recalls.get(place, 0), recall.serial)
        self._recalls = recalls


def _away(error: Retry) -> Unavailable:
    """The store is away, for every task alike: that is no delivery, and counts for nothing."""
    return Unavailable(str(error), code=error.code)
