"""What an operator does to a job: inspect it, retry it, move it to another priority, cancel its attempt.

Promises: the same conditional writes as workers and janitors; a finished job stays finished; a retried job
gets at least one more attempt. Pure: see `requests`.
"""

from enum import StrEnum

from msgspec import Struct, structs

from quire.library.protocol import layout
from quire.library.protocol.bodies import (
    DEFAULT_TIER,
    DeadMarker,
    FailedMarker,
    JobRecord,
    LockMarker,
    TodoMarker,
    decode,
    encode,
)
from quire.library.protocol.lifecycle import JobActor, write_markers
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
    """A job as it was found. `job` is its state object; without one, a record built from its markers."""

    status: JobStatus
    job: JobRecord | None = None
    version: str | None = None  # of the state object; None: there is none
    lock: LockMarker | None = None
    tiers: tuple[str, ...] = ()  # of its todo markers; read only for a job without a state object

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
    """Read the job. The state object is the truth; markers count where there is none."""
    if (yield CheckExists(layout.out(ident))):
        return JobView(status=JobStatus.DONE)
    found = yield from read(layout.state(ident))
    job = None if found is None else decode(found.body, JobRecord)
    if found is not None and job is not None:
        lock = (yield from _read_lock(ident)) if job.state == "running" else None
        return JobView(status=_STATUS_OF_STATE[job.state], job=job, version=found.version, lock=lock)
    return (yield from _inspect_markers(ident))


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
    return (yield from _write_state(ident, view, structs.replace(view.job, priority=tier), actor, ""))


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
    key, body = layout.state(ident), encode(changed)
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


def _inspect_markers(ident: str) -> Operation[JobView]:
    """The job as the published tools see it."""
    found = yield from read(layout.dead(ident))
    if found is not None:
        death = decode(found.body, DeadMarker) or DeadMarker()
        job = _record_of_marker("dead", death.total_retries, death.priority, death.error)
        return JobView(status=JobStatus.DEAD, job=job)
    found = yield from read(layout.failed(ident))
    if found is not None:
        failure = decode(found.body, FailedMarker) or FailedMarker()
        job = _record_of_marker("failed", failure.retries + 1, failure.priority, failure.error)
        return JobView(status=JobStatus.FAILED, job=job)
    lock = yield from _read_lock(ident)
    if lock is not None:
        return JobView(status=JobStatus.PROCESSING, lock=lock)
    return (yield from _inspect_todo(ident))


def _inspect_todo(ident: str) -> Operation[JobView]:
    tiers: list[str] = []
    retries = 0
    for tier in TIERS:
        found = yield from read(layout.todo(tier, ident))
        if found is not None:
            tiers.append(tier)
            marker = decode(found.body, TodoMarker)
            retries = max(retries, 0 if marker is None else marker.retries)
    if tiers:
        job = _record_of_marker("waiting", retries, tiers[0], "")
        return JobView(status=JobStatus.QUEUED, job=job, tiers=tuple(tiers))
    there = yield CheckExists(layout.raw(ident))
    return JobView(status=JobStatus.RAW if there else JobStatus.UNKNOWN)


def _read_lock(ident: str) -> Operation[LockMarker | None]:
    found = yield from read(layout.processing(ident))
    return None if found is None else decode(found.body, LockMarker) or LockMarker()


def _record_of_marker(state: str, charged: int, priority: str, error: str) -> JobRecord:
    known = priority if priority in TIERS else DEFAULT_TIER
    return structs.replace(
        JobRecord(state="waiting", attempt=charged, charged=charged, nonce="", priority=known, error=error),
        state=state,
    )
