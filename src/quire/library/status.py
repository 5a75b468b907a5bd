"""Everything known about one document of the library.

Promises: the state object of a job is the truth, markers count where there is none; whatever other tools
wrote is read as far as it can be understood. Must not know: how the status is shown.
"""

import asyncio
from typing import Any

from msgspec import Struct, field

from quire.library import logs
from quire.library.context import LibraryContext
from quire.library.metadata import SourceMetadata, decode_metadata
from quire.library.protocol import layout, operator
from quire.library.protocol.bodies import MAX_ERROR_CHARACTERS, LockMarker
from quire.library.protocol.operator import JobStatus, JobView
from quire.model.errors import Missing


class DocumentStatus(Struct, frozen=True, kw_only=True):
    """`attempts` are those that count towards the limit; times are in seconds since the epoch or 0.0."""

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


async def read_status(context: LibraryContext, job: str) -> DocumentStatus:
    view, result, source, report = await asyncio.gather(
        context.perform(operator.inspect_job(job)),
        context.objects.head(layout.out(job)),
        _read_source(context, job),
        logs.read_error(context, job),
    )
    is_waiting = view.status is JobStatus.QUEUED and bool(view.priority)
    previous = await _read_previous_error(context, job, view.priority) if is_waiting else ""
    lock = view.lock or LockMarker()
    known = view.job
    is_done = view.status is JobStatus.DONE
    return DocumentStatus(
        hash=job,
        standing=view.status,
        output=layout.out(job) if is_done else "",
        output_bytes=result.size if is_done and result is not None else 0,
        finished_at=result.modified_at if is_done and result is not None else 0.0,
        error=previous if is_waiting else "" if is_done else _choose_error(view, report),
        worker=(known.worker if known is not None and known.worker else lock.worker) if not is_done else "",
        priority=view.priority,
        attempts=0 if known is None else known.charged,
        started_at=lock.started / 1000,
        heartbeat_at=lock.last_heartbeat / 1000,
        progress=lock.progress,
        name=source.name,
        tags=source.tags,
        size=source.size,
        mishap=report,
    )


def _choose_error(view: JobView, report: dict[str, Any]) -> str:
    if view.job is not None and view.job.error:
        return view.job.error
    error = report.get("error", "")
    return error if isinstance(error, str) and view.status is not JobStatus.UNKNOWN else ""


async def _read_previous_error(context: LibraryContext, job: str, tier: str) -> str:
    """The error of the previous attempt in a waiting job's marker; published tools use two names for it."""
    found = await context.objects.read(layout.todo(tier, job))
    marker = {} if found is None else logs.decode_object(found.body)
    words = (marker.get(name) for name in ("last_error", "previous_error"))
    return next((text[:MAX_ERROR_CHARACTERS] for text in words if isinstance(text, str) and text), "")


async def _read_source(context: LibraryContext, job: str) -> SourceMetadata:
    """Name and tags from the metadata of the stored PDF, and its real size."""
    try:
        stored = await context.blobs.head(layout.raw(job))
    except Missing:
        return SourceMetadata()
    said = decode_metadata(stored.metadata)
    return SourceMetadata(name=said.name, tags=said.tags, size=stored.size)
