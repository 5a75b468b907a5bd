"""Who is at work: `registry/workers/{id}.json`, as the published tools write and read it.

Promise: written at the start, at most once a minute, and at the end; best effort, for people alone: nothing
is decided by it.
"""

import os
import platform
import socket
from typing import Literal

import msgspec
from msgspec import Struct, structs

from quire.library.context import LibraryContext
from quire.library.protocol import layout
from quire.model.clock import timestamp
from quire.model.errors import QuireError

WorkerStatus = Literal["active", "processing", "idle", "stopped"]
WRITE_SECONDS = 60.0


class WorkerMetrics(Struct, frozen=True, kw_only=True):
    session_start: str
    session_duration_seconds: float = 0.0
    jobs_completed: int = 0
    jobs_failed: int = 0
    bytes_processed: int = 0
    avg_processing_time: float = 0.0
    jobs_per_hour: float = 0.0


class Registration(Struct, frozen=True, kw_only=True):
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
    def __init__(self, room: LibraryContext, worker: str) -> None:
        self._room = room
        self._began = room.clock.monotonic()
        self._written_at: float | None = None
        self._spent_seconds = 0.0
        now = timestamp(room.clock.now())
        self._now = Registration(
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

    async def show(self, status: WorkerStatus, job: str | None = None) -> None:
        """What it is at; written when that was not done for a while, or when it is the end."""
        stopped = timestamp(self._room.clock.now()) if status == "stopped" else None
        self._now = structs.replace(self._now, status=status, current_job=job, stopped_at=stopped)
        written_at, now = self._written_at, self._room.clock.monotonic()
        if stopped is None and written_at is not None and now - written_at < WRITE_SECONDS:
            return
        self._written_at = now
        self._now = structs.replace(
            self._now,
            last_heartbeat=timestamp(self._room.clock.now()),
            metrics=self._metrics(now),
        )
        try:
            await self._room.objects.put(key(self._now.worker_id), msgspec.json.encode(self._now))
        except QuireError:
            return  # the next minute's may get through

    def completed(self, size: int, seconds: float) -> None:
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

    def failed(self) -> None:
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
