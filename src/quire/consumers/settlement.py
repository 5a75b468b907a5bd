"""What has ended and is not stored yet: to be acknowledged, given back or buried.

Promises: what is not answered stays and is stored again; each end is told once, as what is known of it. It
may be at work while more is leased, and must not know of leasing and handlers.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence

from quire.consumers.deliveries import (
    TOLD,
    Job,
    Told,
    lost_of,
)
from quire.consumers.rules import (
    DONE,
    GIVEN_BACK,
    Fate,
    Ruling,
)
from quire.model.clock import Clock
from quire.model.errors import Unavailable
from quire.queues.port import Queues


class Endings:
    def __init__(
        self,
        queues: Queues,
        clock: Clock,
        *,
        tell: Callable[[Told, Job, Ruling], None],
        given_back: Callable[[], None],
    ) -> None:
        """`given_back` is called after a release: the message may be due at once, or before anything else."""
        self._queues = queues
        self._clock = clock
        self._tell = tell
        self._given_back = given_back
        self._waiting: dict[Job, None] = {}
        self._asked: dict[Job, None] = {}  # being stored at this moment

    def __iter__(self) -> Iterator[Job]:
        yield from self._asked
        yield from self._waiting

    def __len__(self) -> int:
        return len(self._asked) + len(self._waiting)

    @property
    def waiting(self) -> int:
        """Those that nobody is storing yet."""
        return len(self._waiting)

    def add(self, job: Job) -> None:
        self._waiting[job] = None

    async def settle(self) -> None:
        """Store all that is there now. Raises Unavailable; then the rest is there for the next time."""
        self._asked, self._waiting = self._waiting, {}
        try:
            done = [job for job in self._asked if job.ruling is DONE]
            if done:
                leased = [job.leased for job in done]
                await self._stored(done, self._queues.acknowledge(leased, now=self._clock.now()))
            for job in list(self._asked):
                await self._stored([job], self._store(job, job.ruling or GIVEN_BACK))
        finally:
            self._waiting, self._asked = self._asked | self._waiting, {}

    async def _stored(self, jobs: Sequence[Job], storing: Awaitable[None]) -> None:
        try:
            lost = await lost_of(jobs, storing)
        except Unavailable:
            for job in jobs:
                job.unanswered = True
            raise
        for job in jobs:
            del self._asked[job]
            ruling = job.ruling or GIVEN_BACK
            event = TOLD[ruling.fate]
            if job in lost:
                # Where an earlier answer was lost, it may be our own storing that ended the lease.
                event = Told.UNCONFIRMED if job.unanswered else Told.LOST
            self._tell(event, job, ruling)

    async def _store(self, job: Job, ruling: Ruling) -> None:
        now = self._clock.now()
        if ruling.fate is Fate.BURIED:
            await self._queues.bury(job.leased, now=now, reason=ruling.error, error_class=ruling.error_class)
            return
        try:
            await self._queues.release(
                job.leased,
                now=now,
                delay_seconds=ruling.delay_seconds,
                error_class=ruling.error_class,
                error=ruling.error,
                counted=ruling.fate is not Fate.GIVEN_BACK,
            )
        finally:
            self._given_back()
