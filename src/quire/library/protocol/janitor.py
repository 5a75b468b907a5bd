"""Settling one job: stale jobs are taken back, failed ones wait again, markers are made to follow the
state.

Promises: any number of janitors may do this at once, beside any number of workers; a state is changed only
if it is still as it was judged; no attempts are counted here but those of published tools, and the attempt
of a worker that died stays counted, so that a file that kills its worker ends up dead. Pure: see
`requests`.
"""

from collections.abc import Sequence
from enum import StrEnum

from msgspec import structs

from quire.library.protocol import layout
from quire.library.protocol.bodies import DeadMarker, JobRecord, LockMarker, decode, encode_state
from quire.library.protocol.lifecycle import (
    HeldJob,
    JobActor,
    JobCandidate,
    Refusal,
    clear_markers,
    try_claim,
    write_markers,
)
from quire.library.protocol.published import (
    ForeignAttempt,
    ForeignTraces,
    SeenTodo,
    apply_retry,
    choose_foreign_tier,
    choose_tier,
    find_foreign_attempt,
    find_retry,
    read_death,
    read_failure,
    read_lock,
    read_todos,
)
from quire.library.protocol.requests import (
    CheckExists,
    CheckStale,
    CreateObject,
    DeleteObjects,
    Operation,
    SwapObject,
    read,
)

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
        return (yield from _settle_stateless(ident, actor))
    job = decode(found.body, JobRecord)
    # An unreadable state may be a later version's: leave it alone.
    if job is None or (job.state == "running" and not (yield CheckStale(layout.state(ident)))):
        return SettleOutcome.NOTHING
    if job.state == "running":
        return (yield from _recover(ident, job, found.version, actor))
    return (yield from _settle_at_rest(ident, job, found.version, actor))


def claim_or_settle(candidate: JobCandidate, actor: JobActor) -> Operation[HeldJob | SettleOutcome]:
    """Claim a job; one whose todo marker stands beside a state that cannot be claimed is settled instead.
    No listing needs to show that anything is wrong with it.
    """
    claimed = yield from try_claim(candidate, actor)
    if isinstance(claimed, HeldJob):
        return claimed
    is_left = claimed is Refusal.AT_REST and (yield CheckExists(layout.todo(candidate.tier, candidate.id)))
    return (yield from settle(candidate.id, actor)) if is_left else SettleOutcome.NOTHING


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
    error = f"the worker {job.worker} died in attempt {attempt}"
    return (yield from _write(ident, _end(job, actor, error), found.version, actor, RESTART))


def _recover(ident: str, job: JobRecord, version: str, actor: JobActor) -> Operation[SettleOutcome]:
    """Move a job on whose worker went silent, or which a published tool gave up or retried."""
    death = yield from _read_foreign_death(ident)
    todos = yield from read_todos(ident)
    wish = find_retry(job, todos)
    if wish is not None:
        retried = apply_retry(job, wish, actor.limit)
        return (yield from _write(ident, retried, version, actor, wish.marker.recovered_from))
    moved = _end(job, actor, f"the worker {job.worker} went silent in attempt {job.attempt}")
    if death is not None:
        moved = structs.replace(moved, state="dead", error=death.error or moved.error)
    moved = structs.replace(moved, priority=choose_tier(job, todos))
    return (yield from _write(ident, moved, version, actor, STALE))


def _settle_at_rest(ident: str, job: JobRecord, version: str, actor: JobActor) -> Operation[SettleOutcome]:
    """A job that none of our workers has."""
    lock = yield from read_lock(ident)
    is_silent = lock is not None and (yield CheckStale(layout.processing(ident)))
    if lock is not None and not lock.nonce and not is_silent:
        return SettleOutcome.NOTHING  # a published worker has it
    if job.state == "dead":
        return (yield from _settle_dead(ident, job, version, actor, has_lock=is_silent))
    silent = lock if is_silent else None
    return (yield from _settle_open(ident, job, version, actor, silent))


def _settle_open(
    ident: str, job: JobRecord, version: str, actor: JobActor, silent: LockMarker | None
) -> Operation[SettleOutcome]:
    """Take over what published tools did to a job that waits or failed; else a failed one waits again, and
    the markers of a waiting one are made to follow.
    """
    traces = yield from _read_traces(ident, silent)
    wish = find_retry(job, traces.todos)
    if wish is not None:
        retried = apply_retry(job, wish, actor.limit, traces)
        return (yield from _write(ident, retried, version, actor, wish.marker.recovered_from))
    placed = structs.replace(job, priority=choose_tier(job, traces.todos))
    foreign = find_foreign_attempt(job, traces)
    if foreign is not None:
        return (yield from _count_attempt(ident, placed, version, foreign, actor))
    if job.state == "failed":
        return (yield from _write(ident, _end(placed, actor, job.error), version, actor, FAILED_QUEUE))
    if silent is not None:
        yield DeleteObjects((layout.processing(ident),))
    return (yield from _follow_markers(ident, job, placed, version, actor, traces.todos))


def _follow_markers(
    ident: str, job: JobRecord, placed: JobRecord, version: str, actor: JobActor, todos: Sequence[SeenTodo]
) -> Operation[SettleOutcome]:
    """`placed` is the waiting job in the priority that its markers show."""
    if placed.priority != job.priority:
        done = yield from _write(ident, placed, version, actor, "")
        return SettleOutcome.REPAIRED if done is SettleOutcome.REQUEUED else done
    if all(one.tier != job.priority for one in todos):
        yield from write_markers(ident, job, actor)
        return SettleOutcome.REPAIRED
    # Of the todo markers only those that were seen: a person may be moving the job to another tier.
    others = _keys(ident, [one for one in todos if one.tier != job.priority])
    yield DeleteObjects((*others, layout.failed(ident), layout.dead(ident)))
    return SettleOutcome.NOTHING


def _count_attempt(
    ident: str, job: JobRecord, version: str, foreign: ForeignAttempt, actor: JobActor
) -> Operation[SettleOutcome]:
    """Take over the count of a published tool. A job that it gave up is dead, unless an operator has just
    retried it: then the dead marker is about to be deleted.
    """
    if foreign.is_dead and not (yield CheckStale(layout.state(ident))):
        return SettleOutcome.NOTHING
    moved = structs.replace(
        job,
        state="dead" if foreign.is_dead or foreign.charged >= actor.limit else "waiting",
        attempt=max(job.attempt, foreign.charged),
        charged=foreign.charged,
        error=foreign.error,
    )
    return (yield from _write(ident, moved, version, actor, STALE if foreign.is_silent else FAILED_QUEUE))


def _settle_dead(
    ident: str, job: JobRecord, version: str, actor: JobActor, *, has_lock: bool
) -> Operation[SettleOutcome]:
    """A dead job stays dead, unless a person retried it with a published tool.

    That tool writes its todo marker before it deletes the dead one, so they are read in the other order.
    """
    is_marked = yield CheckExists(layout.dead(ident))
    todos = yield from read_todos(ident)
    wish = find_retry(job, todos)
    if wish is not None:
        retried = apply_retry(job, wish, actor.limit)
        return (yield from _write(ident, retried, version, actor, wish.marker.recovered_from))
    if not is_marked:
        yield from write_markers(ident, job, actor)
        return SettleOutcome.REPAIRED
    lock = (layout.processing(ident),) if has_lock else ()
    yield DeleteObjects((*_keys(ident, todos), layout.failed(ident), *lock))
    return SettleOutcome.NOTHING


def _settle_stateless(ident: str, actor: JobActor) -> Operation[SettleOutcome]:
    """Settle a job without a state object, which no worker of ours has claimed: the markers of the published
    tools are settled by their rules, and the job gets a state, so that its attempts are counted from then on.
    """
    lock = yield from read_lock(ident)
    if lock is not None and not (yield CheckStale(layout.processing(ident))):
        return SettleOutcome.NOTHING
    # A published `retry` writes its todo marker before it deletes these: they are read first.
    death = yield from read_death(ident)
    failure = yield from read_failure(ident)
    if death is None and lock is not None:
        return (yield from _adopt_silent(ident, lock, actor))
    if death is None and failure is None:
        return SettleOutcome.NOTHING
    todos = yield from read_todos(ident)
    wish = find_retry(None, todos)
    if wish is not None:
        new = JobRecord(state="waiting", attempt=0, charged=0, nonce="")
        retried = apply_retry(new, wish, actor.limit, ForeignTraces(failure=failure))
        return (yield from _write(ident, retried, None, actor, wish.marker.recovered_from))
    if failure is not None and death is None:
        tier = choose_foreign_tier(failure.priority, todos)
        return (yield from _adopt(ident, failure.retries + 1, tier, failure.error, actor, FAILED_QUEUE))
    # Dead. Published workers leave their lock behind, published janitors the todo marker.
    yield DeleteObjects((layout.processing(ident), layout.failed(ident), *_keys(ident, todos)))
    return SettleOutcome.REPAIRED


def _adopt_silent(ident: str, lock: LockMarker, actor: JobActor) -> Operation[SettleOutcome]:
    if lock.attempt == 0 and lock.nonce:  # ours, of a claim that got no further: it did not count
        yield DeleteObjects((layout.processing(ident),))
        return SettleOutcome.REPAIRED
    error = f"the worker {lock.worker} went silent"
    return (yield from _adopt(ident, lock.retries + 1, lock.priority, error, actor, STALE))


def _adopt(
    ident: str, charged: int, tier: str, error: str, actor: JobActor, reason: str
) -> Operation[SettleOutcome]:
    last = charged >= actor.limit
    job = JobRecord(
        state="dead" if last else "waiting",
        attempt=charged,
        charged=charged,
        nonce="",
        priority=tier,
        error=error,
    )
    return (yield from _write(ident, job, None, actor, reason))


def _write(
    ident: str, job: JobRecord, version: str | None, actor: JobActor, reason: str
) -> Operation[SettleOutcome]:
    """Write the state, if it is still as it was read, and the markers that belong to it."""
    moved = structs.replace(job, nonce=actor.nonce(), updated=actor.millis)
    key, body = layout.state(ident), encode_state(moved)
    if version is None:
        written: str | None = yield CreateObject(key, body, "adopt")
    else:
        written = yield SwapObject(key, body, version, "recover")
    if written is None:
        return SettleOutcome.LOST  # or our own write: then the next pass corrects the markers
    yield from write_markers(ident, moved, actor, recovered_from=reason)
    return SettleOutcome.DEAD if moved.state == "dead" else SettleOutcome.REQUEUED


def _end(job: JobRecord, actor: JobActor, error: str) -> JobRecord:
    """The job after an attempt that came to nothing."""
    return structs.replace(job, state="dead" if job.charged >= actor.limit else "waiting", error=error)


def _read_traces(ident: str, silent: LockMarker | None) -> Operation[ForeignTraces]:
    death = yield from _read_foreign_death(ident)
    failure = yield from read_failure(ident)
    return ForeignTraces(
        todos=(yield from read_todos(ident)),
        death=death,
        failure=None if failure is None or failure.attempt else failure,
        silent=silent,
    )


def _read_foreign_death(ident: str) -> Operation[DeadMarker | None]:
    death = yield from read_death(ident)
    return None if death is None or death.attempt else death


def _keys(ident: str, todos: Sequence[SeenTodo]) -> tuple[str, ...]:
    return tuple(layout.todo(one.tier, ident) for one in todos)
