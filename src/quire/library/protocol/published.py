"""What published tools did to a job, read from the markers that they left.

Published tools know no state objects: a retry, a change of priority, an attempt or a death of theirs shows
in markers alone. Promises: a retry that a person asked for with a published tool is honoured, and once; the
priority that a marker shows wins over the one that nobody chose; our own markers, which may come late,
count for nothing. Pure: see `requests`.
"""

import hashlib
from collections.abc import Sequence

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
    shorten_error,
)
from quire.library.protocol.requests import Operation, read
from quire.model.tiers import TIERS

BY_HAND = "manual_retry_"  # how `recovered_from` begins in the marker of a retry


class SeenTodo(Struct, frozen=True, kw_only=True):
    """A todo marker as it was read. `digest` tells it from any other."""

    tier: str
    marker: TodoMarker
    digest: str

    @property
    def is_foreign(self) -> bool:
        return self.marker.attempt == 0 and not self.marker.nonce

    @property
    def is_retry(self) -> bool:
        """A person ran the published `retry`."""
        return self.is_foreign and self.marker.recovered_from.startswith(BY_HAND)

    @property
    def error(self) -> str:
        return shorten_error(self.marker.last_error or self.marker.previous_error or "")


class ForeignTraces(Struct, frozen=True, kw_only=True):
    """Markers of published tools at one job; None: there is none, or it is ours. `silent` is the lock of a
    worker that was not heard of for too long.
    """

    todos: tuple[SeenTodo, ...] = ()
    death: DeadMarker | None = None
    failure: FailedMarker | None = None
    silent: LockMarker | None = None


class ForeignAttempt(Struct, frozen=True, kw_only=True):
    """An attempt of a published tool. `charged` includes it."""

    charged: int
    error: str
    is_silent: bool = False
    is_dead: bool = False


def read_todo(tier: str, ident: str) -> Operation[SeenTodo | None]:
    found = yield from read(layout.todo(tier, ident))
    if found is None:
        return None
    marker = decode(found.body, TodoMarker) or TodoMarker()
    return SeenTodo(tier=tier, marker=marker, digest=hashlib.sha256(found.body).hexdigest()[:16])


def read_todos(ident: str) -> Operation[tuple[SeenTodo, ...]]:
    """The todo markers of a job, the most urgent first."""
    seen: list[SeenTodo] = []
    for tier in TIERS:
        todo = yield from read_todo(tier, ident)
        if todo is not None:
            seen.append(todo)
    return tuple(seen)


def find_retry(job: JobRecord | None, todos: Sequence[SeenTodo]) -> SeenTodo | None:
    """A retry by a published tool that was not honoured yet."""
    heard = "" if job is None else job.heard
    return next((one for one in todos if one.is_retry and one.digest != heard), None)


def apply_retry(job: JobRecord, wish: SeenTodo, limit: int, traces: ForeignTraces | None = None) -> JobRecord:
    """The job waits again where the person put it, with the number of attempts that their tool wrote and at
    least one left. An attempt that a published worker has made since counts.
    """
    since = () if traces is None else (traces.failure, traces.silent)
    has_tried = any(one is not None and one.retries == wish.marker.retries for one in since)
    tried = wish.marker.retries + has_tried
    return structs.replace(
        job,
        state="waiting",
        attempt=max(job.attempt, tried),
        charged=min(tried, max(0, limit - 1)),
        priority=wish.tier,
        error=wish.error or job.error,
        heard=wish.digest,
    )


def count_todo(job: JobRecord, todo: SeenTodo, limit: int) -> JobRecord:
    """A waiting job as its todo marker shows it: a published tool may have retried or counted it."""
    if find_retry(job, (todo,)) is not None:
        return apply_retry(job, todo, limit)
    tried = todo.marker.retries
    if tried <= job.charged or todo.digest == job.heard or not (todo.is_foreign or job.attempt == 0):
        return job
    return structs.replace(job, attempt=max(job.attempt, tried), charged=tried)


def choose_tier(job: JobRecord, todos: Sequence[SeenTodo]) -> str:
    """The priority in which the job waits. The published `reprioritize` copies the marker of the current
    state and deletes the original, so the copy wins; any other second marker is an old one.
    """
    copied = (one.tier for one in todos if one.marker.nonce and one.marker.nonce == job.nonce)
    moved = next((tier for tier in copied if tier != job.priority), "")
    tiers = [one.tier for one in todos]
    if moved or not tiers or job.priority in tiers:
        return moved or job.priority
    return choose_foreign_tier("", todos)


def choose_foreign_tier(said: str, todos: Sequence[SeenTodo]) -> str:
    """The priority of a job without a state: what its marker says, or the todo marker that is not in the
    default tier, where published janitors put every job.
    """
    tiers = [one.tier for one in todos]
    chosen = next((tier for tier in tiers if tier != DEFAULT_TIER), "")
    return said or chosen or DEFAULT_TIER


def find_foreign_attempt(job: JobRecord, traces: ForeignTraces) -> ForeignAttempt | None:
    """Published tools count from the number in our markers: a higher one means that one of them has tried
    the job since.
    """
    death, failure, silent = traces.death, traces.failure, traces.silent
    if death is not None:
        charged = max(job.charged, death.total_retries)
        return ForeignAttempt(charged=charged, error=death.error, is_dead=True)
    if failure is not None and failure.retries >= job.charged:
        return ForeignAttempt(charged=failure.retries + 1, error=failure.error)
    if silent is not None and silent.retries >= job.charged:
        error = f"the worker {silent.worker} went silent"
        return ForeignAttempt(charged=silent.retries + 1, error=error, is_silent=True)
    foreign = (one for one in traces.todos if one.is_foreign and one.digest != job.heard)
    counted = [one for one in foreign if one.marker.retries > job.charged]
    if counted:  # by a published janitor
        most = max(counted, key=lambda one: one.marker.retries)
        return ForeignAttempt(charged=most.marker.retries, error=most.error)
    return None


def read_death(ident: str) -> Operation[DeadMarker | None]:
    """The dead marker, whose ever it is."""
    found = yield from read(layout.dead(ident))
    return None if found is None else decode(found.body, DeadMarker) or DeadMarker()


def read_failure(ident: str) -> Operation[FailedMarker | None]:
    """An unreadable marker counts as an empty one, not as a missing one."""
    found = yield from read(layout.failed(ident))
    return None if found is None else decode(found.body, FailedMarker) or FailedMarker()


def read_lock(ident: str) -> Operation[LockMarker | None]:
    found = yield from read(layout.processing(ident))
    return None if found is None else decode(found.body, LockMarker) or LockMarker()
