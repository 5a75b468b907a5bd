"""A pool of warm worker processes, wherever they run: what all computes that keep such workers share.

Promises: a step that crashes, hangs past its timeout or exceeds its memory costs its own attempt; the worker
is replaced and the orders it had not started go to the others. Small tasks travel in chunks (`chunks`), and
orders that wait behind a slow one are taken back when another worker is idle. Orders that need much memory
begin when the budget (`memory_budget`) allows, first come, first served, while small ones go on. Orders of
asynchronous steps go to `hosts`. Must not know: how a worker is started.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from decimal import Decimal
from typing import NamedTuple

from msgspec import structs

from quire.compute import failures
from quire.compute.failures import AttemptFailure
from quire.compute.hosts.handle import HostHandle
from quire.compute.hosts.hosts import AsyncHosts
from quire.compute.hosts.limits import UNLIMITED, CallCounts, RunLimits
from quire.compute.pool import chunks
from quire.compute.pool.chunks import StepDurations, StepVersion
from quire.compute.pool.memory_budget import LARGE_WAITING, MemoryBudget
from quire.compute.pool.worker_handle import OnProgress, WorkerHandle
from quire.compute.reports import build_report
from quire.model.clock import Clock
from quire.model.cost import NO_COST
from quire.model.errors import Misconfigured
from quire.model.signal import Signal
from quire.model.work import Order, Report, StepCall, add_price

WATCH_SECONDS = 0.25
# A check that comes later than this was not delayed by the workers.
LATE_SECONDS = 4 * WATCH_SECONDS
MAX_FAILED_STARTS = 10


class LargeOrder(NamedTuple):
    """An order that waits for memory."""

    call: StepCall
    order: Order
    need_mb: int


class Pool:
    """Subclasses define `_start_worker` and `_start_host`, which start one process each."""

    def __init__(
        self,
        *,
        workers: int,
        clock: Clock,
        signal: Signal,
        memory_mb: int = 0,
        price_per_second: float = 0.0,
        on_progress: OnProgress | None = None,
        resources: Mapping[str, int] | None = None,
    ) -> None:
        """`memory_mb` is for all workers together, 0 for no limit; the price is per worker. `resources` says
        how many orders of calls that name a resource may run at once; it may change.
        """
        self._workers = workers
        self._on_progress = on_progress
        self._budget = MemoryBudget(memory_mb, workers)
        self._price = Decimal(str(price_per_second))
        self._clock = clock
        self._signal = signal
        self._handles: list[WorkerHandle] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._backlog: deque[tuple[StepCall, list[Order]]] = deque()
        self._large: deque[LargeOrder] = deque()  # wait for memory
        self._reports: list[Report] = []
        self._durations = StepDurations()
        self._failed_starts = 0
        self._broken: BaseException | None = None
        self._stopping = asyncio.Event()
        self._limits = RunLimits({} if resources is None else resources)
        self._hosts = AsyncHosts(
            start_host=self._start_host,
            clock=clock,
            signal=signal,
            limits=self._limits,
            count_others=self._count_given,
            on_room=self._feed,
            alone_at_once=workers,
            price_per_second=self._price,
            on_progress=on_progress,
        )

    def start(self) -> None:
        """Start the workers without waiting for them: orders submitted meanwhile go to the first that is
        ready. When none can be started, `take_reports` raises the reason.
        """
        for _ in range(self._workers):
            self._track(asyncio.create_task(self._start_one(), name="worker"))
        self._track(asyncio.create_task(self._watch()))

    def capacity(self, compute: str = "", call: StepCall | None = None) -> int:  # noqa: ARG002 the only one
        if call is not None and call.asynchronous:
            return self._hosts.capacity(call, self._count_out() if call.resource else None)
        # Orders that wait for memory, or are being stored, must not keep the workers from other work.
        storing = sum(handle.orders_out - handle.orders_to_compute for handle in self._handles)
        out = self._out() - storing - min(len(self._large), LARGE_WAITING)
        free = chunks.free_capacity(self._durations.latest, self._workers, out)
        return free if call is None or not free else min(free, self._limit_room(call, to_start=False))

    async def submit(self, call: StepCall, orders: list[Order]) -> None:
        limited = structs.replace(call, memory_mb=min(call.memory_mb, self._budget.largest_mb))
        if call.asynchronous:
            if not self._hosts.is_used:  # one process more has a share of the memory
                self._budget = MemoryBudget(self._budget.budget_mb, self._budget.workers + 1)
            self._hosts.submit(limited, orders)
        else:
            self._backlog.append((limited, orders))
            self._feed()

    def take_reports(self) -> list[Report]:
        if self._broken is not None:
            raise self._broken
        of_hosts = self._hosts.take_reports()  # first: it may raise
        taken, self._reports = self._reports, []
        return taken + of_hosts

    def revoke(self, batch_no: int) -> None:
        self._reports = [report for report in self._reports if report.batch_no != batch_no]
        backlog, self._backlog = self._backlog, deque()
        for call, orders in backlog:
            if others := [order for order in orders if order.batch_no != batch_no]:
                self._backlog.append((call, others))
        self._large = deque(one for one in self._large if one.order.batch_no != batch_no)
        for handle in self._handles:
            handle.revoke(batch_no)
        self._hosts.revoke(batch_no)
        self._feed()
        self._signal.set()  # other batches may be submitted now

    async def stop(self, grace_seconds: float) -> list[Order]:
        self._stopping.set()
        hosts = asyncio.create_task(self._hosts.stop(grace_seconds))
        for handle in self._handles:
            handle.stop()
        unstarted = self._withdraw()
        waiting = {task for task in self._tasks if task.get_name() == "worker"}
        if waiting:
            await asyncio.wait(waiting, timeout=grace_seconds)
        for handle in self._handles:
            handle.kill()
        if waiting:
            await asyncio.wait(waiting)
        for task in self._tasks:
            task.cancel()
        return unstarted + self._withdraw() + await hosts

    def _withdraw(self) -> list[Order]:
        """Remove and return the orders that no worker has."""
        withdrawn = [order for _, orders in self._backlog for order in orders]
        withdrawn += [one.order for one in self._large]
        self._backlog.clear()
        self._large.clear()
        return withdrawn

    def _out(self) -> int:
        waiting = sum(len(orders) for _, orders in self._backlog) + len(self._large)
        return sum(handle.orders_out for handle in self._handles) + waiting

    def _limit_room(self, call: StepCall, *, to_start: bool) -> int:
        """As many as the call itself and its resource allow beside those that are out; with `to_start` beside
        those that have been given to workers and hosts.
        """
        if not call.at_once and not call.resource:
            return UNLIMITED
        ours = self._count_given() if to_start else self._count_out()
        others = self._hosts.running if to_start else self._hosts.out
        return self._limits.room(call, ours, self._clock.monotonic(), others)

    def _count_out(self) -> CallCounts:
        """The orders that were submitted for worker processes and have not ended."""
        out = self._count_given()
        for call, orders in self._backlog:
            out.add(call, len(orders))
        for large in self._large:
            out.add(large.call)
        return out

    def _count_given(self) -> CallCounts:
        """The orders that the workers have."""
        given = CallCounts()
        for handle in self._handles:
            for call, _ in (*handle.unstarted, *handle.started.values()):
                given.add(call)
        return given

    def _held_mb(self) -> int:
        return sum(sum(handle.held.values()) for handle in self._handles if handle.held)

    def _choose_worker(self, task_seconds: float | None, *, idle: bool) -> WorkerHandle | None:
        """The worker with the fewest orders that can take more; with `idle`, one that computes none."""
        depth = 0 if idle else chunks.chunks_ahead(task_seconds)
        wanting = [
            handle
            for handle in self._handles
            if handle.is_idle or (handle.chunks_waiting < depth and not handle.held)
        ]
        free = [handle for handle in wanting if not handle.is_killed and not handle.is_recalling]
        return min(free, key=lambda handle: handle.orders_out, default=None)

    def _feed(self) -> None:
        """Give orders to workers. A second chunk is queued behind a first only while there is enough for all:
        at the end of a phase it would wait in one pipe while another worker is idle.
        """
        if self._large:
            self._feed_large()
        remaining = sum(len(orders) for _, orders in self._backlog)
        held_up: list[tuple[StepCall, list[Order]]] = []  # by the limits of their calls
        while self._backlog:
            call, orders = self._backlog[0]
            room = self._limit_room(call, to_start=True)
            if not room:
                held_up.append(self._backlog.popleft())
                remaining -= len(orders)
                continue
            seconds = self._durations.of((call.step, call.version))
            scarce = remaining <= self._workers * chunks.full_chunk_size(seconds)
            handle = self._choose_worker(seconds, idle=scarce)
            if handle is None:
                break
            size = min(room, chunks.next_chunk_size(seconds, remaining, self._workers))
            self._backlog.popleft()
            if len(orders) > size:
                self._backlog.appendleft((call, orders[size:]))
            given = orders[:size]
            remaining -= len(given)
            handle.give(call, given, granted_mb=self._budget.share_mb)
        self._backlog.extendleft(reversed(held_up))

    def _feed_large(self) -> None:
        """Give out orders that wait for memory: before all others, or a full pool would never reach them; by
        age, or smaller ones would overtake the largest for ever.
        """
        while self._large and self._budget.fits(self._large[0].need_mb, self._held_mb()):
            call, order, need = self._large[0]
            handle = self._choose_worker(self._durations.of((call.step, call.version)), idle=False)
            if handle is None:
                return
            self._large.popleft()
            handle.give(call, [order], granted_mb=need, held_mb=self._budget.above(need))

    def _answer_memory_request(self, handle: WorkerHandle) -> None:
        """The current order of a worker needs more than the share: let it begin, or queue it for memory."""
        need = handle.requested_mb
        if not self._large and self._budget.fits(need, self._held_mb()):
            handle.grant_memory(self._budget.above(need))
        elif (given := handle.defer()) is not None:
            self._large.append(LargeOrder(*given, need))

    def _rebalance(self, now: float) -> None:
        """Recall orders from busy workers when one is idle."""
        idle = any(handle.is_idle and not handle.is_killed for handle in self._handles)
        if not idle or self._backlog:
            return
        for handle in self._handles:
            is_held_up = handle.current is not None and now - handle.current_since > chunks.HELD_UP_SECONDS
            if is_held_up and handle.unstarted and not handle.is_killed and not handle.is_recalling:
                handle.recall()

    async def _start_worker(self) -> WorkerHandle:
        """Start one worker and wait until it is ready. Raises Misconfigured when it cannot be started."""
        raise NotImplementedError

    async def _start_host(self, is_alone: bool) -> HostHandle:
        """As `_start_worker`, for a host of coroutines; with `is_alone` of one at a time."""
        raise NotImplementedError

    def _add_worker(self, handle: WorkerHandle) -> None:
        handle.on_progress = self._on_progress
        self._handles.append(handle)
        self._track(asyncio.create_task(self._listen(handle), name="worker"))

    def _track(self, task: "asyncio.Task[None]") -> None:
        self._tasks.add(task)
        task.add_done_callback(self._note_end)

    def _note_end(self, task: "asyncio.Task[None]") -> None:
        """A background task that fails unexpectedly must not leave the dispatcher waiting for ever."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._broken = error
            self._signal.set()

    async def _listen(self, handle: WorkerHandle) -> None:
        """Take the reports of one worker; at its end settle the orders it left, and replace it."""
        while (received := await handle.receive()) is not None:
            self._note_durations(handle)
            if handle.requested_mb and not handle.is_killed:
                self._answer_memory_request(handle)
            for call, order in reversed(handle.take_returned()):
                self._backlog.appendleft((call, [order]))
            if received:
                self._note_reports(handle, received)
            self._feed()
        await self._settle_ended(handle)
        self._signal.set()
        if not self._stopping.is_set():
            self._feed()  # idle workers, at once: a new worker may have to wait for hours for a place
            await self._start_one()

    def _note_reports(self, handle: WorkerHandle, received: list[Report]) -> None:
        now = self._clock.monotonic()
        for call, report in handle.take_ended():
            self._limits.note_report(call, report, now)
        self._reports += map(self._add_price, received)
        if self._hosts.is_used:
            self._hosts.feed()  # a resource may have become free
        self._signal.set()

    async def _settle_ended(self, handle: WorkerHandle) -> None:
        ending = await handle.wait()
        self._handles.remove(handle)
        again = list(handle.unstarted)
        for call, order in handle.started.values():
            if handle.is_revoked(order):
                continue
            cost = handle.spent_on(order)
            if handle.was_revoked and cost == NO_COST:
                again.insert(0, (call, order))  # as if it had never started
                continue
            failure = self._explain_failure(handle, call, order, ending)
            since = self._clock.monotonic() - handle.current_since
            report = build_report(order, self._clock.now() - since, since, handle.name, failure, cost)
            self._reports.append(self._add_price(report))
        for call, order in reversed(again):
            if not handle.is_revoked(order):
                self._backlog.appendleft((call, [order]))

    def _explain_failure(
        self, handle: WorkerHandle, call: StepCall, order: Order, ending: str
    ) -> AttemptFailure:
        """Only the current order can have caused the end; not if it started while a signal was on its way."""
        if handle.kill_reason is not None and handle.kill_reason[0] is order:
            return handle.kill_reason[1]
        current = handle.current is not None and handle.current[1] is order
        is_innocent = not current or handle.kill_reason is not None or handle.is_lost
        if is_innocent or handle.was_revoked or self._stopping.is_set():
            return failures.of_interruption()
        return failures.of_crash(call, ending, handle.read_stderr())

    async def _start_one(self) -> None:
        """Start one worker; a few may fail to start before the pool counts as broken."""
        while not self._stopping.is_set() and self._broken is None:
            try:
                handle = await self._start_worker()
            except Misconfigured as error:
                self._failed_starts += 1
                # Twice the number of workers: a machine that dies may take many starting ones along.
                limit = max(MAX_FAILED_STARTS, 2 * self._workers)
                if self._failed_starts >= limit and not self._stopping.is_set():
                    self._broken = error
                    self._signal.set()
                continue
            self._failed_starts = 0
            if self._stopping.is_set():
                handle.kill()
                await handle.wait()
            else:
                self._add_worker(handle)
            break
        self._feed()
        self._signal.set()

    def _note_durations(self, handle: WorkerHandle) -> None:
        taken, handle.durations = handle.durations, []
        by_step: dict[StepVersion, list[float]] = {}
        for call, seconds in taken:
            by_step.setdefault((call.step, call.version), []).append(seconds)
        for step, some in by_step.items():
            self._durations.note(step, some)

    def _add_price(self, report: Report) -> Report:
        """The report with the price of the worker's time, however the attempt ended."""
        return report if not self._price else add_price(report, self._price)

    async def _watch(self) -> None:
        """Check the time limits of every current order."""
        checked_at = self._clock.monotonic()
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            now, before = self._clock.monotonic(), checked_at
            checked_at = now
            if now - before > LATE_SECONDS:
                continue  # this process was held up: first read what the workers have sent meanwhile
            for handle in self._handles:
                handle.check_limits(now)
            self._rebalance(now)
            if self._limits.end_pauses(now):
                self._feed()
                self._hosts.feed()
                self._signal.set()
