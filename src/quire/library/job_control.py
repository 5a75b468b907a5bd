"""What operators do to jobs: retry, reprioritize, cancel, clear dead jobs, remove documents.

Promises: each action changes a job only if it is still as it was inspected, and inspects it again
otherwise; a refusal says why and what to do instead. Must not know: how it is shown.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

from msgspec import Struct

from quire.library.context import LibraryContext
from quire.library.protocol import layout, lifecycle, operator
from quire.library.protocol.lifecycle import JobActor
from quire.library.protocol.operator import ActionResult, ActionTaken, JobStatus
from quire.library.protocol.requests import Operation
from quire.model.errors import QuireError, Retry

BY_HAND = "operator"
AT_ONCE = 16
_ATTEMPTS = 5


class JobChange(Struct, frozen=True, kw_only=True):
    """`changed` is false when there was nothing to change, or with `refused`, which says why."""

    job: str
    was: JobStatus
    tier: str = ""  # the priority in which the job waits afterwards
    changed: bool = False
    refused: str = ""


async def retry(
    context: LibraryContext, job: str, *, tier: str | None = None, reset: bool = False, dry_run: bool = False
) -> JobChange:
    """Queue a job again that failed, is dead, or was never queued."""
    if dry_run:
        view = await context.perform(operator.inspect_job(job))
        allowed = view.status in {JobStatus.DEAD, JobStatus.FAILED, JobStatus.RAW}
        action = ActionTaken(ActionResult.DONE if allowed else ActionResult.REFUSED, view)
    else:
        action = await _act(context, lambda actor: operator.retry(job, actor, tier=tier, reset=reset))
    return _build_change(job, action, tier, _NO_RETRY)


async def reprioritize(context: LibraryContext, job: str, tier: str) -> JobChange:
    action = await _act(context, lambda actor: operator.reprioritize(job, actor, tier=tier))
    return _build_change(job, action, tier, _NO_MOVE)


async def cancel(
    context: LibraryContext, job: str, *, tier: str | None = None, dry_run: bool = False
) -> JobChange:
    """Take a job from its worker, which stops at its next heartbeat; the job waits again and the attempt does
    not count.
    """
    if dry_run:
        view = await context.perform(operator.inspect_job(job))
        action = ActionTaken(
            ActionResult.DONE if view.status is JobStatus.PROCESSING else ActionResult.REFUSED, view
        )
    else:
        action = await _act(context, lambda actor: operator.cancel(job, actor, tier=tier))
    return _build_change(job, action, tier, _NO_CANCEL)


async def retry_all(
    context: LibraryContext,
    jobs: Iterable[str],
    *,
    tier: str | None = None,
    reset: bool = False,
    dry_run: bool = False,
) -> AsyncIterator[JobChange]:
    """Retry each job; a job that cannot be retried is yielded with the reason."""

    async def one(job: str) -> JobChange:
        try:
            return await retry(context, job, tier=tier, reset=reset, dry_run=dry_run)
        except QuireError as error:
            return JobChange(job=job, was=JobStatus.UNKNOWN, refused=str(error))

    async for outcome in _act_on_all(jobs, one):
        yield outcome


async def clear_dead(
    context: LibraryContext, jobs: Iterable[str], *, dry_run: bool = False
) -> AsyncIterator[JobChange]:
    """Forget dead jobs. Their sources stay, so that they can be queued again."""

    async def one(job: str) -> JobChange:
        view = await context.perform(operator.inspect_job(job))
        if view.status is JobStatus.DONE and not dry_run:  # a slow janitor buried it after that
            await context.perform(lifecycle.clear_markers(job))
        if view.status not in {JobStatus.DEAD, JobStatus.DONE}:
            return JobChange(job=job, was=view.status, refused=f"{job} is no longer dead; left alone.")
        if view.status is JobStatus.DEAD and not dry_run:
            # The state last: while it exists, the janitor puts a missing marker back.
            await context.objects.delete([*layout.todos(job), layout.failed(job), layout.dead(job)])
            await context.objects.delete([layout.state(job)])
        return JobChange(job=job, was=view.status, changed=True)

    async for outcome in _act_on_all(jobs, one):
        yield outcome


async def remove(
    context: LibraryContext, job: str, *, force: bool = False, dry_run: bool = False
) -> JobChange:
    """Remove a document: its source, its place in the queue and its logs. A result stays, and so does the
    manifest entry, which the caller removes.
    """
    view = await context.perform(operator.inspect_job(job))
    if view.status is JobStatus.UNKNOWN:
        return JobChange(job=job, was=view.status, refused=_NO_RETRY[JobStatus.UNKNOWN])
    if view.status is JobStatus.PROCESSING and not force:
        words = "it is being processed; cancel it first, or give --force"
        return JobChange(job=job, was=view.status, refused=words)
    if not dry_run:
        logs = [seen.key async for page in context.objects.pages(layout.logs(job)) for seen in page]
        await context.objects.delete(list(layout.todos(job)))  # first: no worker may claim it any more
        await context.objects.delete([layout.raw(job), layout.failed(job), layout.dead(job), *logs])
        await context.objects.delete([layout.state(job), layout.processing(job)])
    return JobChange(job=job, was=view.status, changed=True)


_NO_RETRY = {
    JobStatus.DONE: "it is done; `download` gets its result",
    JobStatus.QUEUED: "it is already queued; `reprioritize` moves it",
    JobStatus.PROCESSING: "it is being processed; `cancel` takes it from its worker",
    JobStatus.UNKNOWN: "it is unknown; `ingest` its file",
}
_NO_MOVE = {
    JobStatus.DONE: "it is done",
    JobStatus.DEAD: "it is dead; `retry --priority` queues it again",
    JobStatus.FAILED: "it failed and waits for the janitor; `retry --priority` queues it at once",
    JobStatus.PROCESSING: "it is being processed; `cancel --priority` takes it from its worker",
    JobStatus.RAW: "it is not queued; `retry --priority` queues it",
    JobStatus.UNKNOWN: "it is unknown; `ingest` its file",
}
_NO_CANCEL = {
    JobStatus.DONE: "it is done",
    JobStatus.DEAD: "it is dead; no worker has it",
    JobStatus.FAILED: "it failed and waits for the janitor; no worker has it",
    JobStatus.QUEUED: "it is queued; no worker has it",
    JobStatus.RAW: "it is not queued; no worker has it",
    JobStatus.UNKNOWN: "it is unknown",
}


async def _act(
    context: LibraryContext, operation: Callable[[JobActor], Operation[ActionTaken]]
) -> ActionTaken:
    for _ in range(_ATTEMPTS):
        action = await context.perform(operation(context.actor(BY_HAND)))
        if action.result is not ActionResult.STALE:
            return action
    raise Retry("The job keeps changing; nothing was done. Try again.")


def _build_change(
    job: str, action: ActionTaken, tier: str | None, reasons: dict[JobStatus, str]
) -> JobChange:
    refused = ""
    if action.result is ActionResult.REFUSED:
        refused = reasons.get(action.view.status, f"it is {action.view.status.value}")
    return JobChange(
        job=job,
        was=action.view.status,
        tier=tier or action.view.priority,
        changed=action.result is ActionResult.DONE,
        refused=refused,
    )


async def _act_on_all(
    jobs: Iterable[str], act: Callable[[str], Awaitable[JobChange]]
) -> AsyncIterator[JobChange]:
    some = list(jobs)
    for at in range(0, len(some), AT_ONCE):
        for outcome in await asyncio.gather(*map(act, some[at : at + AT_ONCE])):
            yield outcome
