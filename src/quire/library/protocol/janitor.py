"""Settling one job: stale jobs are taken back, failed ones wait again, markers are made to follow the
state.

Promises: any number of janitors may do this at once, beside any number of workers; a state is changed only
if it is still as it was judged; no attempts are counted here but those of published tools, and the attempt
of a worker that died stays counted, so that a file that kills its worker ends up dead. Pure: see
`requests`.
"""

from enum import StrEnum
from typing import TypeVar

from msgspec import Struct, structs

from quire.library.protocol import layout
from quire.library.protocol.bodies import (
    DeadMarker,
    FailedMarker,
    JobRecord,
    LockMarker,
    TodoMarker,
    decode,
    encode,
)
from quire.library.protocol.lifecycle import JobActor, clear_markers, write_markers
from quire.library.protocol.requests import (
    CheckExists,
    CheckStale,
    CreateObject,
    DeleteObjects,
    Operation,
    SwapObject,
    read,
)

T = TypeVar("T", LockMarker, FailedMarker, DeadMarker, TodoMarker)
STALE, FAILED_QUEUE, RESTART = "stale_processing", "failed_queue", "worker_restart"


class SettleOutcome(StrEnum):
    """What a janitor did to a job; the values are published."""

    NOTHING = "nothing"
    CLEARED = "cleared"  # it has its result: everything else was deleted
    REQUEUED = "requeued"
    DEAD = "buried"
    REPAIRED = "repaired"  # a marker was missing or wrong
    LOST = "lost"  # the job changed meanwhile


def settle(ident: str, actor: JobActor) -> Operation[SettleOutcome]:
    """Inspect one job and move it on by at most one state."""
    if (yield CheckExists(layout.out(ident), "finished")):
        yield from clear_markers(ident)
        return SettleOutcome.CLEARED
    found = yield from read(layout.state(ident))
    if found is None:
        return (yield from _settle_foreign(ident, actor))
    job = decode(found.body, JobRecord)
    # An unreadable state may be a later version's: leave it alone.
    if job is None or (job.state == "running" and not (yield CheckStale(layout.state(ident)))):
        return SettleOutcome.NOTHING
    if job.state in {"running", "failed"}:
        return (yield from _recover(ident, job, found.version, actor))
    return (yield from _repair_markers(ident, job, found.version, actor))


def _recover(ident: str, job: JobRecord, version: str, actor: JobActor) -> Operation[SettleOutcome]:
    """Move a job on whose attempt failed or went silent."""
    last = job.charged >= actor.limit
    silent = job.state == "running"
    error = f"the worker {job.worker} went silent in attempt {job.attempt}" if silent else job.error
    state, reason = "dead" if last else "waiting", STALE if silent else FAILED_QUEUE
    moved = structs.replace(job, state=state, nonce=actor.nonce(), updated=actor.millis, error=error)
    written: str | None = yield SwapObject(layout.state(ident), encode(moved), version, "recover")
    if written is None:
        return SettleOutcome.LOST  # or our own write: then the next pass corrects the markers
    yield from write_markers(ident, moved, actor, recovered_from=reason)
    return SettleOutcome.DEAD if last else SettleOutcome.REQUEUED


class _ForeignAttempt(Struct, frozen=True, kw_only=True):
    """An attempt of a published tool at a waiting job. `charged` includes it."""

    charged: int
    error: str
    reason: str = FAILED_QUEUE
    dead: bool = False


def _find_foreign_attempt(
    ident: str, job: JobRecord, silent: LockMarker | None
) -> Operation[_ForeignAttempt | None]:
    """Published tools know no state objects. They leave markers, with a count that starts from ours: a higher
    count means that one of them has tried the job since. Our own markers do not count: they may come late.
    """
    death = yield from _read_marker(layout.dead(ident), DeadMarker)
    if death is not None and death.attempt == 0:
        return _ForeignAttempt(charged=max(job.charged, death.total_retries), error=death.error, dead=True)
    failure = yield from _read_marker(layout.failed(ident), FailedMarker)
    if failure is not None and failure.attempt == 0 and failure.retries >= job.charged:
        return _ForeignAttempt(charged=failure.retries + 1, error=failure.error)
    if silent is not None and not silent.nonce and silent.retries >= job.charged:
        error = f"the worker {silent.worker} went silent"
        return _ForeignAttempt(charged=silent.retries + 1, error=error, reason=STALE)
    return None


def _count_foreign_attempt(
    ident: str, job: JobRecord, version: str, foreign: _ForeignAttempt, actor: JobActor
) -> Operation[SettleOutcome]:
    """Take over the count of a published tool. A job that it gave up is dead, unless an operator has just
    retried it: then the dead marker is about to be deleted.
    """
    if foreign.dead and not (yield CheckStale(layout.state(ident))):
        return SettleOutcome.NOTHING
    last = foreign.dead or foreign.charged >= actor.limit
    moved = structs.replace(
        job,
        state="dead" if last else "waiting",
        attempt=max(job.attempt, foreign.charged),
        charged=foreign.charged,
        nonce=actor.nonce(),
        updated=actor.millis,
        error=foreign.error,
    )
    written: str | None = yield SwapObject(layout.state(ident), encode(moved), version, "recover")
    if written is None:
        return SettleOutcome.LOST
    yield from write_markers(ident, moved, actor, recovered_from=foreign.reason)
    return SettleOutcome.DEAD if last else SettleOutcome.REQUEUED


def _repair_markers(ident: str, job: JobRecord, version: str, actor: JobActor) -> Operation[SettleOutcome]:
    """Compare the markers of a waiting or dead job with its state; write them only if one is missing."""
    lock = yield from _read_marker(layout.processing(ident), LockMarker)
    silent = lock if lock is not None and (yield CheckStale(layout.processing(ident))) else None
    foreign = (yield from _find_foreign_attempt(ident, job, silent)) if job.state == "waiting" else None
    if foreign is not None:
        return (yield from _count_foreign_attempt(ident, job, version, foreign, actor))
    if silent is not None:
        yield DeleteObjects((layout.processing(ident),))  # of a claim that was never completed
    if job.state == "dead":
        there, others = layout.dead(ident), (*layout.todos(ident), layout.failed(ident))
        if (yield CheckExists(there)):
            yield DeleteObjects(others)
            return SettleOutcome.NOTHING
    else:
        there = layout.todo(job.priority, ident)
        todo = yield from _read_marker(there, TodoMarker)
        if todo is not None and todo.attempt == 0 and todo.retries > job.charged:  # a published janitor's
            foreign = _ForeignAttempt(charged=todo.retries, error=todo.last_error)
            return (yield from _count_foreign_attempt(ident, job, version, foreign, actor))
        if todo is not None:
            others = tuple(key for key in layout.todos(ident) if key != there)
            yield DeleteObjects((*others, layout.failed(ident), layout.dead(ident)))
            return SettleOutcome.NOTHING
    yield from write_markers(ident, job, actor)
    return SettleOutcome.REPAIRED


def _settle_foreign(ident: str, actor: JobActor) -> Operation[SettleOutcome]:
    """Settle a job without a state object, which no worker of ours has claimed: the markers of the published
    tools are settled by their rules, and the job gets a state, so that its attempts are counted from then on.
    """
    lock = yield from _read_marker(layout.processing(ident), LockMarker)
    if lock is not None and not (yield CheckStale(layout.processing(ident))):
        return SettleOutcome.NOTHING
    if (yield CheckExists(layout.dead(ident))):  # dead; published workers leave their lock behind
        yield DeleteObjects((layout.processing(ident), layout.failed(ident)))
        return SettleOutcome.REPAIRED
    if lock is not None:
        if lock.attempt == 0 and lock.nonce:  # ours, of a claim that got no further: it did not count
            yield DeleteObjects((layout.processing(ident),))
            return SettleOutcome.REPAIRED
        error = f"the worker {lock.worker} went silent"
        return (yield from _adopt(ident, lock.retries + 1, lock.priority, error, actor, STALE))
    failure = yield from _read_marker(layout.failed(ident), FailedMarker)
    if failure is not None:
        tier = failure.priority
        return (yield from _adopt(ident, failure.retries + 1, tier, failure.error, actor, FAILED_QUEUE))
    return SettleOutcome.NOTHING


def _adopt(
    ident: str, charged: int, tier: str, error: str, actor: JobActor, reason: str
) -> Operation[SettleOutcome]:
    last = charged >= actor.limit
    job = JobRecord(
        state="dead" if last else "waiting",
        attempt=charged,
        charged=charged,
        nonce=actor.nonce(),
        priority=tier,
        updated=actor.millis,
        error=error,
    )
    written: str | None = yield CreateObject(layout.state(ident), encode(job), "adopt")
    if written is None:
        return SettleOutcome.LOST
    yield from write_markers(ident, job, actor, recovered_from=reason)
    return SettleOutcome.DEAD if last else SettleOutcome.REQUEUED


def _read_marker(key: str, kind: type[T]) -> Operation[T | None]:
    """An unreadable marker counts as an empty one, not as a missing one."""
    found = yield from read(key)
    return None if found is None else decode(found.body, kind) or kind()


def recover_after_restart(
    ident: str, attempt: int, started: int, actor: JobActor
) -> Operation[SettleOutcome]:
    """Take back the job of a worker process that died. `attempt` is its attempt, begun at `started`; a job
    that has moved on since is left alone. Does not wait until the job is stale: the worker knows.
    """
    found = yield from read(layout.state(ident))
    job = None if found is None else decode(found.body, JobRecord)
    if found is None or job is None or job.state != "running":
        return SettleOutcome.NOTHING
    if (job.worker, job.attempt, job.started) != (actor.worker, attempt, started):
        return SettleOutcome.NOTHING
    last = job.charged >= actor.limit
    moved = structs.replace(
        job,
        state="dead" if last else "waiting",
        nonce=actor.nonce(),
        updated=actor.millis,
        error=f"the worker {job.worker} died in attempt {attempt}",
    )
    written: str | None = yield SwapObject(layout.state(ident), encode(moved), found.version, "recover")
    if written is None:
        return SettleOutcome.LOST
    yield from write_markers(ident, moved, actor, recovered_from=RESTART)
    return SettleOutcome.DEAD if last else SettleOutcome.REQUEUED
