"""What an operator does to a job: inspect it, retry it, move it to another priority, cancel its attempt.

Promises: the same conditional writes as workers and janitors; a finished job stays finished; a retried job
gets at least one more attempt. Pure: see `requests`.
"""

from enum import StrEnum

from msgspec import Struct, structs

from quire.library.protocol import layout
from quire.library.protocol.bodies import DEFAULT_TIER, JobRecord, LockMarker, decode, encode_state
from quire.library.protocol.lifecycle import JobActor, write_markers
from quire.library.protocol.published import (
    apply_retry,
    choose_foreign_tier,
    choose_tier,
    find_retry,
    read_death,
    read_failure,
    read_lock,
    read_todos,
)
from quire.library.protocol.requests import CheckExists, CreateObject, Operation, SwapObject, read
from quire.model.tiers import TIERS


class JobStatus(StrEnum):
    """The status of a job, in the order of precedence of the published design."""

    DONE = "done"
    DEAD = "dead"
    FAILED = "failed"
    PROCESSING = "processing"
    QUEUED = "queued"
    RAW = "raw"
    UNKNOWN = "unknown"


_STATUS_OF_STATE = {
    "waiting": JobStatus.QUEUED,
    "running": JobStatus.PROCESSING,
    "failed": JobStatus.FAILED,
    "dead": JobStatus.DEAD,
}


class JobView(Struct, frozen=True, kw_only=True):
    """A job as it was found. `job` is its state object, with what a published tool did to the job since;
    without one, a record built from its markers.
    """

    status: JobStatus
    job: JobRecord | None = None
    version: str | None = None  # of the state object; None: there is none
    lock: LockMarker | None = None
    tiers: tuple[str, ...] = ()  # of its todo markers, if they were read

    @property
    def priority(self) -> str:
        if self.job is not None:
            return self.job.priority
        return "" if self.lock is None else self.lock.priority


class ActionResult(StrEnum):
    DONE = "done"
    NOTHING = "nothing"  # nothing to change
    REFUSED = "refused"  # not allowed in the job's status
    STALE = "stale"  # the job changed meanwhile: inspect it again


class ActionTaken(Struct, frozen=True):
    result: ActionResult
    view: JobView


def inspect_job(ident: str) -> Operation[JobView]:
    """Read the job. The state object is the truth, but for what a published tool did to a job that does not
    run; markers count where there is none.
    """
    if (yield CheckExists(layout.out(ident))):
        return JobView(status=JobStatus.DONE)
    found = yield from read(layout.state(ident))
    job = None if found is None else decode(found.body, JobRecord)
    if found is None or job is None:
        return (yield from _inspect_markers(ident))
    if job.state == "running":
        lock = yield from read_lock(ident)
        return JobView(status=JobStatus.PROCESSING, job=job, version=found.version, lock=lock)
    return (yield from _inspect_resting(ident, job, found.version))


def retry(ident: str, actor: JobActor, *, tier: str | None, reset: bool) -> Operation[ActionTaken]:
    """Queue a job again that failed, is dead, or was never queued."""
    view = yield from inspect_job(ident)
    if view.status not in {JobStatus.DEAD, JobStatus.FAILED, JobStatus.RAW}:
        return ActionTaken(ActionResult.REFUSED, view)
    job = view.job or JobRecord(state="waiting", attempt=0, charged=0, nonce="")
    charged = 0 if reset else min(job.charged, max(0, actor.limit - 1))
    reason = {"dead": "dead-letter", "failed": "failed", "raw": "raw"}[view.status.value]
    changed = structs.replace(job, state="waiting", charged=charged, priority=tier or job.priority)
    return (yield from _write_state(ident, view, changed, actor, f"manual_retry_{reason}"))


def reprioritize(ident: str, actor: JobActor, *, tier: str) -> Operation[ActionTaken]:
    """Move a waiting job to another priority. A job that was never tried gets a state object by that: two
    operators who move only markers delete each other's, and the job is lost.
    """
    view = yield from inspect_job(ident)
    if view.status is not JobStatus.QUEUED or view.job is None:
        return ActionTaken(ActionResult.REFUSED, view)
    if view.job.priority == tier and view.tiers in {(), (tier,)}:
        return ActionTaken(ActionResult.NOTHING, view)
    charged = min(view.job.charged, max(0, actor.limit - 1))
    moved = structs.replace(view.job, priority=tier, charged=charged)
    return (yield from _write_state(ident, view, moved, actor, ""))


def cancel(ident: str, actor: JobActor, *, tier: str | None) -> Operation[ActionTaken]:
    """Take the job from its worker: it waits again, and that attempt does not count."""
    view = yield from inspect_job(ident)
    if view.status is not JobStatus.PROCESSING:
        return ActionTaken(ActionResult.REFUSED, view)
    lock = view.lock or LockMarker()
    job = view.job or JobRecord(
        state="running", attempt=lock.retries, charged=lock.retries + 1, nonce="", priority=lock.priority
    )
    waiting = structs.replace(
        job, state="waiting", charged=max(0, job.charged - 1), priority=tier or job.priority
    )
    return (yield from _write_state(ident, view, waiting, actor, "cancelled"))


def _write_state(
    ident: str, view: JobView, job: JobRecord, actor: JobActor, reason: str
) -> Operation[ActionTaken]:
    changed = structs.replace(job, nonce=actor.nonce(), updated=actor.millis)
    key, body = layout.state(ident), encode_state(changed)
    if view.version is None:
        version: str | None = yield CreateObject(key, body, "people")
    else:
        version = yield SwapObject(key, body, view.version, "people")
    if version is None:
        found = yield from read(key)
        there = None if found is None else decode(found.body, JobRecord)
        if there is None or there.nonce != changed.nonce:
            return ActionTaken(ActionResult.STALE, view)
    yield from write_markers(ident, changed, actor, recovered_from=reason)
    return ActionTaken(ActionResult.DONE, structs.replace(view, job=changed))


def _inspect_resting(ident: str, job: JobRecord, version: str) -> Operation[JobView]:
    """A job that does not run. A published tool may have given it up, retried it or moved it since."""
    death = yield from read_death(ident)
    if death is not None and (job.state == "dead" or not death.attempt):
        charged = max(job.charged, death.total_retries)
        dead = structs.replace(job, state="dead", charged=charged, error=death.error or job.error)
        return JobView(status=JobStatus.DEAD, job=dead, version=version)
    if job.state == "failed" and (yield CheckExists(layout.failed(ident))):
        return JobView(status=JobStatus.FAILED, job=job, version=version)
    if job.state == "waiting" and (yield CheckExists(layout.todo(job.priority, ident))):
        return JobView(status=JobStatus.QUEUED, job=job, version=version)
    todos = yield from read_todos(ident)
    wish = find_retry(job, todos)
    tiers = tuple(one.tier for one in todos)
    if wish is not None:
        job = apply_retry(job, wish, limit=wish.marker.retries + 1)
    elif job.state == "waiting" or (job.state == "failed" and todos):
        job = structs.replace(job, state="waiting", priority=choose_tier(job, todos))
    return JobView(status=_STATUS_OF_STATE[job.state], job=job, version=version, tiers=tiers)


def _inspect_markers(ident: str) -> Operation[JobView]:
    """The job as the published tools see it."""
    death = yield from read_death(ident)
    if death is not None:
        tier = death.priority or (yield from _find_tier(ident))
        job = _record_of_marker("dead", death.total_retries, tier, death.error)
        return JobView(status=JobStatus.DEAD, job=job)
    failure = yield from read_failure(ident)
    if failure is not None:
        tier = failure.priority or (yield from _find_tier(ident))
        job = _record_of_marker("failed", failure.retries + 1, tier, failure.error)
        return JobView(status=JobStatus.FAILED, job=job)
    lock = yield from read_lock(ident)
    if lock is not None:
        return JobView(status=JobStatus.PROCESSING, lock=lock)
    return (yield from _inspect_todo(ident))


def _find_tier(ident: str) -> Operation[str]:
    """Published workers keep the todo marker of a job that failed: it alone shows the priority."""
    return choose_foreign_tier("", (yield from read_todos(ident)))


def _inspect_todo(ident: str) -> Operation[JobView]:
    todos = yield from read_todos(ident)
    if todos:
        retries = max(one.marker.retries for one in todos)
        job = _record_of_marker("waiting", retries, todos[0].tier, "")
        return JobView(status=JobStatus.QUEUED, job=job, tiers=tuple(one.tier for one in todos))
    there = yield CheckExists(layout.raw(ident))
    return JobView(status=JobStatus.RAW if there else JobStatus.UNKNOWN)


def _record_of_marker(state: str, charged: int, priority: str, error: str) -> JobRecord:
    known = priority if priority in TIERS else DEFAULT_TIER
    return structs.replace(
        JobRecord(state="waiting", attempt=charged, charged=charged, nonce="", priority=known, error=error),
        state=state,
    )
