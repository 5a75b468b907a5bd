"""What people do to a job: try it again, move it to another tier, take it from its worker.

Promises: the same conditions as everybody's; what is done stays done; a job that is tried again gets at least
one more attempt. Pure: see `asks`.
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
from quire.library.protocol.requests import (
    CheckExists,
    CreateObject,
    Operation,
    SwapObject,
    read,
)
from quire.model.tiers import TIERS


class JobStatus(StrEnum):
    """Where a job is, in the order of precedence of the published design."""

    DONE = "done"
    DEAD = "dead"
    FAILED = "failed"
    PROCESSING = "processing"
    QUEUED = "queued"
    RAW = "raw"
    UNKNOWN = "unknown"


_OF_STATE = {
    "waiting": JobStatus.QUEUED,
    "running": JobStatus.PROCESSING,
    "failed": JobStatus.FAILED,
    "dead": JobStatus.DEAD,
}


class JobView(Struct, frozen=True, kw_only=True):
    """A job as it was found. `job` is its state; where it has none, what the markers make of it."""

    standing: JobStatus
    job: JobRecord | None = None
    version: str | None = None  # of the state; None: there is none
    lock: LockMarker | None = None
    tiers: tuple[str, ...] = ()  # in which it is write_markers as waiting; looked up only where it has no state


class ActionResult(StrEnum):
    DONE = "done"
    NOTHING = "nothing"  # it was so already
    REFUSED = "refused"  # not from where the job is now
    STALE = "stale"  # somebody was faster: inspect_job retry


class ActionTaken(Struct, frozen=True):
    act: ActionResult
    seat: JobView


def inspect_job(ident: str) -> Operation[JobView]:
    """Where it is. The state is the truth; markers count where there is none."""
    if (yield CheckExists(layout.out(ident))):
        return JobView(standing=JobStatus.DONE)
    found = yield from read(layout.state(ident))
    job = None if found is None else decode(found.body, JobRecord)
    if found is not None and job is not None:
        lock = (yield from _read_lock(ident)) if job.state == "running" else None
        return JobView(standing=_OF_STATE[job.state], job=job, version=found.version, lock=lock)
    return (yield from _inspect_markers(ident))


def retry(ident: str, terms: JobActor, *, tier: str | None, reset: bool) -> Operation[ActionTaken]:
    """Try it again, from failed or dead, or where it was never queued."""
    seat = yield from inspect_job(ident)
    if seat.standing not in {JobStatus.DEAD, JobStatus.FAILED, JobStatus.RAW}:
        return ActionTaken(ActionResult.REFUSED, seat)
    job = seat.job or JobRecord(state="waiting", attempt=0, charged=0, nonce="")
    charged = 0 if reset else min(job.charged, max(0, terms.limit - 1))
    reason = {"dead": "dead-letter", "failed": "failed", "raw": "raw"}[seat.standing.value]
    changed = structs.replace(job, state="waiting", charged=charged, priority=tier or job.priority)
    return (yield from _write_state(ident, seat, changed, terms, f"manual_retry_{reason}"))


def reprioritize(ident: str, terms: JobActor, *, tier: str) -> Operation[ActionTaken]:
    """To another tier, while it waits. One that was never tried gets a state by that: two who move markers
    alone delete each other's, and the job is lost.
    """
    seat = yield from inspect_job(ident)
    if seat.standing is not JobStatus.QUEUED or seat.job is None:
        return ActionTaken(ActionResult.REFUSED, seat)
    if seat.job.priority == tier and seat.tiers in {(), (tier,)}:
        return ActionTaken(ActionResult.NOTHING, seat)
    return (yield from _write_state(ident, seat, structs.replace(seat.job, priority=tier), terms, ""))


def cancel(ident: str, terms: JobActor, *, tier: str | None) -> Operation[ActionTaken]:
    """From the worker that has it: it waits again, and that attempt is not counted."""
    seat = yield from inspect_job(ident)
    if seat.standing is not JobStatus.PROCESSING:
        return ActionTaken(ActionResult.REFUSED, seat)
    lock = seat.lock or LockMarker()
    job = seat.job or JobRecord(
        state="running", attempt=lock.retries, charged=lock.retries + 1, nonce="", priority=lock.priority
    )
    waiting = structs.replace(
        job, state="waiting", charged=max(0, job.charged - 1), priority=tier or job.priority
    )
    return (yield from _write_state(ident, seat, waiting, terms, "cancelled"))


def _write_state(ident: str, seat: JobView, job: JobRecord, terms: JobActor, reason: str) -> Operation[ActionTaken]:
    changed = structs.replace(job, nonce=terms.nonce(), updated=terms.millis)
    key, body = layout.state(ident), encode(changed)
    if seat.version is None:
        version: str | None = yield CreateObject(key, body, "people")
    else:
        version = yield SwapObject(key, body, seat.version, "people")
    if version is None:
        found = yield from read(key)
        there = None if found is None else decode(found.body, JobRecord)
        if there is None or there.nonce != changed.nonce:
            return ActionTaken(ActionResult.STALE, seat)
    yield from write_markers(ident, changed, terms, recovered_from=reason)
    return ActionTaken(ActionResult.DONE, structs.replace(seat, job=changed))


def _inspect_markers(ident: str) -> Operation[JobView]:
    """As the published tools would tell it."""
    found = yield from read(layout.dead(ident))
    if found is not None:
        death = decode(found.body, DeadMarker) or DeadMarker()
        job = _record_of_marker("dead", death.total_retries, death.priority, death.error)
        return JobView(standing=JobStatus.DEAD, job=job)
    found = yield from read(layout.failed(ident))
    if found is not None:
        failure = decode(found.body, FailedMarker) or FailedMarker()
        job = _record_of_marker("failed", failure.retries + 1, failure.priority, failure.error)
        return JobView(standing=JobStatus.FAILED, job=job)
    lock = yield from _read_lock(ident)
    if lock is not None:
        return JobView(standing=JobStatus.PROCESSING, lock=lock)
    return (yield from _inspect_todo(ident))


def _inspect_todo(ident: str) -> Operation[JobView]:
    tiers: list[str] = []
    retries = 0
    for tier in TIERS:
        found = yield from read(layout.todo(tier, ident))
        if found is not None:
            tiers.append(tier)
            said = decode(found.body, TodoMarker)
            retries = max(retries, 0 if said is None else said.retries)
    if tiers:
        job = _record_of_marker("waiting", retries, tiers[0], "")
        return JobView(standing=JobStatus.QUEUED, job=job, tiers=tuple(tiers))
    there = yield CheckExists(layout.raw(ident))
    return JobView(standing=JobStatus.RAW if there else JobStatus.UNKNOWN)


def _read_lock(ident: str) -> Operation[LockMarker | None]:
    found = yield from read(layout.processing(ident))
    return None if found is None else decode(found.body, LockMarker) or LockMarker()


def _record_of_marker(state: str, charged: int, priority: str, error: str) -> JobRecord:
    known = priority if priority in TIERS else DEFAULT_TIER
    return structs.replace(
        JobRecord(state="waiting", attempt=charged, charged=charged, nonce="", priority=known, error=error),
        state=state,
    )
