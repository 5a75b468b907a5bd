"""The wheel that turns conductor and foreman: one loop that works while there is work and sleeps otherwise.

It is woken by a signal (a report, a message, a change made elsewhere); the timeout of a sleep is the next
alarm. When the ledger cannot be reached it waits and goes on by itself.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from quire.engine import interruptions
from quire.engine.dispatcher import Dispatcher
from quire.engine.membership import Membership
from quire.engine.retry import RetryPolicy
from quire.engine.scheduler import Scheduler
from quire.ledger.port import BatchStore, Only, TaskStore
from quire.model.batch import Batch, Hold, Stage
from quire.model.clock import Clock
from quire.model.errors import Stale, Unavailable
from quire.model.signal import Signal

# Without an alarm there is always something that wakes us; this is the net under it.
LONGEST_WAIT_SECONDS = 5.0
RECEIVE_SECONDS = 1.0
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0

T = TypeVar("T")
_POLICY = RetryPolicy()
Observer = Callable[[Batch], Awaitable[None]]
Trouble = Callable[[str | None], None]  # told when the ledger is away, and with None when it is back


class EngineLoop:
    def __init__(
        self,
        *,
        batches: BatchStore,
        tasks: TaskStore,
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
        self._fallen = False

    def stop(self) -> None:
        """Claim nothing more; the loops return."""
        self._stopping = True
        self._signal.set()

    def wake(self) -> None:
        """Something has changed outside."""
        if self._dispatcher is not None:
            self._dispatcher.look_again()
        if self._scheduler is not None:
            self._scheduler.look_again()
        self._receive_at = 0.0
        self._signal.set()

    async def conduct(self, batch_id: str, observe: Observer) -> Batch:
        """One batch, until it has ended, or is held for its budget, or `stop` was called."""
        batch = await self._until_answered(lambda: self._batches.get_batch(batch_id))
        await self._until_answered(self._begin)
        self._receive_at = 0.0  # its message may have been sent a moment ago
        only = [batch.no]
        while not self._stopping and not self._over(batch):
            if await self._until_answered(lambda: self._turn_or_rest(only)):
                batch = await self._until_answered(lambda: self._batches.get_batch(batch_id))
            await observe(batch)
        return batch

    async def serve(self, enough: Callable[[], Awaitable[bool]] | None = None) -> None:
        """All batches, until `stop` is called, or until there is nothing to do and `enough` says so."""
        await self._until_answered(self._begin)
        while not self._stopping:
            await self._until_answered(lambda: self._turn_or_rest(None))
            if self._rested and enough is not None and await self._until_answered(enough):
                return

    async def wind_down(self, grace_seconds: float) -> None:
        """Finish what is running within the grace, give the rest back, and leave the crew."""
        if self._dispatcher is not None:
            await self._dispatcher.wind_down(grace_seconds)
        if self._membership.me:
            await self._membership.quit()

    async def fall(self) -> None:
        """After a fault that nobody foresaw: give everything up, as one that has died. Whoever turns the
        wheel again joins anew, and before that does what could not be done here. May be repeated.
        """
        self._fallen = True
        if self._dispatcher is not None:
            await self._dispatcher.abandon()
        if self._scheduler is not None:
            self._scheduler.forget()
        await self._leave_as_dead()

    async def _leave_as_dead(self) -> None:
        # Nobody else may take us for dead: the process lives, and holds its lock.
        if self._membership.me:
            await self._interrupt(self._membership.me)
            await self._membership.quit()
            self._membership.me = 0
        self._fallen = False

    async def _begin(self) -> None:
        if self._fallen:
            await self.fall()
        if not self._membership.me:
            await self._membership.join()
        await self._bury_the_dead()

    def _over(self, batch: Batch) -> bool:
        held = batch.hold is Hold.BUDGET and batch.position.stage is Stage.WORKING
        spent = held and (self._dispatcher is None or self._dispatcher.idle)
        return batch.ended or spent

    async def _turn_or_rest(self, only: Only) -> bool:
        """False when the tasks of a phase went on and nothing else can have changed."""
        self._rested = False
        self._turned_at = self._clock.now()
        if self._membership.due:
            await self._keep_alive()
        worked = False
        if self._dispatcher is not None:
            worked = await self._dispatcher.turn(self._membership.me, only)
            if worked and not self._dispatcher.phase_ended and not self._scheduler_due:
                return False
        if await self._move(only):
            if self._dispatcher is not None:
                self._dispatcher.look_again()
        elif not worked:
            self._rested = True
            await self._rest(only)
        return True

    @property
    def _scheduler_due(self) -> bool:
        if self._scheduler is None:
            return False
        return self._scheduler.busy or self._clock.monotonic() >= self._receive_at

    async def _move(self, only: Only) -> bool:
        if self._scheduler is None:
            return False
        if self._dispatcher is not None and self._dispatcher.phase_ended:
            self._scheduler.look_again()
        if self._clock.monotonic() >= self._receive_at:
            if await self._scheduler.receive():
                self._scheduler.look_again()
            self._receive_at = self._clock.monotonic() + RECEIVE_SECONDS
        return await self._scheduler.turn(self._membership.me, only, self._alive)

    async def _alive(self) -> None:
        """Amid a long move: who does not beat is taken for dead."""
        member = self._membership.me
        if self._membership.due:
            await self._keep_alive()
        if self._membership.me != member:
            raise Stale("somebody else moves this batch by now")

    async def _rest(self, only: Only) -> None:
        """Nothing to do just now: wait for a signal or the alarm."""
        wait = min(LONGEST_WAIT_SECONDS, self._membership.seconds_to_beat)
        dispatcher = self._dispatcher
        if dispatcher is not None and dispatcher.full:
            await self._signal.wait(wait)
            return
        if dispatcher is not None and not dispatcher.asked:
            dispatcher.look_again()  # there may be work that it did not ask for this time
            return
        # What was due when the turn began has been looked at; what fell due since then has not.
        alarm = await self._batches.next_alarm(now=self._turned_at, only=only)
        if alarm is not None:
            wait = min(wait, max(0.0, alarm - self._clock.now()))
        if self._scheduler is not None and (dispatcher is None or dispatcher.idle):
            wait = min(wait, RECEIVE_SECONDS)
        await self._signal.wait(wait)
        if dispatcher is not None:
            dispatcher.look_again()

    async def _keep_alive(self) -> None:
        if not await self._membership.beat():
            # Others have taken over what was ours; what we still do changes nothing.
            if self._dispatcher is not None:
                await self._dispatcher.abandon()
            if self._scheduler is not None:
                self._scheduler.forget()
            await self._membership.join()
        await self._bury_the_dead()

    async def _bury_the_dead(self) -> None:
        for member in await self._membership.dead():
            await self._interrupt(member.no)
            await self._membership.bury(member)

    async def _interrupt(self, member: int) -> None:
        """What a member was on ends as interrupted."""
        now = self._clock.now()
        claims = await self._tasks.list_running(member)
        for batch_no, ended in interruptions.settlements(claims, self._policy, now=now).items():
            await self._tasks.settle_reports(batch_no, ended, now=now)

    async def _until_answered(self, work: Callable[[], Awaitable[T]]) -> T:
        """Again and again while the ledger is away, later each time."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                answer = await work()
            except Unavailable as error:
                if self._scheduler is not None:
                    self._scheduler.forget()
                self._trouble(str(error))
                if self._stopping:
                    raise
                with suppress(Unavailable):
                    await self._signal.wait(pause)
                pause = min(LONGEST_PAUSE_SECONDS, 2 * pause)
                continue
            if pause > FIRST_PAUSE_SECONDS:
                self._trouble(None)
            return answer
