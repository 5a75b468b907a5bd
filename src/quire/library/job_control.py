"""What people do to jobs: try again, move, take back, give up for good.

Promises: each act looks at the job and changes it on the condition that it still is as it was seen, and looks
again when somebody was faster; what is refused says why and what to do instead. Must not know: how it is
shown.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

from msgspec import Struct

from quire.library.context import LibraryContext
from quire.library.protocol import layout, operator
from quire.library.protocol.lifecycle import Terms
from quire.library.protocol.operator import (
    Act,
    Acted,
    Seat,
    Standing,
)
from quire.library.protocol.requests import Asking
from quire.library.survey import LOGS
from quire.model.errors import QuireError, Retry

BY_HAND = "operator"
AT_ONCE = 16
_ATTEMPTS = 5


class Outcome(Struct, frozen=True, kw_only=True):
    """`changed` is false when it was so already, or with `refused`, which says why."""

    job: str
    was: Standing
    tier: str = ""  # in which it waits then
    changed: bool = False
    refused: str = ""


async def retry(
    room: LibraryContext, job: str, *, tier: str | None = None, reset: bool = False, dry_run: bool = False
) -> Outcome:
    """From failed, dead, or where it was never queued."""
    if dry_run:
        seat = await room.perform(operator.look(job))
        allowed = seat.standing in {Standing.DEAD, Standing.FAILED, Standing.RAW}
        acted = Acted(Act.DONE if allowed else Act.REFUSED, seat)
    else:
        acted = await _acted(room, lambda terms: operator.again(job, terms, tier=tier, reset=reset))
    return _outcome(job, acted, tier, _NO_RETRY)


async def reprioritize(room: LibraryContext, job: str, tier: str) -> Outcome:
    acted = await _acted(room, lambda terms: operator.moved(job, terms, tier=tier))
    return _outcome(job, acted, tier, _NO_MOVE)


async def cancel(
    room: LibraryContext, job: str, *, tier: str | None = None, dry_run: bool = False
) -> Outcome:
    """Take it from its worker, which stops when it notices; it waits again, uncounted."""
    if dry_run:
        seat = await room.perform(operator.look(job))
        acted = Acted(Act.DONE if seat.standing is Standing.PROCESSING else Act.REFUSED, seat)
    else:
        acted = await _acted(room, lambda terms: operator.taken(job, terms, tier=tier))
    return _outcome(job, acted, tier, _NO_CANCEL)


async def retry_all(
    room: LibraryContext,
    jobs: Iterable[str],
    *,
    tier: str | None = None,
    reset: bool = False,
    dry_run: bool = False,
) -> AsyncIterator[Outcome]:
    """One after the other is told as it is done; one that cannot be is told with the reason."""

    async def one(job: str) -> Outcome:
        try:
            return await retry(room, job, tier=tier, reset=reset, dry_run=dry_run)
        except QuireError as error:
            return Outcome(job=job, was=Standing.UNKNOWN, refused=str(error))

    async for outcome in _few_at_once(jobs, one):
        yield outcome


async def clear_dead(
    room: LibraryContext, jobs: Iterable[str], *, dry_run: bool = False
) -> AsyncIterator[Outcome]:
    """Forget that they were given up. Their sources stay, so that they can be queued again."""

    async def one(job: str) -> Outcome:
        seat = await room.perform(operator.look(job))
        if seat.standing is not Standing.DEAD:
            return Outcome(job=job, was=seat.standing, refused=f"{job} is not dead any more; left alone.")
        if not dry_run:
            # The state last: while it is there, a marker that is gone too early is put back by the janitor.
            await room.objects.delete([*layout.todos(job), layout.failed(job), layout.dead(job)])
            await room.objects.delete([layout.state(job)])
        return Outcome(job=job, was=seat.standing, changed=True)

    async for outcome in _few_at_once(jobs, one):
        yield outcome


async def remove(room: LibraryContext, job: str, *, force: bool = False, dry_run: bool = False) -> Outcome:
    """Take a document out: its source, its place in the queue and its logs. Its result, if it has one, stays.
    The index is another's business.
    """
    seat = await room.perform(operator.look(job))
    if seat.standing is Standing.UNKNOWN:
        return Outcome(job=job, was=seat.standing, refused=_NO_RETRY[Standing.UNKNOWN])
    if seat.standing is Standing.PROCESSING and not force:
        words = "it is being worked on; cancel it first, or give --force"
        return Outcome(job=job, was=seat.standing, refused=words)
    if not dry_run:
        logs = [seen.key async for page in room.objects.pages(f"{LOGS}/{job}") for seen in page]
        await room.objects.delete(list(layout.todos(job)))  # first: nobody is to claim it any more
        await room.objects.delete([layout.raw(job), layout.failed(job), layout.dead(job), *logs])
        await room.objects.delete([layout.state(job), layout.processing(job)])
    return Outcome(job=job, was=seat.standing, changed=True)


_NO_RETRY = {
    Standing.DONE: "it is done; `download` gets its result",
    Standing.QUEUED: "it is queued already; `reprioritize` moves it",
    Standing.PROCESSING: "it is being worked on; `cancel` takes it from its worker",
    Standing.UNKNOWN: "nothing is known of it; `ingest` its file",
}
_NO_MOVE = {
    Standing.DONE: "it is done",
    Standing.DEAD: "it was given up; `retry --priority` queues it again",
    Standing.FAILED: "it failed and waits for the janitor; `retry --priority` queues it at once",
    Standing.PROCESSING: "it is being worked on; `cancel --priority` takes it from its worker",
    Standing.RAW: "it is not queued; `retry --priority` queues it",
    Standing.UNKNOWN: "nothing is known of it; `ingest` its file",
}
_NO_CANCEL = {
    Standing.DONE: "it is done",
    Standing.DEAD: "it was given up; nobody works on it",
    Standing.FAILED: "it failed and waits for the janitor; nobody works on it",
    Standing.QUEUED: "it waits; nobody works on it",
    Standing.RAW: "it is not queued; nobody works on it",
    Standing.UNKNOWN: "nothing is known of it",
}


async def _acted(room: LibraryContext, asking: Callable[[Terms], Asking[Acted]]) -> Acted:
    for _ in range(_ATTEMPTS):
        acted = await room.perform(asking(room.terms(BY_HAND)))
        if acted.act is not Act.STALE:
            return acted
    raise Retry("Others change this job all the time; nothing was done. Try again.")


def _outcome(job: str, acted: Acted, tier: str | None, reasons: dict[Standing, str]) -> Outcome:
    refused = ""
    if acted.act is Act.REFUSED:
        refused = reasons.get(acted.seat.standing, f"it is {acted.seat.standing.value}")
    return Outcome(
        job=job,
        was=acted.seat.standing,
        tier=tier or _tier(acted.seat),
        changed=acted.act is Act.DONE,
        refused=refused,
    )


def _tier(seat: Seat) -> str:
    if seat.job is not None:
        return seat.job.priority
    return "" if seat.lock is None else seat.lock.priority


async def _few_at_once(
    jobs: Iterable[str], act: Callable[[str], Awaitable[Outcome]]
) -> AsyncIterator[Outcome]:
    some = list(jobs)
    for at in range(0, len(some), AT_ONCE):
        for outcome in await asyncio.gather(*map(act, some[at : at + AT_ONCE])):
            yield outcome
