"""Runs scheduler and dispatcher; sleeps until a signal or the next alarm.

A signal is a report, a message, or a change made by another process. When the ledger cannot be reached, the
loop waits and continues by itself.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from quire.engine import interruptions
from quire.engine.dispatcher import Dispatcher
from quire.engine.flow_settler import FlowSettler
from quire.engine.membership import Membership
from quire.engine.retry import RetryPolicy
from quire.engine.scheduler import Scheduler
from quire.ledger.port import BatchStore, FlowStore, Only, TaskStore
from quire.model.backoff import backoff_seconds
from quire.model.batch import Batch, Hold, Stage
from quire.model.clock import Clock
from quire.model.errors import Stale, Unavailable
from quire.model.signal import Signal

# A safety net: without an alarm, a signal wakes the loop.
LONGEST_WAIT_SECONDS = 5.0
RECEIVE_SECONDS = 1.0
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0

T = TypeVar("T")
_POLICY = RetryPolicy()
Observer = Callable[[Batch], Awaitable[None]]
Trouble = Callable[
    [str | None], None
]  # called with a reason when the ledger is away, and with None when it is back


class EngineLoop:
    def __init__(
        self,
        *,
        batches: BatchStore,
        tasks: TaskStore,
        flow: FlowStore,
        membership: Membership,
        scheduler: Scheduler | None,
        dispatcher: Dispatcher | None,
        clock: Clock,
        signal: Signal,
        policy: RetryPolicy = _POLICY,
        trouble: Trouble = lambda _: None,
    ) -> None:
        self._batches = batches
        self._tasks = tasks
        self._settler = FlowSettler(flow)
        self._membership = membership
        self._scheduler = scheduler
        self._dispatcher = dispatcher
        self._clock = clock
        self._signal = signal
        self._policy = policy
        self._trouble = trouble
        self._receive_at = 0.0
        self._turned_at = 0.0
        self._stopping = False
        self._rested = False
        self._abandoned = False

    def stop(self) -> None:
        """Claim nothing more; `run` and `run_batch` return."""
        self._stopping = True
        self._signal.set()

    def wake(self) -> None:
        """Another process or request has changed something."""
        if self._dispatcher is not None:
            self._dispatcher.notify()
        if self._scheduler is not None:
            self._scheduler.notify()
        self._receive_at = 0.0
        self._signal.set()

    def notify_tasks(self) -> None:
        """There are new tasks of a batch that flows."""
        if self._dispatcher is not None:
            self._dispatcher.notify()
        if self._scheduler is not None:
            self._scheduler.notify()
        self._signal.set()

    async def run_batch(self, batch_id: str, observe: Observer) -> Batch:
        """Move one batch until it ends, is held for its budget, or `stop` is called."""
        batch = await self._until_answered(lambda: self._batches.get_batch(batch_id))
        await self._until_answered(self._begin)
        self._receive_at = 0.0  # the batch's message may have been sent a moment ago
        only = [batch.no]
        while not self._stopping and not self._is_over(batch):
            if await self._until_answered(lambda: self._turn_or_rest(only)):
                batch = await self._until_answered(lambda: self._batches.get_batch(batch_id))
            await observe(batch)
        return batch

    async def run(self, is_enough: Callable[[], Awaitable[bool]] | None = None) -> None:
        """Move all batches until `stop` is called, or until there is nothing to do and `is_enough` agrees."""
        await self._until_answered(self._begin)
        while not self._stopping:
            await self._until_answered(lambda: self._turn_or_rest(None))
            if self._rested and is_enough is not None and await self._until_answered(is_enough):
                return

    async def shut_down(self, grace_seconds: float) -> None:
        """Finish running tasks within the grace period, release the others, and leave the members."""
        if self._dispatcher is not None:
            await self._dispatcher.shut_down(grace_seconds)
        if self._membership.number:
            await self._membership.leave()

    async def abandon(self) -> None:
        """After an unforeseen error: give up everything, as a process that died. The next run joins as a new
        member, after completing whatever failed here. May be repeated.
        """
        self._abandoned = True
        if self._dispatcher is not None:
            await self._dispatcher.abandon()
        if self._scheduler is not None:
            self._scheduler.forget()
        await self._leave_as_dead_member()

    async def _leave_as_dead_member(self) -> None:
        # Other members do not presume this one dead: its process lives and holds its lock.
        if self._membership.number:
            await self._interrupt(self._membership.number)
            await self._membership.leave()
            self._membership.number = 0
        self._abandoned = False

    async def _begin(self) -> None:
        if self._abandoned:
            await self.abandon()
        if not self._membership.number:
            await self._membership.join()
        await self._remove_dead_members()

    def _is_over(self, batch: Batch) -> bool:
        held = batch.hold is Hold.BUDGET and batch.position.stage is Stage.FLOWING
        spent = held and (self._dispatcher is None or self._dispatcher.idle)
        return batch.ended or spent

    async def _turn_or_rest(self, only: Only) -> bool:
        """False when tasks were settled or started and nothing else can have changed."""
        self._rested = False
        self._turned_at = self._clock.now()
        if self._membership.is_due:
            await self._keep_alive()
        worked = False
        if self._dispatcher is not None:
            worked = await self._dispatcher.turn(self._membership.number, only)
            if self._dispatcher.has_asked:
                self._receive_at = 0.0  # nobody outside can answer before the outbox is sent
            if worked and not self._dispatcher.phase_ended and not self._scheduler_due:
                return False
        if await self._move(only):
            if self._dispatcher is not None:
                self._dispatcher.notify()
        elif not worked:
            self._rested = True
            await self._rest(only)
        return True

    @property
    def _scheduler_due(self) -> bool:
        if self._scheduler is None:
            return False
        return self._scheduler.is_busy or self._clock.monotonic() >= self._receive_at

    async def _move(self, only: Only) -> bool:
        if self._scheduler is None:
            return False
        if self._dispatcher is not None and self._dispatcher.phase_ended:
            self._scheduler.notify()
        if self._clock.monotonic() >= self._receive_at:
            if await self._scheduler.receive():
                self._scheduler.notify()
            self._receive_at = self._clock.monotonic() + RECEIVE_SECONDS
        return await self._scheduler.turn(self._membership.number, only, self._alive)

    async def _alive(self) -> None:
        """Called during a long move: a member without heartbeat is presumed dead."""
        member = self._membership.number
        if self._membership.is_due:
            await self._keep_alive()
        if self._membership.number != member:
            raise Stale("another process moves this batch by now")

    async def _rest(self, only: Only) -> None:
        """Wait for a signal or the next alarm."""
        wait = min(LONGEST_WAIT_SECONDS, self._membership.seconds_to_beat)
        dispatcher = self._dispatcher
        if dispatcher is not None and dispatcher.full:
            await self._signal.wait(wait)
            return
        if dispatcher is not None and not dispatcher.asked_for_tasks:
            dispatcher.notify()  # the last turn did not ask for tasks
            return
        # Alarms that were due when the turn began have been handled; later ones have not.
        alarm = await self._batches.next_alarm(now=self._turned_at, only=only)
        if alarm is not None:
            wait = min(wait, max(0.0, alarm - self._clock.now()))
        if self._scheduler is not None and (dispatcher is None or dispatcher.idle):
            wait = min(wait, RECEIVE_SECONDS)
        await self._signal.wait(wait)
        if dispatcher is not None:
            dispatcher.notify()

    async def _keep_alive(self) -> None:
        if not await self._membership.beat():
            # Other members have taken over; what this one still does changes nothing.
            if self._dispatcher is not None:
                await self._dispatcher.abandon()
            if self._scheduler is not None:
                self._scheduler.forget()
            await self._membership.join()
        await self._remove_dead_members()

    async def _remove_dead_members(self) -> None:
        for member in await self._membership.list_dead():
            await self._interrupt(member.no)
            await self._membership.remove(member)

    async def _interrupt(self, member: int) -> None:
        """End the running attempts of a member as interrupted."""
        now = self._clock.now()
        claims = await self._tasks.list_running(member)
        known = {claim.order.attempt_key: claim for claim in claims}
        for batch_no, ended in interruptions.interrupt_claims(claims, self._policy, now=now).items():
            decided = [(one, known[one.report.attempt_key]) for one in ended]
            await self._settler.settle(batch_no, decided, now=now)

    async def _until_answered(self, work: Callable[[], Awaitable[T]]) -> T:
        """Repeat while the ledger is away, with growing pauses."""
        failures = 0
        while True:
            try:
                answer = await work()
            except Unavailable as error:
                if self._scheduler is not None:
                    self._scheduler.forget()
                failures += 1
                self._trouble(str(error))
                if self._stopping:
                    raise
                with suppress(Unavailable):
                    await self._signal.wait(
                        backoff_seconds(failures, first=FIRST_PAUSE_SECONDS, longest=LONGEST_PAUSE_SECONDS)
                    )
                continue
            if failures:
                self._trouble(None)
            return answer
