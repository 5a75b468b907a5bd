"""Error reports and logs of jobs: `registry/logs/{id}/error.json` and `registry/logs/{id}/{kind}.log`.

Promises: writing is best effort, and a log that cannot be written never changes the outcome of a job; texts
are bounded; whatever other tools wrote is read as far as it can be understood.
"""

import asyncio
import re
from typing import Any

import msgspec
from msgspec import Struct, field

from quire.library.context import LibraryContext
from quire.library.protocol import layout
from quire.model.clock import timestamp
from quire.model.errors import QuireError, Reject

MAX_TRACEBACK_CHARACTERS = 20_000
MAX_WRITTEN_BYTES = 64 << 10
MAX_READ_BYTES = 1 << 20
CONVERSION = "conversion"  # the kind of the one log that our workers write
_AT_ONCE = 16
_KIND = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class ErrorContext(Struct, frozen=True, kw_only=True):
    stage: str
    worker_id: str
    retry_count: int
    max_retries: int


class ErrorReport(Struct, frozen=True, kw_only=True):
    """`error.json` as published tools write it."""

    error: str
    timestamp: str
    traceback: str
    context: ErrorContext


class JobLogs(Struct, frozen=True, kw_only=True):
    """`error` is error.json; `kinds` are all logs of the job; `texts` are the requested ones, by kind."""

    error: dict[str, Any] = field(default_factory=dict)
    kinds: tuple[str, ...] = ()
    texts: dict[str, str] = field(default_factory=dict)


def error_key(job: str) -> str:
    return f"{layout.logs(job)}/error.json"


def log_key(job: str, kind: str = CONVERSION) -> str:
    return f"{layout.logs(job)}/{kind}.log"


async def write_error(
    context: LibraryContext, job: str, *, error: str, traceback: str, log: str, failure: ErrorContext
) -> bool:
    """Write the error report, and the converter's log if there is one. False: the store did not take it."""
    report = ErrorReport(
        error=error,
        timestamp=timestamp(context.clock.now()),
        traceback=traceback[-MAX_TRACEBACK_CHARACTERS:],
        context=failure,
    )
    try:
        await context.objects.put(error_key(job), msgspec.json.encode(report))
        if log:
            await context.objects.put(log_key(job), log.encode(errors="replace")[-MAX_WRITTEN_BYTES:])
    except QuireError:
        return False
    return True


async def read_error(context: LibraryContext, job: str) -> dict[str, Any]:
    """The last error report as a worker wrote it; empty when there is none."""
    return decode_object(await read_bounded(context, error_key(job)))


async def read_logs(context: LibraryContext, job: str, kind: str | None = None) -> JobLogs:
    """All logs of a job, or the one of this kind; `error` is the error report. Raises Reject for a name that
    cannot be a kind of log.
    """
    if kind is not None and _KIND.fullmatch(kind) is None:
        raise Reject(f"{kind[:80]!r} is not a kind of log: use letters, digits, - and _.", code="bad_log")
    folder = layout.logs(job)
    kinds = []
    async for page in context.objects.pages(folder):
        names = (seen.key.removeprefix(f"{folder}/") for seen in page)
        kinds += [name.removesuffix(".log") for name in names if name.endswith(".log")]
    kinds = sorted(name for name in kinds if _KIND.fullmatch(name))
    wanted = kinds if kind is None else [name for name in kinds if name == kind]
    bodies = await asyncio.gather(*(read_bounded(context, log_key(job, name)) for name in wanted[:_AT_ONCE]))
    texts = {name: body.decode("utf-8", "replace") for name, body in zip(wanted, bodies, strict=False)}
    error = await read_error(context, job) if kind in {None, "error"} else {}
    return JobLogs(error=error, kinds=tuple(kinds), texts=texts)


async def read_bounded(context: LibraryContext, key: str) -> bytes:
    """An object's last `MAX_READ_BYTES`; empty when it does not exist."""
    seen = await context.objects.head(key)
    if seen is None:
        return b""
    if seen.size <= MAX_READ_BYTES:
        found = await context.objects.read(key)
        return b"" if found is None else found.body[-MAX_READ_BYTES:]
    start = seen.size - MAX_READ_BYTES
    return b"".join([piece async for piece in context.blobs.stream(key, start=start, stop=seen.size)])


def decode_object(body: bytes) -> dict[str, Any]:
    """A JSON object; empty when the body is not one."""
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}
