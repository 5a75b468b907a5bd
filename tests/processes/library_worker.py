"""A worker or a janitor of the library in a process of its own, for tests that kill and replace them.

    python -m tests.processes.library_worker '{"root": "…", "scratch": "…", "log": "…"}'

Writes a line to one file for each job that ended; ends on SIGTERM, after it has released its job.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from quire.assembly.worker_blobs import S3Access, open_store
from quire.blobs.objects import BlobObjects
from quire.library.context import LibraryContext, LibraryRules
from quire.library.janitor import sweep
from quire.library.worker.loop import WorkerEvent, work
from quire.model.objects import Objects
from quire.system import SystemClock, SystemIds
from tests.situations.libraries import worker_options


class Plan(Struct, frozen=True, kw_only=True):
    """In the folder `root`, or in S3 when there is access to it."""

    root: str
    scratch: str
    log: str
    s3: S3Access | None = None
    janitor: bool = False
    stale_seconds: float = 2.0
    heartbeat_seconds: float = 0.3
    sweep_seconds: float = 1.0
    max_retries: int = 1000


class Line(Struct, frozen=True, array_like=True):
    kind: str
    job: str
    outcome: str


def open_library(plan: Plan, *, stale_seconds: float | None = None) -> LibraryContext:
    blobs, ids = open_store(Path(plan.root), plan.s3), SystemIds()
    objects: Objects = BlobObjects(blobs, ids)
    if plan.s3 is not None:
        from quire.blobs.s3.objects import S3Objects

        objects = S3Objects(clock=SystemClock(), ids=ids, **plan.s3.address())
    rules = LibraryRules(
        max_retries=plan.max_retries,
        heartbeat_seconds=plan.heartbeat_seconds,
        stale_seconds=plan.stale_seconds if stale_seconds is None else stale_seconds,
    )
    return LibraryContext(objects=objects, blobs=blobs, clock=SystemClock(), ids=ids, rules=rules)


async def main(plan: Plan) -> None:
    context = open_library(plan)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    if plan.janitor:
        while not stop.is_set():
            await sweep(context)
        return
    log = os.open(plan.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def log_event(event: WorkerEvent) -> None:
        outcome = "" if event.report is None else event.report.outcome.value
        os.write(log, msgspec.json.encode(Line(event.kind.value, event.job, outcome)) + b"\n")

    options = worker_options(Path(plan.scratch), sweep_seconds=plan.sweep_seconds)
    await work(context, options, stop, on_event=log_event)


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Plan)))
