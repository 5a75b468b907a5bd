"""A worker on a queue: leases tasks, runs them in a pool of worker processes, and reports each.

Promises: a task's result is stored before its report is sent, and its message is acknowledged after that; a
worker that is killed in between loses its lease, and another one runs the task. A task that was recalled, or
whose start is too late, is not started. A message whose workers die each time ends as a failed attempt. Must
not know: the ledger, and how worker processes are started.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from msgspec import Struct, structs

from quire.blobs.port import Blobs
from quire.compute import failures
from quire.compute.failures import AttemptFailure
from quire.compute.queue import envelopes
from quire.compute.queue.envelopes import ALL_BATCHES, Task, TaskEnvelope
from quire.compute.queue.sender import MessageSender, Sleep, wait_unless_ended
from quire.compute.reports import build_report
from quire.consumers.consumer import GRACE_SECONDS, Consumer, Trouble
from quire.consumers.deliveries import DeliveryLogEntry
from quire.model.clock import Clock
from quire.model.errors import Misconfigured, Missing, Reject, Retry, Unavailable
from quire.model.ids import Ids
from quire.model.queues import QueuePolicy
from quire.model.signal import Signal
from quire.model.work import Compute, Report, StepCall
from quire.queues.port import LeasedMessage, Message, QueueStore

_log = logging.getLogger("quire.worker")
MAX_RECALLS = 1000
# Each worker process has short tasks of about this length leased ahead, but at most this many.
AHEAD_SECONDS = 0.25
MAX_AHEAD = 64
PAUSE_SECONDS = 1.0
END_SECONDS = 5.0
# The worker itself ends tasks that were delivered too often: the consumer must not dead-letter them.
_UNLIMITED = 1_000_000


class QueueWorkerOptions(Struct, frozen=True, kw_only=True):
    """`policy` is the policy of the task queue; its concurrency is the number of worker processes."""

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
        options: QueueWorkerOptions,
        clock: Clock,
        ids: Ids,
        signal: Signal,
        pool_signal: Signal,
        sleep: Sleep,
        log: Callable[[DeliveryLogEntry], None] | None = None,
        trouble: Trouble = lambda _: None,
        notice: Callable[[str], None] = lambda _: None,
        knows: Callable[[StepCall], bool] = lambda _: True,
    ) -> None:
        """`signal` is the worker's own; the pool sets `pool_signal` when it has reports. Tasks of steps that
        this machine does not know are left to other workers; `notice` is told once of each step.
        """
        self._queues = queues
        self._blobs = blobs
        self._pool = pool
        self._options = options
        self._clock = clock
        self._pool_signal = pool_signal
        self._sleep = sleep
        self._notice = notice
        self._knows = knows
        self._unknown_steps: set[tuple[str, int]] = set()
        self._sender = MessageSender(queues, clock, sleep)
        self._numbers = count(1)
        self._running: dict[int, tuple[TaskEnvelope, asyncio.Future[Report | None]]] = {}
        self._recalls: dict[tuple[str, int], int] = {}
        self._seen_proofs: set[str] = set()  # objects by which senders prove that we share their store
        self._store_error: Misconfigured | None = None
        self._end = asyncio.Event()
        self._task_seconds: float | None = None  # a moving average
        self._consumer = Consumer(
            queues,
            structs.replace(options.policy, max_retries=_UNLIMITED),
            self._handle,
            decode=envelopes.read_envelope,
            clock=clock,
            ids=ids,
            signal=signal,
            worker=options.name,
            log=log,
            trouble=trouble,
            at_once=self._at_once,
        )

    def stop(self) -> None:
        """Lease nothing more; `run` returns when running tasks have ended or their grace is over."""
        self._consumer.stop()

    async def run(self, *, grace_seconds: float = GRACE_SECONDS, until_empty: bool = False) -> None:
        """Until `stop`, or until nothing is left. Raises Misconfigured when worker processes cannot be
        started, or do not see the store of the process that sends the tasks.
        """
        consuming = asyncio.create_task(
            self._consumer.run(grace_seconds=grace_seconds, until_empty=until_empty)
        )
        watching = asyncio.create_task(self._watch_recalls())
        beside = [asyncio.create_task(self._pass_reports()), watching]
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
            await self._sender.close()
        if self._store_error is not None:
            raise self._store_error

    async def _handle(self, envelope: TaskEnvelope, leased: LeasedMessage) -> None:
        if self._is_recalled(envelope):
            return
        await self._check_store(envelope)
        task = await self._load_task(envelope)
        self._check_step(task.call)
        report = await self._make_report(envelope, task, leased)
        if report is None:
            return  # recalled
        body = await self._pack_report(envelope, task, report)
        queue = envelopes.reports_queue(self._options.policy.name, envelope.sender)
        # Under the task's own id: when two workers ran it, the second report changes nothing.
        await self._sender.send(queue, Message(id=leased.id, body=body))

    def _check_step(self, call: StepCall) -> None:
        """Released as if it had never been delivered: the task waits for a worker that has the step."""
        if self._knows(call):
            return
        text = (
            f"there is no step {call.step} version {call.version} here; add its pipeline to the setting "
            "`pipelines`. Its tasks are left to other workers"
        )
        if (call.step, call.version) not in self._unknown_steps:
            self._unknown_steps.add((call.step, call.version))
            self._notice(text)
        raise Unavailable(text, code="unknown_step")

    async def _make_report(self, envelope: TaskEnvelope, task: Task, leased: LeasedMessage) -> Report | None:
        now = self._clock.now()
        if leased.deliveries > self._options.policy.max_deliveries:
            return self._report_failure(task, failures.of_deliveries(task.call, leased.deliveries - 1))
        if now > envelope.start_by:
            return self._report_failure(task, failures.of_late_start(self._options.policy.name))
        return await self._run(envelope, task)

    async def _run(self, envelope: TaskEnvelope, task: Task) -> Report | None:
        """The pool gets a number of its own in place of the batch's: so one task can be revoked without the
        others, and tasks of several senders do not mix.
        """
        number = next(self._numbers)
        done: asyncio.Future[Report | None] = asyncio.get_running_loop().create_future()
        self._running[number] = (envelope, done)
        try:
            await self._pool.submit(task.call, [structs.replace(task.order, batch_no=number)])
            report = await done
        except asyncio.CancelledError:  # the lease is lost, or we stop
            self._pool.revoke(number)
            raise
        finally:
            del self._running[number]
        if report is None:
            self._pool.revoke(number)
            return None
        worker = f"{self._options.name}-{report.worker.rpartition('-')[2]}"
        return structs.replace(report, batch_no=task.order.batch_no, worker=worker)

    def _at_once(self) -> int:
        """One for each process; more when tasks are so short that the queue is the slower part."""
        each = AHEAD_SECONDS / max(self._task_seconds, 1e-6) if self._task_seconds is not None else 1
        return self._options.policy.concurrency * max(1, min(MAX_AHEAD, int(each)))

    def _record_pace(self, seconds: float) -> None:
        known = self._task_seconds
        self._task_seconds = seconds if known is None else known + 0.3 * (seconds - known)

    def _report_failure(self, task: Task, failure: AttemptFailure) -> Report:
        return build_report(task.order, self._clock.now(), 0.0, self._options.name, failure)

    async def _pack_report(self, envelope: TaskEnvelope, task: Task, report: Report) -> bytes:
        """A large report is stored as a blob; while the store is away, the worker keeps the lease."""
        while True:
            try:
                return await envelopes.pack_report(envelope.sender, report, self._blobs)
            except Reject as error:
                failed = self._report_failure(task, failures.of_bad_result(error, task.call))
                spent = {name: getattr(report, name) for name in ("started_at", "seconds", "cost")}
                report = structs.replace(failed, **spent)
            except Retry:
                await self._sleep(PAUSE_SECONDS)

    async def _load_task(self, envelope: TaskEnvelope) -> Task:
        try:
            return await envelopes.load_task(envelope, self._blobs)
        except Retry as error:
            raise _away(error) from error

    async def _check_store(self, envelope: TaskEnvelope) -> None:
        """Otherwise an empty folder of the same name would fail every file as missing."""
        if envelope.proof in self._seen_proofs:
            return
        try:
            await self._blobs.head(envelope.proof)
        except Missing as error:
            self._store_error = Misconfigured(
                "tasks come from a process whose blob store this worker does not see; give both the same "
                "store (s3.bucket, s3.prefix, s3.endpoint), or a home folder on a file system that both share"
            )
            self._consumer.stop()
            # Released as if it had never been delivered: other workers may see the store.
            raise Unavailable(str(self._store_error)) from error
        except Retry as error:
            raise _away(error) from error
        self._seen_proofs.add(envelope.proof)

    def _is_recalled(self, envelope: TaskEnvelope) -> bool:
        return any(
            envelope.serial <= self._recalls.get((envelope.sender, number), -1)
            for number in (envelope.batch_no, ALL_BATCHES)
        )

    async def _pass_reports(self) -> None:
        """Passes the pool's reports to the tasks that wait for them. Raises the error of a broken pool."""
        while True:
            for report in self._pool.take_reports():
                self._record_pace(report.seconds)
                _, done = self._running.get(report.batch_no, (None, None))
                if done is not None and not done.done():
                    done.set_result(report)
            await self._pool_signal.wait(None)

    async def _watch_recalls(self) -> None:
        """Recalls are read by every worker and leased by none: they stay delayed until they are outdated."""
        while not self._end.is_set():
            with suppress(Retry):
                await self._read_recalls()
            for envelope, done in list(self._running.values()):
                if self._is_recalled(envelope) and not done.done():
                    done.set_result(None)
            await wait_unless_ended(self._sleep(self._options.look_seconds), self._end)

    async def _read_recalls(self) -> None:
        queue = envelopes.recalls_queue(self._options.policy.name)
        recalls: dict[tuple[str, int], int] = {}
        for waiting in await self._queues.peek(queue, limit=MAX_RECALLS, now=self._clock.now()):
            try:
                recall = envelopes.read_recall(waiting.body)
            except Reject as error:
                _log.warning("recall_refused id=%s: %s", waiting.id, error)
                continue
            place = (recall.sender, recall.batch_no)
            recalls[place] = max(recalls.get(place, 0), recall.serial)
        self._recalls = recalls


def _away(error: Retry) -> Unavailable:
    """The store is away, for every task alike: the delivery does not count."""
    return Unavailable(str(error), code=error.code)
