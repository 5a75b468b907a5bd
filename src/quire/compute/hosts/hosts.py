"""Runs the orders of asynchronous steps in host processes; a compute of its own, which a pool has beside its
worker processes.

Promises: those of every compute. An order that exceeds a time limit is cancelled; one that goes on for five
seconds is given up, and its host is drained and killed. When a host crashes, each order that was running is
run again alone, so that only the one that crashes alone fails; the others lose nothing. A host starts with
the first order. Must not know: how a process is started.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from decimal import Decimal

from msgspec import structs

from quire.compute import failures
from quire.compute.failures import AttemptFailure
from quire.compute.hosts.handle import HostHandle, OnProgress
from quire.compute.hosts.limits import CallCounts, RunLimits
from quire.compute.hosts.order import HostedOrder
from quire.compute.pool import frames
from quire.compute.reports import build_report
from quire.model.clock import Clock
from quire.model.cost import Cost, to_micros
from quire.model.errors import Misconfigured
from quire.model.signal import Signal
from quire.model.work import Order, Outcome, Report, StepCall

_log = logging.getLogger("quire.compute")
CANCEL_SECONDS = 5.0
WATCH_SECONDS = 0.25
# A check that comes later than this was not delayed by the hosts.
LATE_SECONDS = 4 * WATCH_SECONDS
MAX_FAILED_STARTS = 10


class AsyncHosts:
    def __init__(
        self,
        *,
        start_host: Callable[[bool], Awaitable[HostHandle]],
        clock: Clock,
        signal: Signal,
        limits: RunLimits,
        count_others: Callable[[], CallCounts] = CallCounts,
        on_room: Callable[[], None] = lambda: None,
        alone_at_once: int = 1,
        price_per_second: Decimal = Decimal(0),
        on_progress: OnProgress | None = None,
    ) -> None:
        """`start_host` starts a host, for one order at a time when its argument is true; `alone_at_once` is
        how many hosts there may be for orders that run alone. `count_others` counts the orders of the pool
        that run in worker processes, which may use the same resources; `on_room` is called when orders have
        ended, and `feed` is to be called when others have. Orders of a host share its price.
        """
        self._start_handle = start_host
        self._clock = clock
        self._signal = signal
        self._limits = limits
        self._count_others = count_others
        self._on_room = on_room
        self._alone_at_once = max(1, alone_at_once)
        self._price = price_per_second
        self._on_progress = on_progress
        self._hosts: list[HostHandle] = []
        self._starting = 0  # hosts for many orders
        self._starting_alone = 0
        self._backlog: dict[tuple[str, int], deque[HostedOrder]] = {}  # by step
        self._suspects: deque[HostedOrder] = deque()  # wait to run alone
        self._out = CallCounts()  # all that were submitted and have not ended
        self._running = CallCounts()  # those that a host has
        self._reports: list[Report] = []
        self._unstarted: list[Order] = []  # while it stops
        self._tasks: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None
        self._failed_starts = 0
        self._broken: BaseException | None = None
        self._is_stopping = False

    @property
    def is_used(self) -> bool:
        """Has there been any order?"""
        return self._watching is not None

    @property
    def running(self) -> CallCounts:
        """The orders that a host has."""
        return self._running

    @property
    def out(self) -> CallCounts:
        """All orders that were submitted and have not ended."""
        return self._out

    def capacity(self, call: StepCall, others: CallCounts | None = None) -> int:
        """As many orders as may run now, beside `others` that were submitted for worker processes."""
        now = self._clock.monotonic()
        return 0 if self._is_stopping else self._limits.room(call, self._out, now, others)

    def submit(self, call: StepCall, orders: list[Order]) -> None:
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
            self._watching.add_done_callback(self._note_end)
        self._out.add(call, len(orders))
        for order in orders:
            self._queue(HostedOrder(call, order))
        self.feed()

    def take_reports(self) -> list[Report]:
        if self._broken is not None:
            raise self._broken
        taken, self._reports = self._reports, []
        return taken

    def revoke(self, batch_no: int) -> None:
        self._reports = [report for report in self._reports if report.batch_no != batch_no]
        for queue in (*self._backlog.values(), self._suspects):
            kept = [one for one in queue if one.order.batch_no != batch_no]
            for one in queue:
                if one.order.batch_no == batch_no:
                    self._out.add(one.call, -1)
            queue.clear()
            queue.extend(kept)
        for host in self._hosts:
            for one in host.orders.values():
                if one.order.batch_no == batch_no:
                    one.is_revoked = True
                    host.cancel(one)
        self.feed()

    async def stop(self, grace_seconds: float) -> list[Order]:
        self._is_stopping = True
        for queue in self._backlog.values():
            while queue:
                self._unstarted.append(self._forget(queue.popleft()).order)
        while self._suspects:  # they had started
            self._fail(self._suspects.popleft(), failures.of_interruption(), "host")
        for host in self._hosts:
            host.stop()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_seconds)
        for host in self._hosts:
            host.kill()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._watching is not None:
            self._watching.cancel()
        unstarted, self._unstarted = self._unstarted, []
        return unstarted

    def _queue(self, one: HostedOrder, *, first: bool = False) -> None:
        queue = self._backlog.setdefault((one.call.step, one.call.version), deque())
        queue.appendleft(one) if first else queue.append(one)

    def feed(self) -> None:
        """Give orders to hosts, as many as may run."""
        if self._is_stopping or self._broken is not None:
            return
        self._feed_suspects()
        host = next((host for host in self._hosts if host.takes_orders and not host.is_alone), None)
        if host is not None:
            host.give(self._take_startable())
        elif any(self._backlog.values()) and not self._starting:
            self._starting += 1
            self._track(asyncio.create_task(self._start_host(is_alone=False)))

    def _take_startable(self) -> list[HostedOrder]:
        """Remove and return the orders that may start now: one of each step in turn, since steps may share a
        resource.
        """
        now = self._clock.monotonic()
        taken: list[HostedOrder] = []
        queues = [queue for queue in self._backlog.values() if queue]
        while queues:
            queues = [queue for queue in queues if queue and self._has_room(queue[0], now)]
            for queue in queues:
                if self._has_room(queue[0], now):
                    taken.append(queue.popleft())
                    self._running.add(taken[-1].call)
        return sorted(taken, key=lambda one: (one.call.step, one.call.version))

    def _has_room(self, one: HostedOrder, now: float) -> bool:
        others = self._count_others() if one.call.resource else None
        return self._limits.room(one.call, self._running, now, others) > 0

    def _feed_suspects(self) -> None:
        alone = [host for host in self._hosts if host.is_alone and host.takes_orders]
        idle = [host for host in alone if not host.orders]
        now = self._clock.monotonic()
        while self._suspects and idle and self._has_room(self._suspects[0], now):
            one = self._suspects.popleft()
            self._running.add(one.call)
            idle.pop().give([one])
        wanted = min(len(self._suspects), self._alone_at_once - len(alone)) - self._starting_alone
        for _ in range(wanted):
            self._starting_alone += 1
            self._track(asyncio.create_task(self._start_host(is_alone=True)))
        if not self._suspects:
            for host in idle:
                host.stop()

    async def _start_host(self, *, is_alone: bool) -> None:
        """Start a host and listen to it to its end; a few may fail to start before all counts as broken."""
        try:
            host = await self._start_handle(is_alone)
        except Misconfigured as error:
            self._note_start(is_alone)
            self._note_failure(error)
            return
        self._note_start(is_alone)
        self._failed_starts = 0
        host.on_progress, host.on_blocked = self._on_progress, self._warn
        self._hosts.append(host)
        if self._is_stopping:
            host.kill()
        self.feed()
        await self._listen(host)

    def _note_start(self, is_alone: bool) -> None:
        self._starting -= not is_alone
        self._starting_alone -= is_alone

    def _note_failure(self, error: Misconfigured) -> None:
        """A host could not be started."""
        self._failed_starts += 1
        if self._failed_starts >= MAX_FAILED_STARTS and not self._is_stopping:
            self._broken = error
            self._signal.set()
        self.feed()

    async def _listen(self, host: HostHandle) -> None:
        while (ended := await host.receive()) is not None:
            for one, report in ended:
                self._settle(host, one, report)
            if ended:
                self._signal.set()
                self._on_room()
            self.feed()
        ending = await host.wait()
        self._hosts.remove(host)
        for one in list(host.orders.values())[::-1]:
            host.remove(one)
            self._settle_left(host, one, ending)
        self.feed()
        self._on_room()
        self._signal.set()

    def _settle(self, host: HostHandle, one: HostedOrder, report: Report) -> None:
        """An order has ended by itself, or because it was cancelled."""
        self._running.add(one.call, -1)
        if one.is_revoked:
            self._forget(one)
        elif _is_cancellation(report) and one.failure is not None:
            self._fail(one, one.failure, host.name, report.cost)
        elif report.outcome is Outcome.OUT_OF_MEMORY and not host.is_alone and not self._is_stopping:
            # The memory is that of all orders of the host: alone, the order has all of it.
            host.is_draining = True
            self._suspect(one)
        else:
            if report.outcome is Outcome.OUT_OF_MEMORY:
                host.is_draining = True  # a fresh process has all of its memory again
            self._limits.note_report(one.call, report, self._clock.monotonic())
            self._report(one, report)

    def _settle_left(self, host: HostHandle, one: HostedOrder, ending: str) -> None:
        """The host has ended under this order."""
        self._running.add(one.call, -1)
        if one.is_revoked:
            self._forget(one)
        elif one.started is None and (host.is_killed or host.has_started_any):
            self._requeue(one)
        elif one.is_computed or self._is_stopping or host.is_lost:
            self._fail(one, failures.of_interruption(), host.name)
        elif one.failure is not None:
            self._fail(one, one.failure, host.name)
        elif host.spares_others:
            one.forget_run()
            self._requeue(one)
        elif host.is_alone:
            self._fail(one, failures.of_crash(one.call, ending, host.read_stderr()), host.name)
        else:
            self._suspect(one)

    def _requeue(self, one: HostedOrder) -> None:
        """As if no host had ever had it."""
        if self._is_stopping:
            self._unstarted.append(self._forget(one).order)
        elif one.is_suspect:
            self._suspects.appendleft(one)
        else:
            self._queue(one, first=True)

    def _suspect(self, one: HostedOrder) -> None:
        one.forget_run()
        one.is_suspect = True
        self._suspects.append(one)

    def _forget(self, one: HostedOrder) -> HostedOrder:
        self._out.add(one.call, -1)
        return one

    def _fail(self, one: HostedOrder, failure: AttemptFailure, worker: str, cost: Cost | None = None) -> None:
        since = 0.0 if one.started is None else self._clock.monotonic() - one.started
        if one.warning and failure.outcome is Outcome.TIMED_OUT:
            failure = structs.replace(failure, error=f"{failure.error}; {one.warning}")
        started_at = self._clock.now() - since
        spent = one.spent if cost is None else cost
        self._report(one, build_report(one.order, started_at, since, worker, failure, spent))

    def _report(self, one: HostedOrder, report: Report) -> None:
        self._forget(one)
        paid = Cost(money_micros=to_micros(self._price * Decimal(one.paid_seconds)))
        cost = report.cost + one.spent_before + paid
        self._reports.append(structs.replace(report, cost=cost, warning=one.warning))

    def _warn(self, one: HostedOrder | None, blocked: frames.BlockedLoop) -> None:
        """The loop of a host is held up."""
        step = "a step" if one is None else f"the step {one.call.step}"
        text = (
            f"{step} held up all others in its process for more than {blocked.seconds:.0f} s at "
            f"{blocked.place}; run what blocks in a thread (asyncio.to_thread)"
        )
        _log.warning("loop_blocked attempt=%s: %s", one and one.attempt_key, text)
        if one is not None:
            one.warning = text

    async def _watch(self) -> None:
        """Check the time limits of all orders."""
        checked_at = self._clock.monotonic()
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            now, before = self._clock.monotonic(), checked_at
            checked_at = now
            if now - before > LATE_SECONDS:
                continue  # this process was held up: first read what the hosts have sent meanwhile
            for host in self._hosts:
                if not host.is_killed:
                    self._check(host, now)

    def _check(self, host: HostHandle, now: float) -> None:
        host.cancel_exceeding(now)
        host.ping()
        stuck = host.find_stuck(now, CANCEL_SECONDS)
        if stuck and host.is_deaf(now):
            self._end_deaf(host, stuck)
        elif stuck:  # the loop turns, and they go on in spite of their cancellation
            host.is_draining = True
            for one in stuck:
                self._give_up(host, one)
        elif host.is_deaf(now, CANCEL_SECONDS) and host.is_held_by_none:
            host.spares_others = True
            host.kill()
        if host.is_draining and not host.orders:
            host.kill()

    def _end_deaf(self, host: HostHandle, stuck: list[HostedOrder]) -> None:
        """Orders are to end, and the loop does not turn."""
        culprit = host.culprit
        if culprit is not None and culprit not in stuck:
            return  # it is within its own limits, and the time of the others does not count
        if culprit is not None or all(one.is_revoked for one in stuck):
            host.spares_others = True
            for one in stuck:
                self._give_up(host, one)
        else:
            for one in host.orders.values():  # any may be the one: each shows it alone
                one.failure = None
        host.kill()

    def _give_up(self, host: HostHandle, one: HostedOrder) -> None:
        """End the order though its coroutine goes on."""
        host.remove(one)
        host.given_up += 1
        self._running.add(one.call, -1)
        if one.is_revoked or one.failure is None:
            self._forget(one)
        else:
            self._fail(one, one.failure, host.name)
        self._signal.set()

    def _track(self, task: "asyncio.Task[None]") -> None:
        self._tasks.add(task)
        task.add_done_callback(self._note_end)

    def _note_end(self, task: "asyncio.Task[None]") -> None:
        """A background task that fails unexpectedly must not leave the dispatcher waiting for ever."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._broken = error
            self._signal.set()


def _is_cancellation(report: Report) -> bool:
    told = failures.of_cancellation()
    return (report.outcome, report.error_class) == (told.outcome, told.error_class)
