"""What people do to a job: try it again, move it to another tier, take it from its worker.

Promises: the same conditions as everybody's; what is done stays done; a job that is tried again gets at least
one more attempt. Pure: see `asks`.
"""

from enum import StrEnum

from msgspec import Struct, structs

from quire.library.protocol import layout
from quire.library.protocol.bodies import (
    DEFAULT_TIER,
    Death,
    Failure,
    Job,
    Lock,
    Todo,
    decode,
    encode,
)
from quire.library.protocol.lifecycle import Terms, marked
from quire.library.protocol.requests import (
    Asking,
    Create,
    Look,
    Swap,
    read,
)
from quire.model.tiers import TIERS


class Standing(StrEnum):
    """Where a job is, in the order of precedence of the published design."""

    DONE = "done"
    DEAD = "dead"
    FAILED = "failed"
    PROCESSING = "processing"
    QUEUED = "queued"
    RAW = "raw"
    UNKNOWN = "unknown"


_OF_STATE = {
    "waiting": Standing.QUEUED,
    "running": Standing.PROCESSING,
    "failed": Standing.FAILED,
    "dead": Standing.DEAD,
}


class Seat(Struct, frozen=True, kw_only=True):
    """A job as it was found. `job` is its state; where it has none, what the markers make of it."""

    standing: Standing
    job: Job | None = None
    version: str | None = None  # of the state; None: there is none
    lock: Lock | None = None
    tiers: tuple[str, ...] = ()  # in which it is marked as waiting; looked up only where it has no state


class Act(StrEnum):
    DONE = "done"
    NOTHING = "nothing"  # it was so already
    REFUSED = "refused"  # not from where the job is now
    STALE = "stale"  # somebody was faster: look again


class Acted(Struct, frozen=True):
    act: Act
    seat: Seat


def look(ident: str) -> Asking[Seat]:
    """Where it is. The state is the truth; markers count where there is none."""
    if (yield Look(layout.out(ident))):
        return Seat(standing=Standing.DONE)
    found = yield from read(layout.state(ident))
    job = None if found is None else decode(found.body, Job)
    if found is not None and job is not None:
        lock = (yield from _lock(ident)) if job.state == "running" else None
        return Seat(standing=_OF_STATE[job.state], job=job, version=found.version, lock=lock)
    return (yield from _by_markers(ident))


def again(ident: str, terms: Terms, *, tier: str | None, reset: bool) -> Asking[Acted]:
    """Try it again, from failed or dead, or where it was never queued."""
    seat = yield from look(ident)
    if seat.standing not in {Standing.DEAD, Standing.FAILED, Standing.RAW}:
        return Acted(Act.REFUSED, seat)
    job = seat.job or Job(state="waiting", attempt=0, charged=0, nonce="")
    charged = 0 if reset else min(job.charged, max(0, terms.limit - 1))
    reason = {"dead": "dead-letter", "failed": "failed", "raw": "raw"}[seat.standing.value]
    changed = structs.replace(job, state="waiting", charged=charged, priority=tier or job.priority)
    return (yield from _written(ident, seat, changed, terms, f"manual_retry_{reason}"))


def moved(ident: str, terms: Terms, *, tier: str) -> Asking[Acted]:
    """To another tier, while it waits. One that was never tried gets a state by that: two who move markers
    alone delete each other's, and the job is lost.
    """
    seat = yield from look(ident)
    if seat.standing is not Standing.QUEUED or seat.job is None:
        return Acted(Act.REFUSED, seat)
    if seat.job.priority == tier and seat.tiers in {(), (tier,)}:
        return Acted(Act.NOTHING, seat)
    return (yield from _written(ident, seat, structs.replace(seat.job, priority=tier), terms, ""))


def taken(ident: str, terms: Terms, *, tier: str | None) -> Asking[Acted]:
    """From the worker that has it: it waits again, and that attempt is not counted."""
    seat = yield from look(ident)
    if seat.standing is not Standing.PROCESSING:
        return Acted(Act.REFUSED, seat)
    lock = seat.lock or Lock()
    job = seat.job or Job(
        state="running", attempt=lock.retries, charged=lock.retries + 1, nonce="", priority=lock.priority
    )
    waiting = structs.replace(
        job, state="waiting", charged=max(0, job.charged - 1), priority=tier or job.priority
    )
    return (yield from _written(ident, seat, waiting, terms, "cancelled"))


def _written(ident: str, seat: Seat, job: Job, terms: Terms, reason: str) -> Asking[Acted]:
    changed = structs.replace(job, nonce=terms.nonce(), updated=terms.millis)
    key, body = layout.state(ident), encode(changed)
    if seat.version is None:
        version: str | None = yield Create(key, body, "people")
    else:
        version = yield Swap(key, body, seat.version, "people")
    if version is None:
        found = yield from read(key)
        there = None if found is None else decode(found.body, Job)
        if there is None or there.nonce != changed.nonce:
            return Acted(Act.STALE, seat)
    yield from marked(ident, changed, terms, recovered_from=reason)
    return Acted(Act.DONE, structs.replace(seat, job=changed))


def _by_markers(ident: str) -> Asking[Seat]:
    """As the published tools would tell it."""
    found = yield from read(layout.dead(ident))
    if found is not None:
        death = decode(found.body, Death) or Death()
        job = _told("dead", death.total_retries, death.priority, death.error)
        return Seat(standing=Standing.DEAD, job=job)
    found = yield from read(layout.failed(ident))
    if found is not None:
        failure = decode(found.body, Failure) or Failure()
        job = _told("failed", failure.retries + 1, failure.priority, failure.error)
        return Seat(standing=Standing.FAILED, job=job)
    lock = yield from _lock(ident)
    if lock is not None:
        return Seat(standing=Standing.PROCESSING, lock=lock)
    return (yield from _waiting(ident))


def _waiting(ident: str) -> Asking[Seat]:
    tiers: list[str] = []
    retries = 0
    for tier in TIERS:
        found = yield from read(layout.todo(tier, ident))
        if found is not None:
            tiers.append(tier)
            said = decode(found.body, Todo)
            retries = max(retries, 0 if said is None else said.retries)
    if tiers:
        job = _told("waiting", retries, tiers[0], "")
        return Seat(standing=Standing.QUEUED, job=job, tiers=tuple(tiers))
    there = yield Look(layout.raw(ident))
    return Seat(standing=Standing.RAW if there else Standing.UNKNOWN)


def _lock(ident: str) -> Asking[Lock | None]:
    found = yield from read(layout.processing(ident))
    return None if found is None else decode(found.body, Lock) or Lock()


def _told(state: str, charged: int, priority: str, error: str) -> Job:
    known = priority if priority in TIERS else DEFAULT_TIER
    return structs.replace(
        Job(state="waiting", attempt=charged, charged=charged, nonce="", priority=known, error=error),
        state=state,
    )
