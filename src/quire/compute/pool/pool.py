"""A pool of warm worker processes, wherever they run: what all computes that keep such workers share.

Promises: a step that crashes, hangs past its timeout or eats its memory costs its own attempt; the worker is
replaced and what it had not started goes to the others. Small tasks travel in chunks (`pacing`), and what
waits behind a slow one is taken back when another worker has nothing to do. Orders that need much memory
begin when there is room for them (`scales`), first come, first served, while small ones go on. Must not
know: how a worker is started.
"""

import asyncio
from collections import deque
from decimal import Decimal
from typing import NamedTuple

from msgspec import structs

from quire.compute import failures
from quire.compute.failures import Failure
from quire.compute.pool import pace
from quire.compute.pool.memory_budget import LARGE_WAITING, MemoryBudget
from quire.compute.pool.pace import Paces, StepName
from quire.compute.pool.worker import report_of
from quire.compute.pool.worker_handle import WorkerHandle
from quire.model.clock import Clock
from quire.model.cost import NO_COST
from quire.model.errors import Misconfigured
from quire.model.signal import Signal
from quire.model.work import Order, Report, StepCall, priced

WATCH_SECONDS = 0.25
# A look that comes later than this was not late because of the workers.
LATE_SECONDS = 4 * WATCH_SECONDS
MAX_FAILED_STARTS = 10


class Large(NamedTuple):
    """An order that waits for memory."""

    call: StepCall
    order: Order
    need_mb: int


class Pool:
    """Lacks a `_hire`, which starts one worker."""

    def __init__(
        self,
        *,
        workers: int,
        clock: Clock,
        signal: Signal,
        memory_mb: int = 0,
        price_per_second: float = 0.0,
    ) -> None:
        """`memory_mb` is for all workers together, 0: no limit; the price is that of a worker."""
        self._workers = workers
        self._scales = MemoryBudget(memory_mb, workers)
        self._price = Decimal(str(price_per_second))
        self._clock = clock
        self._signal = signal
        self._hands: list[WorkerHandle] = []
        self._minders: set[asyncio.Task[None]] = set()
        self._backlog: deque[tuple[StepCall, list[Order]]] = deque()
        self._large: deque[Large] = deque()  # weighed, and there was no room
        self._reports: list[Report] = []
        self._paces = Paces()
        self._failed_starts = 0
        self._broken: BaseException | None = None
        self._stopping = asyncio.Event()

    def start(self) -> None:
        """Hire the workers, without waiting for them: orders handed over meanwhile are given to whoever is
        ready first. When none can be started, `reports` says why.
        """
        for _ in range(self._workers):
            self._keep(asyncio.create_task(self._hire_one(), name="minder"))
        self._keep(asyncio.create_task(self._watch()))

    def room(self, compute: str = "") -> int:  # noqa: ARG002 the only one
        # Those that wait for memory must not keep the workers from having something else to do.
        out = self._out() - min(len(self._large), LARGE_WAITING)
        return pace.room(self._paces.latest, self._workers, out)

    async def hand(self, call: StepCall, orders: list[Order]) -> None:
        limit = min(call.memory_mb, self._scales.largest_mb)
        self._backlog.append((structs.replace(call, memory_mb=limit), orders))
        self._feed()

    def reports(self) -> list[Report]:
        if self._broken is not None:
            raise self._broken
        taken, self._reports = self._reports, []
        return taken

    def revoke(self, batch_no: int) -> None:
        self._reports = [report for report in self._reports if report.batch_no != batch_no]
        backlog, self._backlog = self._backlog, deque()
        for call, orders in backlog:
            if others := [order for order in orders if order.batch_no != batch_no]:
                self._backlog.append((call, others))
        self._large = deque(one for one in self._large if one.order.batch_no != batch_no)
        for hand in self._hands:
            hand.revoke(batch_no)
        self._feed()
        self._signal.set()  # there may be room for others now

    async def stop(self, grace_seconds: float) -> list[Order]:
        self._stopping.set()
        for hand in self._hands:
            hand.stop()
        unstarted = self._withdraw()
        waiting = {task for task in self._minders if task.get_name() == "minder"}
        if waiting:
            await asyncio.wait(waiting, timeout=grace_seconds)
        for hand in self._hands:
            hand.kill()
        if waiting:
            await asyncio.wait(waiting)
        for task in self._minders:
            task.cancel()
        return unstarted + self._withdraw()

    def _withdraw(self) -> list[Order]:
        """What no worker has."""
        withdrawn = [order for _, orders in self._backlog for order in orders]
        withdrawn += [one.order for one in self._large]
        self._backlog.clear()
        self._large.clear()
        return withdrawn

    def _out(self) -> int:
        waiting = sum(len(orders) for _, orders in self._backlog) + len(self._large)
        return sum(hand.orders_out for hand in self._hands) + waiting

    def _held_mb(self) -> int:
        return sum(sum(hand.held.values()) for hand in self._hands if hand.held)

    def _taker(self, task_seconds: float | None, *, idle: bool) -> WorkerHandle | None:
        """Whoever has least, of those that want something; with `idle` of those that have nothing."""
        depth = 0 if idle else pace.depth(task_seconds)
        wanting = [
            hand
            for hand in self._hands
            if not hand.orders_out or (hand.chunks_waiting < depth and not hand.held)
        ]
        free = [hand for hand in wanting if not hand.doomed and not hand.recalling]
        return min(free, key=lambda hand: hand.orders_out, default=None)

    def _feed(self) -> None:
        """A second chunk is put behind a first only while there is enough for all: at the end of a phase it
        would wait in one pipe while another worker has nothing to do.
        """
        if self._large:
            self._feed_large()
        remaining = sum(len(orders) for _, orders in self._backlog)
        while self._backlog:
            call, orders = self._backlog[0]
            seconds = self._paces.of((call.step, call.version))
            scarce = remaining <= self._workers * pace.full_chunk(seconds)
            hand = self._taker(seconds, idle=scarce)
            if hand is None:
                return
            size = pace.next_chunk(seconds, remaining, self._workers)
            self._backlog.popleft()
            if len(orders) > size:
                self._backlog.appendleft((call, orders[size:]))
            given = orders[:size]
            remaining -= len(given)
            hand.give(call, given, granted_mb=self._scales.share_mb)

    def _feed_large(self) -> None:
        """Before all others, or a full pool would never come to them; by age, or lighter ones would pass the
        heaviest for ever.
        """
        while self._large and self._scales.fits(self._large[0].need_mb, self._held_mb()):
            call, order, need = self._large[0]
            hand = self._taker(self._paces.of((call.step, call.version)), idle=False)
            if hand is None:
                return
            self._large.popleft()
            hand.give(call, [order], granted_mb=need, held_mb=self._scales.above(need))

    def _weigh(self, hand: WorkerHandle) -> None:
        """It asks for more than its share: now, or after those that asked before."""
        need = hand.asks_mb
        if not self._large and self._scales.fits(need, self._held_mb()):
            hand.go(self._scales.above(need))
        elif (given := hand.later()) is not None:
            self._large.append(Large(*given, need))

    def _level(self, now: float) -> None:
        """Somebody has nothing to do, and others have more than they come to."""
        idle = any(not hand.orders_out and not hand.doomed for hand in self._hands)
        if not idle or self._backlog:
            return
        for hand in self._hands:
            held_up = hand.current is not None and now - hand.current_since > pace.HELD_UP_SECONDS
            if held_up and hand.unstarted and not hand.doomed and not hand.recalling:
                hand.recall()

    async def _hire(self) -> WorkerHandle:
        """One worker more, ready for work. Raises Misconfigured when it cannot be had."""
        raise NotImplementedError

    def _mind(self, hand: WorkerHandle) -> None:
        self._hands.append(hand)
        self._keep(asyncio.create_task(self._listen(hand), name="minder"))

    def _keep(self, task: "asyncio.Task[None]") -> None:
        self._minders.add(task)
        task.add_done_callback(self._gone)

    def _gone(self, task: "asyncio.Task[None]") -> None:
        """A minder that ends by an error nobody expected must not leave the conductor waiting for ever."""
        self._minders.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._broken = error
            self._signal.set()

    async def _listen(self, hand: WorkerHandle) -> None:
        """One worker's life: its reports, and at its end the settling of what it left."""
        while (heard := await hand.hear()) is not None:
            self._note_pace(hand)
            if hand.asks_mb and not hand.doomed:
                self._weigh(hand)
            for call, order in reversed(hand.taken_back()):
                self._backlog.appendleft((call, [order]))
            self._feed()
            if heard:
                self._reports += map(self._priced, heard)
                self._signal.set()
        await self._bury(hand)
        self._signal.set()
        if not self._stopping.is_set():
            await self._hire_one()

    async def _bury(self, hand: WorkerHandle) -> None:
        ending = await hand.ending()
        self._hands.remove(hand)
        again = list(hand.unstarted)
        for call, order in hand.started.values():
            if hand.is_revoked(order):
                continue
            cost = hand.spent_on(order)
            if hand.dismissed and cost == NO_COST:
                again.insert(0, (call, order))  # as if it had never begun
                continue
            failure = self._blame(hand, call, order, ending)
            since = self._clock.monotonic() - hand.current_since
            report = report_of(order, self._clock.now() - since, since, hand.name, failure, cost)
            self._reports.append(self._priced(report))
        for call, order in reversed(again):
            if not hand.is_revoked(order):
                self._backlog.appendleft((call, [order]))

    def _blame(self, hand: WorkerHandle, call: StepCall, order: Order, ending: str) -> Failure:
        """The order it was on did it; others whose results were being stored are innocent."""
        if hand.verdict is not None and hand.verdict[0] is order:
            return hand.verdict[1]
        current = hand.current is not None and hand.current[1] is order
        # What it had turned to while our signal was on its way has not killed it.
        if not current or hand.verdict is not None or hand.dismissed or self._stopping.is_set():
            return failures.of_interruption()
        return failures.of_crash(call, ending, hand.last_words())

    async def _hire_one(self) -> None:
        """A worker more; a few may die at birth before we call it broken."""
        while not self._stopping.is_set() and self._broken is None:
            try:
                hand = await self._hire()
            except Misconfigured as error:
                self._failed_starts += 1
                # Twice as many as there are: a machine that dies may take many along that were just starting.
                limit = max(MAX_FAILED_STARTS, 2 * self._workers)
                if self._failed_starts >= limit and not self._stopping.is_set():
                    self._broken = error
                    self._signal.set()
                continue
            self._failed_starts = 0
            if self._stopping.is_set():
                hand.kill()
                await hand.ending()
            else:
                self._mind(hand)
            break
        self._feed()
        self._signal.set()

    def _note_pace(self, hand: WorkerHandle) -> None:
        timed, hand.timed = hand.timed, []
        by_step: dict[StepName, list[float]] = {}
        for call, seconds in timed:
            by_step.setdefault((call.step, call.version), []).append(seconds)
        for step, some in by_step.items():
            self._paces.note(step, some)

    def _priced(self, report: Report) -> Report:
        """With what the worker has cost, however it ended."""
        return report if not self._price else priced(report, self._price)

    async def _watch(self) -> None:
        """The limits of the order each worker is on."""
        looked_at = self._clock.monotonic()
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            now, before = self._clock.monotonic(), looked_at
            looked_at = now
            if now - before > LATE_SECONDS:
                continue  # we were held up ourselves: first hear what the workers have said meanwhile
            for hand in self._hands:
                hand.judge(now)
            self._level(now)
