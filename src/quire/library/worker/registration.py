"""Registrations of workers: `registry/workers/{id}.json`, as the published tools write and read them.

Promises: a worker writes its registration when it starts, at most once a minute, and when it stops; best
effort, for people only: nothing is decided by it. Any tool's registrations are read as far as they can be
understood.
"""

import asyncio
import os
import platform
import socket
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from quire.library import logs
from quire.library.context import LibraryContext
from quire.library.protocol import layout
from quire.library.worker import slots
from quire.model.clock import timestamp
from quire.model.errors import QuireError
from quire.model.objects import ObjectInfo

WorkerStatus = Literal["active", "processing", "idle", "stopped"]
WRITE_SECONDS = 60.0
MAX_LISTED = 1000
_AT_ONCE = 16


class WorkerMetrics(Struct, frozen=True, kw_only=True):
    session_start: str
    session_duration_seconds: float = 0.0
    jobs_completed: int = 0
    jobs_failed: int = 0
    bytes_processed: int = 0
    avg_processing_time: float = 0.0
    jobs_per_hour: float = 0.0


class RegistrationBody(Struct, frozen=True, kw_only=True):
    worker_id: str
    hostname: str
    platform: str
    platform_release: str
    python_version: str
    cpu_count: int
    memory_gb: float
    registered_at: str
    pid: int
    last_heartbeat: str
    status: WorkerStatus
    metrics: WorkerMetrics
    current_job: str | None = None
    stopped_at: str | None = None


def key(worker: str) -> str:
    return f"{layout.WORKERS}/{slots.check_worker_id(worker)}.json"


class WorkerRegistration:
    def __init__(self, context: LibraryContext, worker: str) -> None:
        self._context = context
        self._began = context.clock.monotonic()
        self._written_at: float | None = None
        self._spent_seconds = 0.0
        now = timestamp(context.clock.now())
        self._now = RegistrationBody(
            worker_id=worker,
            hostname=socket.gethostname(),
            platform=platform.system(),
            platform_release=platform.release(),
            python_version=platform.python_version(),
            cpu_count=os.cpu_count() or 1,
            memory_gb=_memory_gb(),
            registered_at=now,
            pid=os.getpid(),
            last_heartbeat=now,
            status="active",
            metrics=WorkerMetrics(session_start=now),
        )

    async def update(self, status: WorkerStatus, job: str | None = None) -> None:
        """Set the status; the registration is written when the last write is a minute old, or the worker
        stops.
        """
        stopped = timestamp(self._context.clock.now()) if status == "stopped" else None
        self._now = structs.replace(self._now, status=status, current_job=job, stopped_at=stopped)
        written_at, now = self._written_at, self._context.clock.monotonic()
        if stopped is None and written_at is not None and now - written_at < WRITE_SECONDS:
            return
        self._written_at = now
        self._now = structs.replace(
            self._now, last_heartbeat=timestamp(self._context.clock.now()), metrics=self._metrics(now)
        )
        try:
            await self._context.objects.put(key(self._now.worker_id), msgspec.json.encode(self._now))
        except QuireError:
            return  # the next write may get through

    def count_completed(self, size: int, seconds: float) -> None:
        metrics = self._now.metrics
        self._spent_seconds += seconds
        done = metrics.jobs_completed + 1
        metrics = structs.replace(
            metrics,
            jobs_completed=done,
            bytes_processed=metrics.bytes_processed + size,
            avg_processing_time=round(self._spent_seconds / done, 3),
        )
        self._now = structs.replace(self._now, metrics=metrics)

    def count_failed(self) -> None:
        metrics = self._now.metrics
        metrics = structs.replace(metrics, jobs_failed=metrics.jobs_failed + 1)
        self._now = structs.replace(self._now, metrics=metrics)

    def _metrics(self, now: float) -> WorkerMetrics:
        seconds = max(0.0, now - self._began)
        done = self._now.metrics.jobs_completed
        return structs.replace(
            self._now.metrics,
            session_duration_seconds=round(seconds, 3),
            jobs_per_hour=round(done * 3600 / seconds, 3) if seconds else 0.0,
        )


def _memory_gb() -> float:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError):
        return 0.0


class RegisteredWorker(Struct, frozen=True, kw_only=True):
    """`said` is the registration as it was written; `seen_at` is when, by the store's clock."""

    worker_id: str
    status: str
    active: bool
    seen_at: float
    said: dict[str, Any]


async def list_workers(context: LibraryContext) -> list[RegisteredWorker]:
    """All workers that ever registered, the last seen first. A worker is active when it wrote its
    registration lately and did not stop.
    """
    seen = [one async for page in context.objects.pages(layout.WORKERS) for one in page]
    seen = [one for one in seen if one.key.endswith(".json")]
    latest = sorted(seen, key=lambda one: -one.modified_at)[:MAX_LISTED]
    if not latest:
        return []
    now = await context.objects.now()
    gate = asyncio.Semaphore(_AT_ONCE)

    async def read_one(there: ObjectInfo) -> RegisteredWorker:
        async with gate:
            said = logs.decode_object(await logs.read_bounded(context, there.key))
        name = there.key.removeprefix(f"{layout.WORKERS}/").removesuffix(".json")
        status = said.get("status")
        is_fresh = now - there.modified_at <= context.rules.stale_seconds
        return RegisteredWorker(
            worker_id=name,
            status=status if isinstance(status, str) else "unknown",
            active=is_fresh and status != "stopped",
            seen_at=there.modified_at,
            said=said,
        )

    return list(await asyncio.gather(*map(read_one, latest)))
