"""The situations of the explorer: one job's objects, and the actors that are about to do something to them.

The store here answers at once and correctly; a version is the bytes themselves, much like an ETag.
"""

from typing import Any, NamedTuple

from msgspec import Struct

from quire.library.protocol import layout
from quire.library.protocol.bodies import JobRecord, decode
from quire.library.protocol.lifecycle import HeldJob
from quire.library.protocol.requests import (
    CheckExists,
    CheckStale,
    CommitResult,
    CreateObject,
    DeleteObjects,
    PutObject,
    ReadObject,
    StoreRequest,
    SwapObject,
)
from quire.model.objects import ObjectBody

JOB = "0" * 64
TIER = "3_normal"
STATE, OUT = layout.state(JOB), layout.out(JOB)
Store = tuple[tuple[str, bytes], ...]  # sorted by key


class Budget(Struct, frozen=True, kw_only=True):
    """How much may happen. `drop`: the condition (`why` of a request) that is not kept."""

    workers: int = 2
    janitors: int = 2
    claims: int = 2  # of each worker
    passes: int = 1  # of each janitor
    beats: int = 1  # of each claim
    limit: int = 2
    crashes: int = 1
    lost: int = 1  # writes that take effect, although the answer says that they were refused
    releases: int = 1
    people: int = 0  # actions of an operator who retries or cancels the job
    their_janitors: int = 0  # published ones, each with one pass
    their_retries: int = 0  # runs of the published `retry`
    reset: bool = False  # with --reset-retries
    their_moves: int = 0  # runs of the published `reprioritize`
    start: str = "todo"  # or "failed", "dead": what became of the attempts before
    whole_deletions: bool = False  # keys of one deletion go at once: fewer situations
    drop: str = ""
    most: int = 30_000_000  # situations, before the exploration fails

    @property
    def is_mixed(self) -> bool:
        """Published tools take part."""
        return bool(self.their_janitors + self.their_retries + self.their_moves)


class CopyObject(Struct, frozen=True):
    """A copy made by the store, of published tools only. Answer: whether there was anything to copy."""

    key: str
    source: str


class Violation(NamedTuple):
    what: str
    trace: tuple[str, ...]


class Explored(NamedTuple):
    situations: int
    violations: dict[str, Violation]  # the shortest trace of each kind


class Actor(NamedTuple):
    """`op` is empty between two operations; `answers` are those it got. `left` counts what it may still
    begin.
    """

    name: str
    left: int
    op: str = ""
    args: tuple[Any, ...] = ()
    answers: tuple[Any, ...] = ()
    deleted: int = 0  # keys of the current request
    held: HeldJob | None = None
    beats: int = 0
    gone: bool = False


class Facts(NamedTuple):
    crashes: int
    lost: int
    releases: int
    begun: tuple[int, ...] = ()  # numbers of the attempts whose work began
    given_back: int = 0
    committed: int = 0
    judged: frozenset[int] = frozenset()  # attempts that were judged stale since their last beat
    disturbed: bool = False  # a crash, or an attempt was judged stale
    asked: int = 0  # todo markers of published retries
    asked_at: int = -1  # attempts begun before the last of them
    heard: int = 0  # of those, honoured
    moved_at: int = -1  # attempts begun before the last published `reprioritize` was complete


class Situation(NamedTuple):
    store: Store
    actors: tuple[Actor, ...]
    facts: Facts


class BrokenError(Exception):
    """Something happened that must never happen."""


def apply(store: dict[str, bytes], request: StoreRequest | CopyObject, *, kept: bool = True) -> Any:
    """Apply a request and return the answer; without `kept` the store ignores the condition."""
    if isinstance(request, CopyObject):
        return _copy(store, request)
    match request:
        case ReadObject(key):
            answer: Any = ObjectBody(store[key], store[key].hex()) if key in store else None
        case CheckExists(key):
            answer = key in store and kept
        case CommitResult(key):
            answer = key not in store or not kept
            if answer:
                store[key] = b"a result"
        case CreateObject(key) | SwapObject(key) | PutObject(key):
            done = _holds(store, request) or not kept
            if done:
                store[key] = request.body
            answer = request.body.hex() if done else None
        case DeleteObjects(keys):
            answer = [store.pop(key, None) for key in keys] and None
        case CheckStale():
            answer = True
    return answer


def _copy(store: dict[str, bytes], request: CopyObject) -> bool:
    if request.source in store:
        store[request.key] = store[request.source]
    return request.source in store


def _holds(store: dict[str, bytes], request: CreateObject | SwapObject | PutObject) -> bool:
    if isinstance(request, CreateObject):
        return request.key not in store
    return isinstance(request, PutObject) or (
        request.key in store and store[request.key].hex() == request.version
    )


def job_in(store: Store) -> JobRecord | None:
    return next((decode(body, JobRecord) for key, body in store if key == STATE), None)


def demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise BrokenError(otherwise)


def changed(
    here: Situation, no: int, actor: Actor, *, store: Store | None = None, facts: Facts | None = None
) -> Situation:
    actors = (*here.actors[:no], actor, *here.actors[no + 1 :])
    return Situation(here.store if store is None else store, actors, here.facts if facts is None else facts)


def trace_of(parents: dict[Situation, tuple[Situation | None, str]], last: Situation) -> tuple[str, ...]:
    moves: list[str] = []
    at: Situation | None = last
    while at is not None:
        at, how = parents[at]
        moves.append(how)
    return tuple(reversed(moves[:-1]))


def describe(request: StoreRequest | CopyObject) -> str:
    key = request.keys[0] if isinstance(request, DeleteObjects) else request.key
    short = key.replace(JOB, "job")
    return f"{type(request).__name__} {short}"
