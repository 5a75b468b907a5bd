"""What went wrong, kept with the job: `registry/logs/{id}/error.json`, and what the converter said last.

Promise: best effort; that a log could not be written never changes what becomes of the job. All texts are
bounded. Must not know: who reads them.
"""

import msgspec
from msgspec import Struct

from quire.library.context import LibraryContext
from quire.library.protocol import layout
from quire.model.clock import timestamp
from quire.model.errors import QuireError

LOGS = "registry/logs"
MAX_TRACEBACK_CHARACTERS = 20_000
MAX_LOG_BYTES = 64 << 10
CONVERSION = "conversion"  # the type of the one log that we write


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


def error_key(job: str) -> str:
    return f"{LOGS}/{layout.check_hash(job)}/error.json"


def log_key(job: str, kind: str = CONVERSION) -> str:
    return f"{LOGS}/{layout.check_hash(job)}/{kind}.log"


async def write_error(
    room: LibraryContext, job: str, *, error: str, traceback: str, log: str, context: ErrorContext
) -> bool:
    """Whether all of it was written."""
    mishap = ErrorReport(
        error=error,
        timestamp=timestamp(room.clock.now()),
        traceback=traceback[-MAX_TRACEBACK_CHARACTERS:],
        context=context,
    )
    try:
        await room.objects.put(error_key(job), msgspec.json.encode(mishap))
        if log:
            await room.objects.put(log_key(job), log.encode(errors="replace")[-MAX_LOG_BYTES:])
    except QuireError:
        return False
    return True


def error_context(stage: str, worker: str, charged: int, max_retries: int) -> ErrorContext:
    return ErrorContext(stage=stage, worker_id=worker, retry_count=max(0, charged - 1), max_retries=max_retries)
