"""Remote compute: each order is started on a machine of its own, and its worker calls back when it is done.

Promises: the number of machines is bounded; an attempt that exceeds its time is ended; a machine that died
without a callback is noticed, and a result that it had stored is not lost. A callback settles its attempt in
the ledger, whichever process received it: this compute only learns that the order has ended. Must not know:
what a machine is (a `Launcher` does), nor the ledger and the store (`RemoteTasks` does).
"""

import asyncio
import logging
from collections.abc import Collection, Coroutine, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any, Protocol

from msgspec import Struct

from quire.compute import failures
from quire.compute.failures import AttemptFailure
from quire.compute.hosts.limits import CallCounts, RunLimits
from quire.compute.reports import build_report
from quire.model.clock import Clock
from quire.model.cost import Cost, to_micros
from quire.model.errors import Misconfigured, QuireError, Retry
from quire.model.signal import Signal
from quire.model.work import AttemptKey, Order, Outcome, Report, StepCall

_log = logging.getLogger("quire.compute")
STARTING_AT_ONCE = 50
AGAIN_SECONDS = 5.0  # before an order that could not be launched is tried again


class Launcher(Protocol):
    """Starts a machine for an order: a process, a container, a virtual machine. Handles are opaque."""

    async def launch(self, order: Order, call: StepCall, environment: Mapping[str, str]) -> str:
        """Start a machine; its handle. May be repeated: an attempt has one machine at most. Raises Retry for
        a passing fault, Misconfigured for one that a person must correct.
        """
        ...

    async def find_ended(self, handles: Collection[str]) -> dict[str, str]:
        """The machines that do not run any more, each with how it ended, in words. Raises Retry."""
        ...

    async def end(self, handle: str) -> None:
        """Stop a machine now; one that is gone is no error. Raises Retry."""
        ...

    async def list_machines(self) -> dict[str, AttemptKey]:
        """All machines of this installation with their attempts, also those that an earlier process started.
        Raises Retry.
        """
        ...

    async def close(self) -> None:
        """Close connections; machines are not touched. May be repeated."""
        ...


class RemoteTasks(Protocol):
    """What remote compute needs to know of the ledger and the store."""

    async def build_environment(
        self, call: StepCall, order: Order, limit_seconds: float = 0.0
    ) -> dict[str, str]:
        """The environment of the worker, as published; its URLs last for this time limit (0: that of the step
        itself). Raises a QuireError.
        """
        ...

    async def find_limit_seconds(self, call: StepCall, order: Order) -> float:
        """How long its machine may take; it does not say how many pages the file has. Raises a QuireError."""
        ...

    async def find_finished(self, attempts: Collection[AttemptKey]) -> set[AttemptKey]:
        """The attempts that are not running any more: settled, superseded, or of a batch that has ended."""
        ...

    async def settle_stored_result(self, order: Order) -> bool:
        """Settle a result that is in the store without a callback. False: there is none. Raises Retry."""
        ...


class RemoteComputeOptions(Struct, frozen=True, kw_only=True):
    at_once: int
    start_seconds: float = 30.0  # until a machine has started
    grace_seconds: float = 2.0  # for the callback, after the end of its machine
    look_seconds: float = 1.0
    reap_seconds: float = 60.0
    price_per_second: float = 0.0  # of a machine, in the operator's currency
    resources: Mapping[str, int] = {}  # limits that steps share, by name


class LaunchedOrder:
    """An order whose machine is being started or runs."""

    def __init__(self, call: StepCall, order: Order, clock: Clock) -> None:
        self.call = call
        self.order = order
        self.limit_seconds = call.longest_seconds(order.file.size)
        self.started_at = clock.now()
        self.began = clock.monotonic()
        self.batch_id = ""
        self.launching = False
        self.handle: str | None = None
        self.launch: asyncio.Task[None] | None = None
        self.gone_since: float | None = None


class RemoteCompute:
    def __init__(
        self,
        name: str,
        launcher: Launcher,
        tasks: RemoteTasks,
        *,
        clock: Clock,
        signal: Signal,
        options: RemoteComputeOptions,
    ) -> None:
        self._name = name
        self._launcher = launcher
        self._remote_tasks = tasks
        self._clock = clock
        self._signal = signal
        self._options = options
        self._limits = RunLimits(options.resources)
        self._orders: dict[AttemptKey, LaunchedOrder] = {}
        self._reports: list[Report] = []
        self._background_tasks: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None
        self._stopping = False

    def start(self) -> None:
        """Begin to watch the machines, also those that an earlier process left."""
        self._watching = asyncio.create_task(self._watch())

    def capacity(self, compute: str = "", call: StepCall | None = None) -> int:  # noqa: ARG002 of one name
        room = self._count_free()
        if call is None or not (call.at_once or call.resource):
            return room
        counts = CallCounts()
        for sent in self._orders.values():
            counts.add(sent.call)
        return min(room, self._limits.room(call, counts, self._clock.monotonic()))

    def _count_free(self) -> int:
        if self._stopping:
            return 0
        # An order that waits for its machine grows old: its URLs expire, and others could run it meanwhile.
        waiting = sum(sent.handle is None for sent in self._orders.values())
        return max(0, min(self._options.at_once - len(self._orders), STARTING_AT_ONCE - waiting))

    async def submit(self, call: StepCall, orders: list[Order]) -> None:
        for order in orders:
            sent = self._orders[order.attempt_key] = LaunchedOrder(call, order, self._clock)
            sent.launch = self._background(self._launch(sent))

    def take_reports(self) -> list[Report]:
        taken, self._reports = self._reports, []
        return taken

    def note_callback(self, batch_id: str, task_no: int, attempt: int) -> None:
        """A callback has settled this attempt; attempts of other computes are ignored."""
        for sent in list(self._orders.values()):
            order = sent.order
            if (sent.batch_id, order.task_no, order.attempt) == (batch_id, task_no, attempt):
                self._note_settled(sent)

    def revoke(self, batch_no: int) -> None:
        self._reports = [report for report in self._reports if report.batch_no != batch_no]
        for key in [key for key in self._orders if key[0] == batch_no]:
            self._end(self._orders.pop(key))
        self._signal.set()  # other batches may be submitted now

    async def stop(self, grace_seconds: float) -> list[Order]:
        """End all machines: nothing would receive their callbacks. Their attempts are interrupted."""
        self._stopping = True
        if self._watching is not None:
            self._watching.cancel()
        unstarted = [sent.order for sent in self._orders.values() if not sent.launching]
        for order in unstarted:
            del self._orders[order.attempt_key]
        if self._background_tasks:  # then every machine that is being started has a handle
            await asyncio.wait(self._background_tasks, timeout=max(1.0, grace_seconds))
        with suppress(QuireError):
            await self.check_orders()
        for sent in list(self._orders.values()):
            self._fail(sent, failures.of_interruption())
            self._end(sent)
        if self._background_tasks:
            await asyncio.wait(self._background_tasks, timeout=max(1.0, grace_seconds))
        for task in self._background_tasks:  # machines that they started are ended by the next process
            task.cancel()
        await self._launcher.close()
        return unstarted

    async def check_orders(self) -> None:
        """Settle orders that were called back, whose machine ended, or that exceeded their time. Raises,
        after that, the error of the launcher: while it is unavailable no machine counts as ended, but no
        batch waits longer than its tasks may take.
        """
        out = [sent for sent in self._orders.values() if sent.launching]
        handles = [sent.handle for sent in out if sent.handle is not None]
        ended: dict[str, str] = {}
        unavailable: QuireError | None = None
        try:
            ended = await self._launcher.find_ended(handles) if handles else {}
        except QuireError as error:
            unavailable = error
        # Asked after that: a callback that came before the end of its machine is in the ledger by now.
        finished = (
            await self._remote_tasks.find_finished([sent.order.attempt_key for sent in out]) if out else set()
        )
        now = self._clock.monotonic()
        for sent in out:
            if sent.order.attempt_key in finished:
                self._note_settled(sent)
                self._end(sent)
            elif sent.handle is None:
                continue
            elif sent.handle in ended:
                await self._settle_ended(sent, ended[sent.handle], now)
            elif now - sent.began > sent.limit_seconds + self._options.start_seconds:
                await self._time_out(sent)
        if unavailable is not None:
            raise unavailable

    async def end_orphans(self) -> None:
        """End machines whose attempt has ended: their process died, or they could not be ended before. One
        that cannot be ended does not keep the others running. Raises a QuireError.
        """
        machines = await self._launcher.list_machines()
        finished = await self._remote_tasks.find_finished(set(machines.values()))
        for handle, attempt in machines.items():
            if attempt in finished:
                try:
                    await self._launcher.end(handle)
                except Misconfigured as error:
                    _log.warning("machine_not_ended handle=%s: %s", handle, error)

    async def _launch(self, sent: LaunchedOrder) -> None:
        call, order = sent.call, sent.order
        try:
            sent.limit_seconds = await self._remote_tasks.find_limit_seconds(call, order)
            environment = await self._remote_tasks.build_environment(call, order, sent.limit_seconds)
            if not self._is_out(sent):
                return
            sent.batch_id, sent.launching = environment["BATCH_ID"], True
            sent.handle = await self._launcher.launch(order, call, environment)
            sent.began = self._clock.monotonic()  # the launcher may have made it wait
        except (Retry, Misconfigured) as error:
            self._fail(sent, failures.of_failed_launch(error, AGAIN_SECONDS))
        except Exception as error:  # noqa: BLE001 - any error becomes the report
            self._fail(sent, failures.of_error(error, call))
        else:
            if not self._is_out(sent):  # revoked while it was being started, or settled already
                self._end(sent)
            self._signal.set()  # the next may be submitted

    async def _settle_ended(self, sent: LaunchedOrder, ending: str, now: float) -> None:
        if sent.gone_since is None:
            sent.gone_since = now
        if now - sent.gone_since < self._options.grace_seconds:
            return
        if await self._remote_tasks.settle_stored_result(sent.order):
            self._note_settled(sent)
            return
        self._fail(sent, failures.of_silent_machine(sent.call, ending))

    async def _time_out(self, sent: LaunchedOrder) -> None:
        if await self._remote_tasks.settle_stored_result(sent.order):
            self._note_settled(sent)
        else:
            self._fail(sent, failures.of_timeout(sent.call, sent.limit_seconds))
        self._end(sent)

    def _note_settled(self, sent: LaunchedOrder) -> None:
        """The ledger has settled the attempt."""
        if self._orders.pop(sent.order.attempt_key, None) is not None:
            if sent.handle is None and sent.launch is not None:
                sent.launch.cancel()  # its answer was lost: asked again, it would start a second machine
            self._reports.append(
                Report(*sent.order.attempt_key, Outcome.DONE, sent.started_at, 0.0, self._name, known=True)
            )
            self._signal.set()

    def _fail(self, sent: LaunchedOrder, failure: AttemptFailure) -> None:
        if self._orders.pop(sent.order.attempt_key, None) is None:
            return
        seconds = self._clock.monotonic() - sent.began
        spent = Decimal(str(self._options.price_per_second)) * Decimal(seconds if sent.handle else 0)
        cost = Cost(money_micros=to_micros(spent))
        self._reports.append(build_report(sent.order, sent.started_at, seconds, self._name, failure, cost))
        self._signal.set()

    def _is_out(self, sent: LaunchedOrder) -> bool:
        return self._orders.get(sent.order.attempt_key) is sent

    def _end(self, sent: LaunchedOrder) -> None:
        if sent.handle is not None:
            self._background(self._end_machine(sent.handle))

    async def _end_machine(self, handle: str) -> None:
        with suppress(QuireError):  # `end_orphans` tries again
            await self._launcher.end(handle)

    def _background(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._background_tasks.add(task)
        task.add_done_callback(self._background_tasks.discard)
        return task

    async def _watch(self) -> None:
        orphans_at: float | None = None
        while True:
            now = self._clock.monotonic()
            if orphans_at is None or now - orphans_at >= self._options.reap_seconds:
                orphans_at = now
                await self._run_logged(self.end_orphans())
            await self._run_logged(self.check_orders())
            await asyncio.sleep(self._options.look_seconds)

    async def _run_logged(self, work: Coroutine[Any, Any, None]) -> None:
        """Each check by itself: a failed listing of machines must not prevent the other checks."""
        try:
            await work
        except Retry:  # the ledger, the store or the provider is unavailable: try again next time
            pass
        except Exception:  # noqa: BLE001 - the only watcher: any error is logged, then it goes on
            _log.exception("machines_not_looked_at")
