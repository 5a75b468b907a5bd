"""A pool of warm worker processes, wherever they run: what all computes that keep such workers share.

Promises: a step that crashes, hangs past its timeout or eats its memory costs its own attempt; the worker is
replaced and what it had not started goes to the others. Small tasks travel in chunks sized by how long they
have been taking, so that a chunk is about a tenth of a second of work. Must not know: how a worker is
started.
"""

import asyncio
from collections import deque

from quire.compute import failures
from quire.compute.crew import Hand
from quire.compute.failures import Failure
from quire.compute.worker import report_of
from quire.model.clock import Clock
from quire.model.cost import NO_COST
from quire.model.errors import Misconfigured
from quire.model.signal import Signal
from quire.model.work import Order, Report, StepCall

CHUNK_SECONDS = 0.1
LARGEST_CHUNK = 512
# With tasks slower than this a second chunk in a worker's pipe only waits behind the first.
SLOW_TASK_SECONDS = 0.5
WATCH_SECONDS = 0.25
# A look that comes later than this was not late because of the workers.
LATE_SECONDS = 4 * WATCH_SECONDS
MAX_FAILED_STARTS = 10


class Pool:
    """Lacks a `_hire`, which starts one worker."""

    def __init__(self, *, workers: int, clock: Clock, signal: Signal) -> None:
        self._workers = workers
        self._clock = clock
        self._signal = signal
        self._hands: list[Hand] = []
        self._minders: set[asyncio.Task[None]] = set()
        self._backlog: deque[tuple[StepCall, list[Order]]] = deque()
        self._reports: list[Report] = []
        self._task_seconds: float | None = None
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
        wanted = self._workers * (3 if self._depth() else 2) * self._chunk_size()
        # Small top-ups would cost a transaction each: wait until a good part can be filled.
        free = wanted - self._out()
        return free if free * 3 >= wanted else 0

    async def hand(self, call: StepCall, orders: list[Order]) -> None:
        size = self._chunk_size()
        for at in range(0, len(orders), size):
            self._backlog.append((call, orders[at : at + size]))
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
        for hand in self._hands:
            hand.revoke(batch_no)
        self._feed()
        self._signal.set()  # there may be room for others now

    async def stop(self, grace_seconds: float) -> list[Order]:
        self._stopping.set()
        for hand in self._hands:
            hand.stop()
        unstarted = [order for _, orders in self._backlog for order in orders]
        self._backlog.clear()
        waiting = {task for task in self._minders if task.get_name() == "minder"}
        if waiting:
            await asyncio.wait(waiting, timeout=grace_seconds)
        for hand in self._hands:
            hand.kill()
        if waiting:
            await asyncio.wait(waiting)
        for task in self._minders:
            task.cancel()
        unstarted += [order for _, orders in self._backlog for order in orders]
        self._backlog.clear()
        return unstarted

    def _out(self) -> int:
        return sum(hand.orders_out for hand in self._hands) + sum(len(orders) for _, orders in self._backlog)

    def _chunk_size(self) -> int:
        if not self._task_seconds:
            return LARGEST_CHUNK if self._task_seconds == 0 else 1
        return max(1, min(LARGEST_CHUNK, int(CHUNK_SECONDS / self._task_seconds)))

    def _depth(self) -> int:
        """How many chunks a worker may have that it has not started, or not started to the end."""
        if (self._task_seconds or 0) > SLOW_TASK_SECONDS:
            return 0
        return 1 if self._chunk_size() == 1 else 2

    def _wants(self, hand: Hand) -> bool:
        return not hand.orders_out or hand.chunks_waiting < self._depth()

    def _feed(self) -> None:
        """To whoever has least. A second chunk is put behind a first only while there is enough for all:
        at the end of a phase it would wait in one pipe while another worker has nothing to do.
        """
        while self._backlog:
            scarce = len(self._backlog) <= self._workers
            free = [
                hand
                for hand in self._hands
                if not hand.doomed and (not hand.orders_out if scarce else self._wants(hand))
            ]
            if not free:
                return
            call, orders = self._backlog.popleft()
            min(free, key=lambda hand: hand.orders_out).give(call, orders)

    async def _hire(self) -> Hand:
        """One worker more, ready for work. Raises Misconfigured when it cannot be had."""
        raise NotImplementedError

    def _mind(self, hand: Hand) -> None:
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

    async def _listen(self, hand: Hand) -> None:
        """One worker's life: its reports, and at its end the settling of what it left."""
        while (heard := await hand.hear()) is not None:
            self._feed()
            if heard:
                self._note_pace(heard)
                self._reports += heard
                self._signal.set()
        await self._bury(hand)
        self._signal.set()
        if not self._stopping.is_set():
            await self._hire_one()

    async def _bury(self, hand: Hand) -> None:
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
            self._reports.append(report_of(order, self._clock.now() - since, since, hand.name, failure, cost))
        for call, order in reversed(again):
            if not hand.is_revoked(order):
                self._backlog.appendleft((call, [order]))

    def _blame(self, hand: Hand, call: StepCall, order: Order, ending: str) -> Failure:
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

    def _note_pace(self, reports: list[Report]) -> None:
        """A moving average that follows a change of phase within a few chunks."""
        mean = sum(report.seconds for report in reports) / len(reports)
        known = self._task_seconds
        self._task_seconds = mean if known is None else known + 0.3 * (mean - known)

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
