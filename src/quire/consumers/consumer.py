"""Takes messages of one queue and hands each to a handler.

Promises: at most `concurrency` handlers at once, a bounded number of messages leased ahead; the leases of all
that it has are extended, from outside the handlers; a handler whose lease is lost is cancelled; a message
that cannot be worked on is buried with the reason and the consumer lives; a backend that is away is waited
for. When it stops, what runs is finished within the grace and the rest is given back uncounted.

Handlers must not block the event loop: whoever computes does so in a process or thread of its own.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Generic, TypeVar

from quire.consumers.deliveries import (
    Job,
    Note,
    Told,
    both,
    lost_of,
)
from quire.consumers.rules import (
    DONE,
    GIVEN_BACK,
    Ruling,
    overdue,
    ruled,
)
from quire.consumers.settlement import Endings
from quire.model.clock import Clock
from quire.model.errors import Reject, Retry, Unavailable
from quire.model.ids import Ids
from quire.model.queues import QueuePolicy
from quire.model.signal import Signal
from quire.queues.port import Leased, Queues

# What wakes us is the backend; this is the net under it, also for messages that are sent with a delay.
LONGEST_WAIT_SECONDS = 2.0
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
GRACE_SECONDS = 10.0
# How long a cancelled handler may take to let go; then its lease runs out by itself.
CANCEL_SECONDS = 5.0

T = TypeVar("T")
Handler = Callable[[T, Leased], Awaitable[None]]
Trouble = Callable[[str | None], None]  # told once when the backend is away, and with None when it is back


class Consumer(Generic[T]):
    def __init__(
        self,
        queues: Queues,
        policy: QueuePolicy,
        handler: Handler[T],
        *,
        decode: Callable[[bytes], T],
        clock: Clock,
        ids: Ids,
        signal: Signal,
        worker: str = "",
        note: Callable[[Note], None] | None = None,
        trouble: Trouble = lambda _: None,
        at_once: Callable[[], int] | None = None,
    ) -> None:
        """`at_once` says how many handlers there may be just now, where that is not the policy's number."""
        self._queues = queues
        self._policy = policy
        self._handler = handler
        self._decode = decode
        self._clock = clock
        self._ids = ids
        self._signal = signal
        self._worker = worker
        self._note = note
        self._trouble = trouble
        self._at_once = at_once or (lambda: policy.concurrency)
        self._ready: deque[Job] = deque()
        self._running: set[Job] = set()
        self._ended = Endings(queues, clock, tell=self._tell_end, given_back=self._look_again)
        self._opened = 0  # how many of the ready ones may be begun: their batch has come together
        self._gather_until = 0.0
        self._extend_at = 0.0
        self._look = True  # there may be something to lease
        self._alarm: float | None = None
        self._alarm_is_ours = False  # perhaps: we had leases when it was asked for
        self._watch: asyncio.Task[None] | None = None
        self._away = False
        self._nudged = False
        self._stopping = False

    def stop(self) -> None:
        """Lease nothing more; `run` returns when what is running has ended or its grace is over."""
        self._stopping = True
        self._signal.set()

    def _nudge(self) -> None:
        # Once is enough until we have looked: a signal crosses threads, which is dear for each message.
        if not self._nudged:
            self._nudged = True
            self._signal.set()

    async def _nudged_within(self, seconds: float) -> bool:
        nudged = await self._signal.wait(max(0.0, seconds))
        self._nudged = False
        return nudged

    async def run(self, *, grace_seconds: float = GRACE_SECONDS, until_empty: bool = False) -> None:
        """Until `stop` is called; with `until_empty` also when nothing is left, not even delayed."""
        self._extend_at = self._clock.monotonic() + self._policy.lease_seconds / 3
        try:
            while not self._stopping:
                await self._until_answered(self._turn)
                if self._pressing:
                    continue
                if until_empty and not self._holding and not self._look:
                    if self._alarm is None:
                        break
                    if self._alarm_is_ours:
                        self._look_again()
                        continue
                await self._rest()
            await self._wind_down(grace_seconds)
        finally:
            await self._abandon()

    async def _turn(self) -> None:
        await self._keep()
        if not self._ended:
            await self._fetch()
        else:
            # At the same time: they take as long as each other, and neither needs the other's answer.
            await both(self._ended.settle(), self._fetch())
        self._hand_out()

    @property
    def _room(self) -> int:
        # Nothing is leased ahead of work that comes one by one: it may be long, and others may be free.
        most = self._at_once() + self._policy.max_batch_size - 1
        # What is just being stored makes room, but not again and again while it cannot be stored.
        ended = len(self._ended) if self._away else self._ended.waiting
        return most - len(self._ready) - len(self._running) - ended

    @property
    def _pressing(self) -> bool:
        return not self._stopping and (bool(self._ended) or (self._look and self._wants_more))

    @property
    def _wants_more(self) -> bool:
        """Not for each single place that becomes free: one lease for many is far cheaper."""
        room = self._room
        return room > 0 and (not self._ready or 2 * room >= self._policy.max_batch_size)

    @property
    def _holding(self) -> bool:
        return bool(self._ready or self._running or self._ended)

    def _look_again(self) -> None:
        self._look = True

    async def _fetch(self) -> None:
        if self._watch is not None and self._watch.done():
            watch, self._watch = self._watch, None
            self._look = True
            with suppress(Unavailable):  # whoever asks next is told
                watch.result()
        if self._alarm is not None and self._clock.now() >= self._alarm:
            self._alarm, self._look = None, True
        if not (self._look and self._wants_more):
            return
        # Taken down before we look: who puts it up while we do asks for another look.
        self._look = False
        try:
            more = await self._lease()
        except BaseException:
            self._look = True
            raise
        self._look |= more

    async def _lease(self) -> bool:
        """Whether there may be more."""
        room, now = self._room, self._clock.now()
        leased = await self._queues.lease(
            self._policy.name, limit=room, seconds=self._policy.lease_seconds, now=now, worker=self._worker
        )
        for one in leased:
            self._receive(one, now)
        if self._ready:
            self._hand_out()
            await asyncio.sleep(0)  # let them begin before we ask for anything else
        if len(leased) >= room:
            return True
        if self._watch is None:
            # Nothing more just now. What came before we watched would wake nobody: watch, then look again.
            waiting = self._queues.wait([self._policy.name], seconds=LONGEST_WAIT_SECONDS)
            self._watch = asyncio.ensure_future(waiting)
            self._watch.add_done_callback(lambda _: self._nudge())
            await asyncio.sleep(0)  # let it begin
            return True
        self._alarm_is_ours = self._holding
        self._alarm = await self._queues.next_due(self._policy.name, now=self._clock.now())
        return False

    def _receive(self, leased: Leased, now: float) -> None:
        job = Job(leased, ours_until=now + self._policy.lease_seconds)
        self._tell(Told.RECEIVED, job, seconds=max(0.0, now - leased.sent_at))
        job.ruling = overdue(leased.deliveries, self._policy)
        if job.ruling is not None:
            self._ended.add(job)
            return
        if not self._ready:
            self._opened = 0
            self._gather_until = self._clock.monotonic() + self._policy.max_batch_timeout_seconds
        self._ready.append(job)

    def _hand_out(self) -> None:
        while self._ready and len(self._running) < self._at_once() and not self._stopping:
            if not self._opened:
                whole = len(self._ready) >= self._policy.max_batch_size
                if not whole and self._clock.monotonic() < self._gather_until:
                    return
                self._opened = min(len(self._ready), self._policy.max_batch_size)
            self._opened -= 1
            job = self._ready.popleft()
            if self._clock.now() >= job.ours_until:
                self._drop(job)  # the backend was away too long to keep it: somebody else may have it
                continue
            job.began = self._clock.monotonic()
            job.task = asyncio.ensure_future(self._work(job))
            self._running.add(job)

    async def _work(self, job: Job) -> None:
        ruling: Ruling | None = None
        try:
            await self._handler(self._decoded(job.leased.body), job.leased)
            ruling = DONE
        except asyncio.CancelledError:
            # Where it is not ours, something inside the handler was cancelled.
            cancelled = Retry("the handler was cancelled", code="cancelled")
            ruling = GIVEN_BACK if job.recalled else self._ruled(cancelled, job)
        except Exception as error:  # noqa: BLE001 a handler may raise anything, and the consumer lives
            ruling = self._ruled(error, job)
        finally:
            job.ruling = ruling or GIVEN_BACK
            job.seconds = self._clock.monotonic() - job.began
            self._finished(job)

    def _finished(self, job: Job) -> None:
        self._running.discard(job)
        if not job.lost:
            self._ended.add(job)
            self._hand_out()  # while the loop is busy storing what has ended
        self._nudge()

    def _ruled(self, error: Exception, job: Job) -> Ruling:
        return ruled(error, job.leased.deliveries, self._policy, self._ids.fraction())

    def _decoded(self, body: bytes) -> T:
        try:
            return self._decode(body)
        except Reject:
            raise
        except Exception as error:
            raise Reject(f"the message cannot be read: {error}", code="bad_message") from error

    async def _keep(self) -> None:
        """Every third of a lease: two extensions may fail before one is lost."""
        if self._clock.monotonic() < self._extend_at:
            return
        jobs, now, seconds = (
            [*self._ready, *self._running, *self._ended],
            self._clock.now(),
            self._policy.lease_seconds,
        )
        if jobs:
            lost = await lost_of(
                jobs, self._queues.extend([job.leased for job in jobs], seconds=seconds, now=now)
            )
            for job in jobs:
                if job in lost:
                    self._drop(job)
                else:
                    job.ours_until = now + seconds
        self._extend_at = self._clock.monotonic() + self._policy.lease_seconds / 3

    def _drop(self, job: Job) -> None:
        """Somebody else has it, or will."""
        if job.ruling is not None:
            return  # storing its end tells whether that still counts
        job.lost = True
        if job in self._ready:
            self._ready.remove(job)
        if job.task is not None:
            job.task.cancel()
        self._tell(Told.LOST, job, seconds=self._clock.monotonic() - job.began if job.began else 0.0)

    async def _rest(self) -> None:
        now = self._clock.monotonic()
        until = [LONGEST_WAIT_SECONDS, self._extend_at - now]
        if self._ready and not self._opened:
            until.append(self._gather_until - now)
        if self._alarm is not None:
            until.append(self._alarm - self._clock.now())
        if not await self._nudged_within(min(until)):
            self._look = True  # the net: something may have been sent with a delay

    @property
    def _longest_pause(self) -> float:
        # An outage that is shorter than a lease costs no lease: there is time left to extend them.
        return min(LONGEST_PAUSE_SECONDS, self._policy.lease_seconds / 3)

    async def _until_answered(self, work: Callable[[], Awaitable[None]]) -> None:
        pause = min(FIRST_PAUSE_SECONDS, self._longest_pause)
        while True:
            try:
                await work()
            except Unavailable as error:
                self._say(str(error))
                if self._stopping:
                    return
                await self._pause(pause * (0.5 + self._ids.fraction() / 2))
                pause = min(2 * pause, self._longest_pause)
                continue
            self._say(None)
            return

    async def _pause(self, seconds: float) -> None:
        """The whole of it, whatever ends meanwhile, or until we stop."""
        until = self._clock.monotonic() + seconds
        while not self._stopping and (left := until - self._clock.monotonic()) > 0:
            await self._nudged_within(left)

    def _say(self, trouble: str | None) -> None:
        if (trouble is not None) != self._away:
            self._away = trouble is not None
            self._trouble(trouble)

    async def _wind_down(self, grace_seconds: float) -> None:
        while self._ready:
            job = self._ready.popleft()
            job.ruling = GIVEN_BACK
            self._ended.add(job)
        until, recalled = self._clock.monotonic() + grace_seconds, False
        while self._running or self._ended:
            away = not await self._stored()
            left = until - self._clock.monotonic()
            if left <= 0 and (recalled or not self._running):
                return
            if left <= 0:
                recalled, until = True, self._clock.monotonic() + CANCEL_SECONDS
                self._recall()
            elif self._running or away:
                beat = FIRST_PAUSE_SECONDS if away else self._extend_at - self._clock.monotonic()
                await self._nudged_within(min(left, beat))

    async def _stored(self) -> bool:
        try:
            await self._ended.settle()
            await self._keep()
        except Unavailable as error:
            self._say(str(error))
            return False
        return True

    def _recall(self) -> None:
        for job in self._running:
            job.recalled = True
            if job.task is not None:
                job.task.cancel()

    async def _abandon(self) -> None:
        """At the very end nothing of ours goes on; leases that are still out run out by themselves."""
        self._stopping = True
        tasks = [job.task for job in self._running if job.task is not None]
        tasks += [] if self._watch is None else [self._watch]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CANCEL_SECONDS)
        self._watch = None

    def _tell_end(self, event: Told, job: Job, ruling: Ruling) -> None:
        self._tell(event, job, seconds=job.seconds, ruling=ruling)

    def _tell(self, event: Told, job: Job, *, seconds: float, ruling: Ruling = DONE) -> None:
        if self._note is not None:
            self._note(job.note(event, worker=self._worker, seconds=seconds, ruling=ruling))
