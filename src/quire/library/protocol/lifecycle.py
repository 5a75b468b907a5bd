"""A job's life as its worker sees it: claim, beat, finish, fail, release.

Promises: of any number of workers one wins a claim, and only it can write the job's state until it is
judged stale; the attempt number grows with each claim; a job has one result, and once it has one no worker
works on it. A worker that gets the answer `None` has lost the job and must not touch it any more. Pure: see
`requests`.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from enum import Enum

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
    encode_state,
    shorten_error,
)
from quire.library.protocol.published import SeenTodo, count_todo, read_todo
from quire.library.protocol.requests import (
    CheckExists,
    CommitResult,
    CreateObject,
    DeleteObjects,
    Operation,
    PutObject,
    SwapObject,
    read,
)

Nonce = Callable[[], str]


class JobActor(Struct, frozen=True, kw_only=True):
    """The program that acts on a job. `limit` is how many attempts a job may have. `now` is for display only:
    nothing is decided by it.
    """

    worker: str
    limit: int
    nonce: Nonce
    now: Callable[[], float]

    @property
    def millis(self) -> int:
        return max(0, round(self.now() * 1000))


class HeldJob(Struct, frozen=True, kw_only=True):
    """A claimed job, as its worker last wrote it. `marker` is the version of the lock for other tools."""

    id: str
    job: JobRecord
    version: str
    marker: str | None


class JobCandidate(Struct, frozen=True, kw_only=True):
    """A waiting job as a listing showed it, perhaps long ago. `blank`: its marker is empty, as ingest
    writes it, so the job has hardly been tried. `listed_now`: the listings were made a moment ago, and showed
    that no tool had given it up.
    """

    id: str
    tier: str
    blank: bool = True
    listed_now: bool = False


class Refusal(Enum):
    """Why a job cannot be claimed."""

    TAKEN = "taken"  # or done, or gone
    AT_REST = "at rest"  # it failed or is dead, though a todo marker says that it waits


def claim(candidate: JobCandidate, actor: JobActor) -> Operation[HeldJob | None]:
    """Claim the job if it is free, has attempts left and has no result. None: pick another one."""
    claimed = yield from try_claim(candidate, actor)
    return claimed if isinstance(claimed, HeldJob) else None


def try_claim(candidate: JobCandidate, actor: JobActor) -> Operation[HeldJob | Refusal]:
    """`claim` with the reason when it is refused.

    The lock is created first: it keeps published workers away, and shows that one of them has the job.
    """
    ident, nonce = candidate.id, actor.nonce()
    todo = None if candidate.blank else (yield from read_todo(candidate.tier, ident))
    hint = 0 if todo is None else todo.marker.retries
    lock = _build_lock(candidate.tier, actor, nonce, retries=hint, attempt=0)
    marker = yield from _create_lock(layout.processing(ident), lock, nonce)
    if marker is None:
        return Refusal.TAKEN
    claimed = yield from _start_attempt(candidate, actor, nonce, todo)
    if not isinstance(claimed, HeldJob):
        yield DeleteObjects((layout.processing(ident),))
        return claimed
    if (yield CheckExists(layout.out(ident), "finished")):
        yield from clear_markers(ident)
        return Refusal.TAKEN
    return structs.replace(claimed, marker=marker)


def beat(held: HeldJob, actor: JobActor, progress: dict[str, object]) -> Operation[HeldJob | None]:
    """Write a sign of life. None: another worker has the job, or it is done; stop at once."""
    job = structs.replace(held.job, nonce=actor.nonce(), updated=actor.millis)
    version = yield from _swap_state(held.id, job, held.version, "beat")
    if version is None:
        return None
    lock = structs.replace(
        _build_lock(job.priority, actor, job.nonce, retries=job.charged - 1, attempt=job.attempt),
        started=job.started,
        progress=progress,
    )
    marker: str | None = None
    if held.marker is not None:
        marker = yield SwapObject(layout.processing(held.id), encode(lock), held.marker, "marker")
    if marker is None:  # a published janitor may have deleted it
        marker = yield CreateObject(layout.processing(held.id), encode(lock), "marker")
    return structs.replace(held, job=job, version=version, marker=marker)


def finish(held: HeldJob) -> Operation[bool | None]:
    """Store the result: that is the commit. False: there already was one, of another attempt or of this one
    whose answer was lost; the job is done either way. None: unknown; nothing was changed.
    """
    is_stored = yield CommitResult(layout.out(held.id))
    if not is_stored and not (yield CheckExists(layout.out(held.id))):
        return None
    yield from clear_markers(held.id)
    return bool(is_stored)


def fail(held: HeldJob, actor: JobActor, error: str) -> Operation[JobRecord | None]:
    """Record a failed attempt: the job waits for the janitor, or is dead after its last attempt."""
    last = held.job.charged >= actor.limit
    job = _ended_record(held, actor, state="dead" if last else "failed", error=shorten_error(error))
    version = yield from _swap_state(held.id, job, held.version, "fail")
    if version is None:
        return None
    yield from write_markers(held.id, job, actor)
    return job


def release(held: HeldJob, actor: JobActor, reason: str) -> Operation[JobRecord | None]:
    """Give the job back unfinished, through no fault of its own: this attempt does not count."""
    charged = max(0, held.job.charged - 1)
    job = structs.replace(_ended_record(held, actor, state="waiting", error=held.job.error), charged=charged)
    version = yield from _swap_state(held.id, job, held.version, "release")
    if version is None:
        return None
    yield from write_markers(held.id, job, actor, recovered_from=reason)
    return job


def clear_markers(ident: str) -> Operation[None]:
    """Delete everything but the result. Called only when the result exists: a result stays, so it does not
    matter how late these deletions take effect.
    """
    markers = (layout.processing(ident), layout.failed(ident), layout.dead(ident))
    yield DeleteObjects((*layout.todos(ident), *markers, layout.state(ident)))


def write_markers(
    ident: str,
    job: JobRecord,
    actor: JobActor,
    *,
    recovered_from: str = "",
    todos: Sequence[str] | None = None,
) -> Operation[None]:
    """Write the markers that belong to the state. They are hints: a janitor corrects markers written too
    late. `todos` are the keys of the todo markers that were seen; others stay and are not overwritten, as a
    person with a published tool may just have put one there.
    """
    todo, seen = layout.todo(job.priority, ident), layout.todos(ident) if todos is None else todos
    others = tuple(key for key in seen if key != todo)
    lock, failed, dead = layout.processing(ident), layout.failed(ident), layout.dead(ident)
    if job.state == "waiting":
        waiting = TodoMarker(
            retries=job.charged,
            queued_at=actor.millis,
            recovered_from=recovered_from,
            last_error=job.error,
            attempt=job.attempt,
            nonce=job.nonce,
        )
        is_new = todos is not None and todo not in todos
        yield CreateObject(todo, encode(waiting)) if is_new else PutObject(todo, encode(waiting))
        yield DeleteObjects((*others, lock, failed, dead))
    elif job.state == "failed":
        retries = max(0, job.charged - 1)
        failure = FailedMarker(
            error=job.error,
            worker=job.worker,
            failed_at=_format_time(actor),
            timestamp=actor.millis,
            retries=retries,
            priority=job.priority,
            attempt=job.attempt,
        )
        # The todo markers first: a person who sees that it failed may put one there at once.
        if seen:
            yield DeleteObjects(tuple(seen))
        yield PutObject(failed, encode(failure))
        yield DeleteObjects((lock, dead))
    elif job.state == "dead":
        death = DeadMarker(
            error=job.error,
            moved_to_dead_at=_format_time(actor),
            total_retries=job.charged,
            priority=job.priority,
            attempt=job.attempt,
        )
        if seen:
            yield DeleteObjects(tuple(seen))
        yield PutObject(dead, encode(death))
        yield DeleteObjects((lock, failed))


def _start_attempt(
    candidate: JobCandidate, actor: JobActor, nonce: str, todo: SeenTodo | None
) -> Operation[HeldJob | Refusal]:
    """The claim itself. A new job has no state object yet; a job that was tried has one."""
    # A published tool may have given it up since it was listed; the todo marker stays then.
    if not candidate.listed_now and (yield CheckExists(layout.dead(candidate.id))):
        return Refusal.AT_REST
    new = JobRecord(state="waiting", attempt=0, charged=0, nonce="", priority=candidate.tier)
    if candidate.blank:
        held = yield from _create_state(candidate, _running_record(new, actor, nonce))
        if held is not None:
            return held
    found = yield from read(layout.state(candidate.id))
    if found is None and candidate.blank:  # it was there a moment ago: finished and clear_markers
        return Refusal.TAKEN
    job = new if found is None else decode(found.body, JobRecord)
    if job is None or job.state != "waiting":
        return Refusal.AT_REST if job is not None and job.state in {"failed", "dead"} else Refusal.TAKEN
    job = job if todo is None else count_todo(job, todo, actor.limit)
    held = yield from _swap_claim(candidate, job, None if found is None else found.version, actor, nonce)
    return held or Refusal.TAKEN


def _swap_claim(
    candidate: JobCandidate, job: JobRecord, version: str | None, actor: JobActor, nonce: str
) -> Operation[HeldJob | None]:
    if job.charged >= actor.limit:
        yield from _give_up(candidate, job, version, actor)
        return None
    started = _running_record(structs.replace(job, priority=candidate.tier), actor, nonce)
    if version is None:
        return (yield from _create_state(candidate, started))
    written = yield from _swap_state(candidate.id, started, version, "claim")
    return None if written is None else HeldJob(id=candidate.id, job=started, version=written, marker=None)


def _create_state(candidate: JobCandidate, started: JobRecord) -> Operation[HeldJob | None]:
    version: str | None = yield CreateObject(layout.state(candidate.id), encode_state(started), "first claim")
    if version is None:
        version = yield from _find_own_write(layout.state(candidate.id), started.nonce)
    return None if version is None else HeldJob(id=candidate.id, job=started, version=version, marker=None)


def _give_up(
    candidate: JobCandidate, job: JobRecord, version: str | None, actor: JobActor
) -> Operation[None]:
    """Mark a job dead that has no attempts left, as tools that count differently leave it; it is not
    claimed.
    """
    dead = structs.replace(job, state="dead", nonce=actor.nonce(), updated=actor.millis)
    if version is None:
        written: str | None = yield CreateObject(
            layout.state(candidate.id), encode_state(dead), "first claim"
        )
    else:
        written = yield from _swap_state(candidate.id, dead, version, "claim")
    if written is not None:
        yield from write_markers(candidate.id, dead, actor)


def _running_record(job: JobRecord, actor: JobActor, nonce: str) -> JobRecord:
    return structs.replace(
        job,
        state="running",
        attempt=job.attempt + 1,
        charged=job.charged + 1,
        nonce=nonce,
        worker=actor.worker,
        started=actor.millis,
        updated=actor.millis,
    )


def _ended_record(held: HeldJob, actor: JobActor, *, state: str, error: str) -> JobRecord:
    return structs.replace(held.job, state=state, nonce=actor.nonce(), error=error, updated=actor.millis)


def _swap_state(ident: str, job: JobRecord, version: str, why: str) -> Operation[str | None]:
    key = layout.state(ident)
    written: str | None = yield SwapObject(key, encode_state(job), version, why)
    return written if written is not None else (yield from _find_own_write(key, job.nonce))


def _create_lock(key: str, lock: LockMarker, nonce: str) -> Operation[str | None]:
    version: str | None = yield CreateObject(key, encode(lock), "marker")
    if version is not None:
        return version
    found = yield from read(key)
    there = None if found is None else decode(found.body, LockMarker)
    return found.version if found is not None and there is not None and there.nonce == nonce else None


def _find_own_write(key: str, nonce: str) -> Operation[str | None]:
    """The version of our own write, if it took effect although the answer said that it was refused."""
    found = yield from read(key)
    there = None if found is None else decode(found.body, JobRecord)
    return found.version if found is not None and there is not None and there.nonce == nonce else None


def _build_lock(tier: str, actor: JobActor, nonce: str, *, retries: int, attempt: int) -> LockMarker:
    return LockMarker(
        worker=actor.worker,
        started=actor.millis,
        last_heartbeat=actor.millis,
        priority=tier,
        retries=max(0, retries),
        nonce=nonce,
        attempt=attempt,
    )


def _format_time(actor: JobActor) -> str:
    return datetime.fromtimestamp(actor.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
