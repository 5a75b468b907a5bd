"""JSON bodies of a job's objects: its state (`JobRecord`), and the markers as the published tools read them.

Promises: anything in the bucket can be read, whichever tool wrote it: an empty body, or one that is not
JSON, counts as one without content; numbers from outside are bounded; a listing shows the state of a job by
the size of its state object.
"""

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct, field

from quire.model.tiers import TIERS

DEFAULT_TIER = TIERS[2]
MAX_ERROR_CHARACTERS = 4000
State = Literal["waiting", "running", "failed", "dead"]
_Count = Annotated[int, Meta(ge=0, le=1_000_000)]
_Millis = Annotated[int, Meta(ge=0, le=2**53)]


class JobRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a job that has no result. `attempt` is the fence: it grows with every claim and never
    shrinks. `charged` counts the attempts that the limit is about: a graceful stop gives its own back.
    `nonce` is new with every write, so that no two bodies are equal and each writer recognises its own.
    `heard` is the digest of the last retry by a published tool that was honoured: each counts once.
    """

    state: State
    attempt: _Count
    charged: _Count
    nonce: str
    priority: str = DEFAULT_TIER
    worker: str = ""
    started: _Millis = 0
    updated: _Millis = 0
    error: str = ""
    heard: str = ""
    schema: int = 1


class LockMarker(Struct, frozen=True, kw_only=True):
    """`queue/processing/…`, for other tools and for people."""

    worker: str = ""
    started: _Millis = 0
    last_heartbeat: _Millis = 0
    priority: str = DEFAULT_TIER
    retries: _Count = 0
    progress: dict[str, Any] = field(default_factory=dict)
    nonce: str = ""
    attempt: _Count = 0


class TodoMarker(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`queue/todo/…`; ingest writes it empty. `attempt` is 0 and `nonce`, which is that of the state it was
    written for, is empty if another tool wrote it. The published `retry` calls the error `previous_error`.
    """

    retries: _Count = 0
    queued_at: _Millis = 0
    recovered_from: str = ""
    last_error: str | None = ""
    previous_error: str | None = ""
    attempt: _Count = 0
    nonce: str = ""


class FailedMarker(Struct, frozen=True, kw_only=True):
    """`queue/failed/…`. `priority` is read by published janitors, though no published worker writes it: then
    it is empty. `attempt` is 0 if another tool wrote it.
    """

    error: str = ""
    worker: str = ""
    failed_at: str = ""
    timestamp: _Millis = 0
    retries: _Count = 0
    priority: str = ""
    attempt: _Count = 0


class DeadMarker(Struct, frozen=True, kw_only=True):
    """`queue/dead/…`. `priority` and `attempt` as above."""

    error: str = ""
    moved_to_dead_at: str = ""
    total_retries: _Count = 0
    reason: str = "exceeded_max_retries"
    priority: str = ""
    attempt: _Count = 0


T = TypeVar("T", JobRecord, LockMarker, TodoMarker, FailedMarker, DeadMarker)


def encode(body: Struct) -> bytes:
    return msgspec.json.encode(body)


_STATES: tuple[State, ...] = ("waiting", "running", "failed", "dead")


def encode_state(job: JobRecord) -> bytes:
    """Padded with blanks, so that the size tells the state (`guess_state`)."""
    body = encode(job)
    return body + b" " * ((_STATES.index(job.state) - len(body)) % len(_STATES))


def guess_state(size: int) -> State:
    """The state of a job by the size of its state object, as a listing shows it. A hint: bodies written by
    earlier versions are not padded.
    """
    return _STATES[size % len(_STATES)]


def decode(body: bytes, kind: type[T]) -> T | None:
    """None: the body cannot be understood."""
    try:
        found = msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    if getattr(found, "priority", DEFAULT_TIER) in TIERS:
        return found
    unknown = "" if isinstance(found, FailedMarker | DeadMarker) else DEFAULT_TIER
    return msgspec.structs.replace(found, priority=unknown)


def shorten_error(error: str) -> str:
    return error if len(error) <= MAX_ERROR_CHARACTERS else error[: MAX_ERROR_CHARACTERS - 1] + "…"
