"""A message in the hands of a consumer, and what is told of it in the log."""

import asyncio
from collections.abc import Awaitable, Sequence
from enum import StrEnum

from msgspec import Struct

from quire.consumers.rules import Fate, Ruling
from quire.model.errors import Lost, Unavailable
from quire.queues.port import Leased


class Told(StrEnum):
    """The names of log events; each is one fact."""

    RECEIVED = "message_received"
    DONE = "message_done"
    RETRIED = "message_retried"
    BURIED = "message_buried"
    GIVEN_BACK = "message_given_back"
    LOST = "lease_lost"
    UNCONFIRMED = "message_unconfirmed"


class Note(Struct, frozen=True, kw_only=True):
    """One log event. `seconds` is how long the handler had it; for `message_received` how long it waited."""

    event: Told
    queue: str
    id: str
    delivery: int
    worker: str
    seconds: float
    error_class: str = ""
    error: str = ""


TOLD = {
    Fate.DONE: Told.DONE,
    Fate.AGAIN: Told.RETRIED,
    Fate.BURIED: Told.BURIED,
    Fate.GIVEN_BACK: Told.GIVEN_BACK,
}


class Job:
    """A message that we have, from its lease to the moment its end is stored."""

    def __init__(self, leased: Leased, *, ours_until: float) -> None:
        self.leased = leased
        self.ours_until = ours_until  # by the clock that leases go by
        self.task: asyncio.Future[None] | None = None
        self.ruling: Ruling | None = None
        self.began = 0.0
        self.seconds = 0.0
        self.lost = False
        self.recalled = False  # we stop, and its grace is over
        self.unanswered = False  # we asked to store its end, and no answer came

    def note(self, event: Told, *, worker: str, seconds: float, ruling: Ruling) -> Note:
        return Note(
            event=event,
            queue=self.leased.queue,
            id=self.leased.id,
            delivery=self.leased.deliveries,
            worker=worker,
            seconds=round(seconds, 6),
            error_class=ruling.error_class,
            error=ruling.error,
        )


async def lost_of(jobs: Sequence[Job], storing: Awaitable[None]) -> set[Job]:
    """Those whose lease was gone; all of them where the backend names none."""
    try:
        await storing
    except Lost as lost:
        gone = set(lost.ids)
        return {job for job in jobs if not gone or job.leased.id in gone}
    return set()


async def both(one: Awaitable[None], other: Awaitable[None]) -> None:
    """At the same time, each to its end. Raises what went wrong, rather than that a backend is away; where
    both went wrong, the first one's. Who is cancelled cancels both and waits for them.
    """
    outcomes = await asyncio.gather(one, other, return_exceptions=True)
    wrong = [outcome for outcome in outcomes if outcome is not None]
    if wrong:
        raise min(wrong, key=lambda error: isinstance(error, Unavailable))
