"""All that is known of one document of the library, and of who works there.

Promises: the state of a job is the truth, markers count where there is none; whatever others wrote is read as
far as it can be understood. Must not know: how it is shown.
"""

import asyncio
import re
from typing import Any

import msgspec
from msgspec import Struct, field

from quire.library.context import LibraryContext
from quire.library.listing import LOGS
from quire.library.protocol import layout, operator
from quire.library.protocol.bodies import MAX_ERROR_CHARACTERS, LockMarker
from quire.library.protocol.operator import JobStatus, JobView
from quire.model.errors import Missing, Reject
from quire.model.objects import ObjectInfo

AT_ONCE = 16
MOST_WORKERS = 1000
MAX_LOG_BYTES = 1 << 20
_LOG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class DocumentStatus(Struct, frozen=True, kw_only=True):
    """`attempts` are those that count; moments are seconds since the epoch, 0.0 where nobody said."""

    hash: str
    standing: JobStatus
    output: str = ""
    output_bytes: int = 0
    finished_at: float = 0.0
    error: str = ""
    worker: str = ""
    priority: str = ""
    attempts: int = 0
    started_at: float = 0.0
    heartbeat_at: float = 0.0
    progress: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    tags: list[str] = field(default_factory=list)
    size: int | None = None
    mishap: dict[str, Any] = field(default_factory=dict)  # error.json, the last one


async def read_status(room: LibraryContext, job: str) -> DocumentStatus:
    seat, result, told, mishap = await asyncio.gather(
        room.perform(operator.inspect_job(job)),
        room.objects.head(layout.out(job)),
        _source(room, job),
        read_error(room, job),
    )
    name, tags, size = told
    waits = seat.standing is JobStatus.QUEUED and bool(_priority(seat))
    before = await _read_previous_error(room, job, _priority(seat)) if waits else ""
    lock = seat.lock or LockMarker()
    known = seat.job
    done = seat.standing is JobStatus.DONE
    return DocumentStatus(
        hash=job,
        standing=seat.standing,
        output=layout.out(job) if done else "",
        output_bytes=result.size if done and result is not None else 0,
        finished_at=result.modified_at if done and result is not None else 0.0,
        error=before if waits else "" if done else _error(seat, mishap),
        worker=(known.worker if known is not None and known.worker else lock.worker) if not done else "",
        priority=_priority(seat),
        attempts=0 if known is None else known.charged,
        started_at=lock.started / 1000,
        heartbeat_at=lock.last_heartbeat / 1000,
        progress=lock.progress,
        name=name,
        tags=tags,
        size=size,
        mishap=mishap,
    )


def _priority(seat: JobView) -> str:
    if seat.job is not None:
        return seat.job.priority
    return "" if seat.lock is None else seat.lock.priority


def _error(seat: JobView, mishap: dict[str, Any]) -> str:
    if seat.job is not None and seat.job.error:
        return seat.job.error
    said = mishap.get("error", "")
    return said if isinstance(said, str) and seat.standing is not JobStatus.UNKNOWN else ""


async def _read_previous_error(room: LibraryContext, job: str, tier: str) -> str:
    """What a waiting job's marker says of the attempt before; published tools use two names for it."""
    found = await room.objects.read(layout.todo(tier, job))
    said = {} if found is None else _decode_object(found.body)
    words = (said.get(name) for name in ("last_error", "previous_error"))
    return next((text[:MAX_ERROR_CHARACTERS] for text in words if isinstance(text, str) and text), "")


async def _source(room: LibraryContext, job: str) -> tuple[str, list[str], int | None]:
    """Name, tags and size, from what is told with the stored PDF."""
    try:
        stored = await room.blobs.head(layout.raw(job))
    except Missing:
        return "", [], None
    try:
        tags = msgspec.json.decode(stored.metadata.get("tags", "[]"), type=list[str])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        tags = []
    return stored.metadata.get("original-name", ""), tags, stored.size


async def read_error(room: LibraryContext, job: str) -> dict[str, Any]:
    """The last error with its traceback, as a worker wrote it; empty when there is none."""
    return _decode_object(await read_bounded(room, f"{LOGS}/{layout.check_hash(job)}/error.json"))


class JobLogs(Struct, frozen=True, kw_only=True):
    """`error` is error.json; `text` the wanted log, None when there is none; `kinds` those there are."""

    error: dict[str, Any] = field(default_factory=dict)
    kinds: tuple[str, ...] = ()
    texts: dict[str, str] = field(default_factory=dict)


async def read_logs(room: LibraryContext, job: str, kind: str | None = None) -> JobLogs:
    """All logs of a job, or the one of this kind; `error` is one. Raises Reject for what is no kind."""
    if kind is not None and _LOG.fullmatch(kind) is None:
        raise Reject(f"{kind[:80]!r} is no kind of log: use letters, digits, - and _.", code="bad_log")
    folder = f"{LOGS}/{layout.check_hash(job)}"
    kinds = []
    async for page in room.objects.pages(folder):
        names = (seen.key.removeprefix(f"{folder}/") for seen in page)
        kinds += [name.removesuffix(".log") for name in names if name.endswith(".log")]
    kinds = sorted(name for name in kinds if _LOG.fullmatch(name))
    wanted = kinds if kind is None else [name for name in kinds if name == kind]
    bodies = await asyncio.gather(*(read_bounded(room, f"{folder}/{name}.log") for name in wanted[:AT_ONCE]))
    texts = {name: body.decode("utf-8", "replace") for name, body in zip(wanted, bodies, strict=False)}
    error = await read_error(room, job) if kind in {None, "error"} else {}
    return JobLogs(error=error, kinds=tuple(kinds), texts=texts)


class RegisteredWorker(Struct, frozen=True, kw_only=True):
    """`said` is the registration as it stands there; `seen_at` is when it was written, by the store."""

    worker_id: str
    status: str
    active: bool
    seen_at: float
    said: dict[str, Any]


async def list_workers(room: LibraryContext) -> list[RegisteredWorker]:
    """Those that ever registered, the last seen first. Active is who wrote lately and has not stopped."""
    seen = [one async for page in room.objects.pages(layout.WORKERS) for one in page]
    seen = [one for one in seen if one.key.endswith(".json")]
    latest = sorted(seen, key=lambda one: -one.modified_at)[:MOST_WORKERS]
    if not latest:
        return []
    now = await room.objects.now()
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(there: ObjectInfo) -> RegisteredWorker:
        async with gate:
            said = _decode_object(await read_bounded(room, there.key))
        name = there.key.removeprefix(f"{layout.WORKERS}/").removesuffix(".json")
        state = said.get("status")
        fresh = now - there.modified_at <= room.rules.stale_seconds
        return RegisteredWorker(
            worker_id=name,
            status=state if isinstance(state, str) else "unknown",
            active=fresh and state != "stopped",
            seen_at=there.modified_at,
            said=said,
        )

    return list(await asyncio.gather(*map(one, latest)))


async def read_bounded(room: LibraryContext, key: str) -> bytes:
    """Empty when it is not there; the end of what is too long."""
    seen = await room.objects.head(key)
    if seen is None:
        return b""
    if seen.size <= MAX_LOG_BYTES:
        found = await room.objects.read(key)
        return b"" if found is None else found.body[-MAX_LOG_BYTES:]
    start = seen.size - MAX_LOG_BYTES
    return b"".join([piece async for piece in room.blobs.stream(key, start=start, stop=seen.size)])


def _decode_object(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}
