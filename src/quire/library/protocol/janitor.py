"""Settling one job: stale jobs are taken back, failed ones wait again, markers are made to follow the
state.

Promises: any number of janitors may do this at once, beside any number of workers; a state is changed only
if it is still as it was judged; no attempts are counted here but those of published tools, and the attempt
of a worker that died stays counted, so that a file that kills its worker ends up dead. Pure: see
`requests`.
"""

from enum import StrEnum

from msgspec import Struct, structs

from quire.library.protocol import layout
from quire.library.protocol.bodies import DeadMarker, JobRecord, LockMarker, decode, encode_state, guess_state
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


class _FoundJob(Struct, frozen=True, kw_only=True):
    """A job as it was found. `version` is that of its state object; None: it has none."""

    id: str
    version: str | None
    actor: JobActor
    todos: tuple[SeenTodo, ...] = ()

    def list_keys(self) -> tuple[str, ...]:
        """Of the todo markers that were seen: a person with a published tool may just be writing another."""
        return tuple(layout.todo(one.tier, self.id) for one in self.todos)


def settle(ident: str, actor: JobActor) -> Operation[SettleOutcome]:
    """Inspect one job and move it on by at most one state."""
    if (yield CheckExists(layout.out(ident), "finished")):
        yield from clear_markers(ident)
        return SettleOutcome.CLEARED
    body = yield from read(layout.state(ident))
    if body is None:
        return (yield from _settle_stateless(_FoundJob(id=ident, version=None, actor=actor)))
    found, job = _FoundJob(id=ident, version=body.version, actor=actor), decode(body.body, JobRecord)
    # An unreadable state may be a later version's: leave it alone.
    if job is None or (job.state == "running" and not (yield CheckStale(layout.state(ident)))):
        return SettleOutcome.NOTHING
    if job.state == "running":
        return (yield from _recover(found, job))
    done = yield from _settle_at_rest(found, job)
    if done is SettleOutcome.NOTHING and guess_state(len(body.body)) != job.state:
        # Written by an earlier version; padded, it does not look wrong in the next listing.
        yield SwapObject(layout.state(ident), encode_state(job), body.version, "recover")
    return done


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
    body = yield from read(layout.state(ident))
    job = None if body is None else decode(body.body, JobRecord)
    if body is None or job is None or job.state != "running":
        return SettleOutcome.NOTHING
    if (job.worker, job.attempt, job.started) != (actor.worker, attempt, started):
        return SettleOutcome.NOTHING
    found = _FoundJob(id=ident, version=body.version, actor=actor, todos=(yield from read_todos(ident)))
    placed = structs.replace(job, priority=choose_tier(job, found.todos))
    error = f"the worker {job.worker} died in attempt {attempt}"
    return (yield from _write(found, _end(placed, actor, error), RESTART))


def _recover(found: _FoundJob, job: JobRecord) -> Operation[SettleOutcome]:
    """Move a job on whose worker went silent, or which a published tool gave up or retried."""
    death = yield from _read_foreign_death(found.id)
    found = structs.replace(found, todos=(yield from read_todos(found.id)))
    wish = find_retry(job, found.todos)
    if wish is not None:
        retried = apply_retry(job, wish, found.actor.limit)
        return (yield from _write(found, retried, wish.marker.recovered_from))
    moved = _end(job, found.actor, f"the worker {job.worker} went silent in attempt {job.attempt}")
    if death is not None:
        moved = structs.replace(moved, state="dead", error=death.error or moved.error)
    moved = structs.replace(moved, priority=choose_tier(job, found.todos))
    return (yield from _write(found, moved, STALE))


def _settle_at_rest(found: _FoundJob, job: JobRecord) -> Operation[SettleOutcome]:
    """A job that none of our workers has."""
    lock = yield from read_lock(found.id)
    if lock is not None:
        if (yield CheckStale(layout.processing(found.id))):
            if lock.nonce or job.state == "dead":  # of a claim that was never completed, or left behind
                yield DeleteObjects((layout.processing(found.id),))
        elif not lock.nonce:
            return SettleOutcome.NOTHING  # a published worker has it
        else:
            lock = None
    if job.state == "dead":
        return (yield from _settle_dead(found, job))
    silent = None if lock is None or lock.nonce else lock
    return (yield from _settle_open(found, job, silent))


def _settle_open(found: _FoundJob, job: JobRecord, silent: LockMarker | None) -> Operation[SettleOutcome]:
    """Take over what published tools did to a job that waits or failed; else a failed one waits again, and
    the markers of a waiting one are made to follow.
    """
    traces = yield from _read_traces(found.id, silent)
    found = structs.replace(found, todos=traces.todos)
    wish = find_retry(job, found.todos)
    if wish is not None:
        retried = apply_retry(job, wish, found.actor.limit, traces)
        return (yield from _write(found, retried, wish.marker.recovered_from))
    placed = structs.replace(job, priority=choose_tier(job, found.todos))
    foreign = find_foreign_attempt(job, traces)
    if foreign is not None:
        return (yield from _count_attempt(found, placed, foreign))
    if job.state == "failed":
        return (yield from _write(found, _end(placed, found.actor, job.error), FAILED_QUEUE))
    if silent is not None:
        yield DeleteObjects((layout.processing(found.id),))
    return (yield from _follow_markers(found, job, placed))


def _follow_markers(found: _FoundJob, job: JobRecord, placed: JobRecord) -> Operation[SettleOutcome]:
    """`placed` is the waiting job in the priority that its markers show."""
    if placed.priority != job.priority:
        done = yield from _write(found, placed, "")
        return SettleOutcome.REPAIRED if done is SettleOutcome.REQUEUED else done
    there = layout.todo(job.priority, found.id)
    if there not in found.list_keys():
        yield from write_markers(found.id, job, found.actor, todos=found.list_keys())
        return SettleOutcome.REPAIRED
    others = (key for key in found.list_keys() if key != there)
    yield DeleteObjects((*others, layout.failed(found.id), layout.dead(found.id)))
    return SettleOutcome.NOTHING


def _count_attempt(found: _FoundJob, job: JobRecord, foreign: ForeignAttempt) -> Operation[SettleOutcome]:
    """Take over the count of a published tool. A job that it gave up is dead, unless an operator has just
    retried it: then the dead marker is about to be deleted.
    """
    if foreign.is_dead and not (yield CheckStale(layout.state(found.id))):
        return SettleOutcome.NOTHING
    moved = structs.replace(
        job,
        state="dead" if foreign.is_dead or foreign.charged >= found.actor.limit else "waiting",
        attempt=max(job.attempt, foreign.charged),
        charged=foreign.charged,
        error=foreign.error,
    )
    return (yield from _write(found, moved, STALE if foreign.is_silent else FAILED_QUEUE))


def _settle_dead(found: _FoundJob, job: JobRecord) -> Operation[SettleOutcome]:
    """A dead job stays dead, unless a person retried it with a published tool.

    That tool writes its todo marker before it deletes the dead one, so they are read in the other order.
    """
    is_marked = yield CheckExists(layout.dead(found.id))
    found = structs.replace(found, todos=(yield from read_todos(found.id)))
    wish = find_retry(job, found.todos)
    if wish is not None:
        retried = apply_retry(job, wish, found.actor.limit)
        return (yield from _write(found, retried, wish.marker.recovered_from))
    if not is_marked:
        yield from write_markers(found.id, job, found.actor, todos=found.list_keys())
        return SettleOutcome.REPAIRED
    yield DeleteObjects((*found.list_keys(), layout.failed(found.id)))
    return SettleOutcome.NOTHING


def _settle_stateless(found: _FoundJob) -> Operation[SettleOutcome]:
    """Settle a job without a state object, which no worker of ours has claimed: the markers of the published
    tools are settled by their rules, and the job gets a state, so that its attempts are counted from then on.
    """
    ident = found.id
    lock = yield from read_lock(ident)
    if lock is not None and not (yield CheckStale(layout.processing(ident))):
        return SettleOutcome.NOTHING
    # A published `retry` writes its todo marker before it deletes these: they are read first.
    death = yield from read_death(ident)
    failure = yield from read_failure(ident)
    if lock is None and death is None and failure is None:
        return SettleOutcome.NOTHING
    found = structs.replace(found, todos=(yield from read_todos(ident)))
    if death is None and lock is not None:
        return (yield from _adopt_silent(found, lock))
    wish = find_retry(None, found.todos)
    if wish is not None:
        new = JobRecord(state="waiting", attempt=0, charged=0, nonce="")
        retried = apply_retry(new, wish, found.actor.limit, ForeignTraces(failure=failure))
        return (yield from _write(found, retried, wish.marker.recovered_from))
    if failure is not None and death is None:
        tier = choose_foreign_tier(failure.priority, found.todos)
        return (yield from _adopt(found, failure.retries + 1, tier, failure.error, FAILED_QUEUE))
    # Dead. Published workers leave their lock behind, published janitors the todo marker.
    left = () if lock is None and failure is None else (layout.processing(ident), layout.failed(ident))
    return (yield from _clear_leftovers((*left, *found.list_keys())))


def _clear_leftovers(keys: tuple[str, ...]) -> Operation[SettleOutcome]:
    if not keys:
        return SettleOutcome.NOTHING
    yield DeleteObjects(keys)
    return SettleOutcome.REPAIRED


def _adopt_silent(found: _FoundJob, lock: LockMarker) -> Operation[SettleOutcome]:
    if lock.attempt == 0 and lock.nonce:  # ours, of a claim that got no further: it did not count
        yield DeleteObjects((layout.processing(found.id),))
        return SettleOutcome.REPAIRED
    error = f"the worker {lock.worker} went silent"
    return (yield from _adopt(found, lock.retries + 1, lock.priority, error, STALE))


def _adopt(found: _FoundJob, charged: int, tier: str, error: str, reason: str) -> Operation[SettleOutcome]:
    last = charged >= found.actor.limit
    job = JobRecord(
        state="dead" if last else "waiting",
        attempt=charged,
        charged=charged,
        nonce="",
        priority=tier,
        error=error,
    )
    return (yield from _write(found, job, reason))


def _write(found: _FoundJob, job: JobRecord, reason: str) -> Operation[SettleOutcome]:
    """Write the state, if it is still as it was read, and the markers that belong to it."""
    actor = found.actor
    moved = structs.replace(job, nonce=actor.nonce(), updated=actor.millis)
    key, body = layout.state(found.id), encode_state(moved)
    if found.version is None:
        written: str | None = yield CreateObject(key, body, "adopt")
    else:
        written = yield SwapObject(key, body, found.version, "recover")
    if written is None:
        return SettleOutcome.LOST  # or our own write: then the next pass corrects the markers
    yield from write_markers(found.id, moved, actor, recovered_from=reason, todos=found.list_keys())
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
