"""What people do to jobs: try again, move, take back, give up for good.

Promises: each act looks at the job and changes it on the condition that it still is as it was seen, and looks
again when somebody was faster; what is refused says why and what to do instead. Must not know: how it is
shown.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

from msgspec import Struct

from quire.library.context import LibraryContext
from quire.library.listing import LOGS
from quire.library.protocol import layout, operator
from quire.library.protocol.lifecycle import JobActor
from quire.library.protocol.operator import (
    ActionResult,
    ActionTaken,
    JobStatus,
    JobView,
)
from quire.library.protocol.requests import Operation
from quire.model.errors import QuireError, Retry

BY_HAND = "operator"
AT_ONCE = 16
_ATTEMPTS = 5


class JobChange(Struct, frozen=True, kw_only=True):
    """`changed` is false when it was so already, or with `refused`, which says why."""

    job: str
    was: JobStatus
    tier: str = ""  # in which it waits then
    changed: bool = False
    refused: str = ""


async def retry(
    room: LibraryContext, job: str, *, tier: str | None = None, reset: bool = False, dry_run: bool = False
) -> JobChange:
    """From failed, dead, or where it was never queued."""
    if dry_run:
        seat = await room.perform(operator.inspect_job(job))
        allowed = seat.standing in {JobStatus.DEAD, JobStatus.FAILED, JobStatus.RAW}
        acted = ActionTaken(ActionResult.DONE if allowed else ActionResult.REFUSED, seat)
    else:
        acted = await _act(room, lambda terms: operator.retry(job, terms, tier=tier, reset=reset))
    return _build_change(job, acted, tier, _NO_RETRY)


async def reprioritize(room: LibraryContext, job: str, tier: str) -> JobChange:
    acted = await _act(room, lambda terms: operator.reprioritize(job, terms, tier=tier))
    return _build_change(job, acted, tier, _NO_MOVE)


async def cancel(
    room: LibraryContext, job: str, *, tier: str | None = None, dry_run: bool = False
) -> JobChange:
    """Take it from its worker, which stops when it notices; it waits again, uncounted."""
    if dry_run:
        seat = await room.perform(operator.inspect_job(job))
        acted = ActionTaken(ActionResult.DONE if seat.standing is JobStatus.PROCESSING else ActionResult.REFUSED, seat)
    else:
        acted = await _act(room, lambda terms: operator.cancel(job, terms, tier=tier))
    return _build_change(job, acted, tier, _NO_CANCEL)


async def retry_all(
    room: LibraryContext,
    jobs: Iterable[str],
    *,
    tier: str | None = None,
    reset: bool = False,
    dry_run: bool = False,
) -> AsyncIterator[JobChange]:
    """One after the other is told as it is done; one that cannot be is told with the reason."""

    async def one(job: str) -> JobChange:
        try:
            return await retry(room, job, tier=tier, reset=reset, dry_run=dry_run)
        except QuireError as error:
            return JobChange(job=job, was=JobStatus.UNKNOWN, refused=str(error))

    async for outcome in _act_on_all(jobs, one):
        yield outcome


async def clear_dead(
    room: LibraryContext, jobs: Iterable[str], *, dry_run: bool = False
) -> AsyncIterator[JobChange]:
    """Forget that they were given up. Their sources stay, so that they can be queued again."""

    async def one(job: str) -> JobChange:
        seat = await room.perform(operator.inspect_job(job))
        if seat.standing is not JobStatus.DEAD:
            return JobChange(job=job, was=seat.standing, refused=f"{job} is not dead any more; left alone.")
        if not dry_run:
            # The state last: while it is there, a marker that is gone too early is put back by the janitor.
            await room.objects.delete([*layout.todos(job), layout.failed(job), layout.dead(job)])
            await room.objects.delete([layout.state(job)])
        return JobChange(job=job, was=seat.standing, changed=True)

    async for outcome in _act_on_all(jobs, one):
        yield outcome


async def remove(room: LibraryContext, job: str, *, force: bool = False, dry_run: bool = False) -> JobChange:
    """Take a document out: its source, its place in the queue and its logs. Its result, if it has one, stays.
    The index is another's business.
    """
    seat = await room.perform(operator.inspect_job(job))
    if seat.standing is JobStatus.UNKNOWN:
        return JobChange(job=job, was=seat.standing, refused=_NO_RETRY[JobStatus.UNKNOWN])
    if seat.standing is JobStatus.PROCESSING and not force:
        words = "it is being worked on; cancel it first, or give --force"
        return JobChange(job=job, was=seat.standing, refused=words)
    if not dry_run:
        logs = [seen.key async for page in room.objects.pages(f"{LOGS}/{job}") for seen in page]
        await room.objects.delete(list(layout.todos(job)))  # first: nobody is to claim it any more
        await room.objects.delete([layout.raw(job), layout.failed(job), layout.dead(job), *logs])
        await room.objects.delete([layout.state(job), layout.processing(job)])
    return JobChange(job=job, was=seat.standing, changed=True)


_NO_RETRY = {
    JobStatus.DONE: "it is done; `download` gets its result",
    JobStatus.QUEUED: "it is queued already; `reprioritize` moves it",
    JobStatus.PROCESSING: "it is being worked on; `cancel` takes it from its worker",
    JobStatus.UNKNOWN: "nothing is known of it; `ingest` its file",
}
_NO_MOVE = {
    JobStatus.DONE: "it is done",
    JobStatus.DEAD: "it was given up; `retry --priority` queues it again",
    JobStatus.FAILED: "it failed and waits for the janitor; `retry --priority` queues it at once",
    JobStatus.PROCESSING: "it is being worked on; `cancel --priority` takes it from its worker",
    JobStatus.RAW: "it is not queued; `retry --priority` queues it",
    JobStatus.UNKNOWN: "nothing is known of it; `ingest` its file",
}
_NO_CANCEL = {
    JobStatus.DONE: "it is done",
    JobStatus.DEAD: "it was given up; nobody works on it",
    JobStatus.FAILED: "it failed and waits for the janitor; nobody works on it",
    JobStatus.QUEUED: "it waits; nobody works on it",
    JobStatus.RAW: "it is not queued; nobody works on it",
    JobStatus.UNKNOWN: "nothing is known of it",
}


async def _act(room: LibraryContext, asking: Callable[[JobActor], Operation[ActionTaken]]) -> ActionTaken:
    for _ in range(_ATTEMPTS):
        acted = await room.perform(asking(room.terms(BY_HAND)))
        if acted.act is not ActionResult.STALE:
            return acted
    raise Retry("Others change this job all the time; nothing was done. Try again.")


def _build_change(job: str, acted: ActionTaken, tier: str | None, reasons: dict[JobStatus, str]) -> JobChange:
    refused = ""
    if acted.act is ActionResult.REFUSED:
        refused = reasons.get(acted.seat.standing, f"it is {acted.seat.standing.value}")
    return JobChange(
        job=job,
        was=acted.seat.standing,
        tier=tier or _tier(acted.seat),
        changed=acted.act is ActionResult.DONE,
        refused=refused,
    )


def _tier(seat: JobView) -> str:
    if seat.job is not None:
        return seat.job.priority
    return "" if seat.lock is None else seat.lock.priority


async def _act_on_all(
    jobs: Iterable[str], act: Callable[[str], Awaitable[JobChange]]
) -> AsyncIterator[JobChange]:
    some = list(jobs)
    for at in range(0, len(some), AT_ONCE):
        for outcome in await asyncio.gather(*map(act, some[at : at + AT_ONCE])):
            yield outcome
