"""The library's queue in a real S3 bucket: jobs per second and requests per job, from claim to commit.

Conversions do nothing: what is measured is the protocol. Workers are tasks of one process, on one machine
with the server, so read the ratios. Requests are counted on the wire, in runs of their own.
LIBRARY_SCALE=0.02
queues a fiftieth of the 50,000.
"""

import asyncio
import hashlib
import os
import tempfile
import time
import zipfile
from pathlib import Path

from msgspec import structs
from tests.servers.s3 import S3Server, s3_server, weed
from tests.situations.libraries import s3_library
from tests.standins.request_counter import Tap

from quire.library.context import LibraryContext
from quire.library.protocol import layout, lifecycle
from quire.library.worker.picker import JobPicker, idle_seconds

SCALE = float(os.environ.get("LIBRARY_SCALE", "1"))
QUEUED = (1_000, int(50_000 * SCALE))
WORKERS = (1, 8, 20)
JOBS = 300  # of each run
COUNTED = 200  # of each run whose requests are counted
AT_ONCE = 32
IDLE = 20


def pdf(number: int) -> bytes:
    return b"%PDF-1.4\n% document " + str(number).encode()


async def fill(context: LibraryContext, count: int) -> None:
    waiting = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        body = pdf(number)
        ident = hashlib.sha256(body).hexdigest()
        async with waiting:
            await context.blobs.put(layout.raw(ident), body)
            await context.objects.put(layout.todo("3_normal", ident), b"")

    for at in range(0, count, 1000):
        await asyncio.gather(*(one(number) for number in range(at, min(count, at + 1000))))


async def worker(context: LibraryContext, name: str, left: list[int], result: Path) -> None:
    """As the real one, without the child process, the heartbeat and the registration."""
    actor = context.actor(name)
    picker = JobPicker(context.objects, context.clock, context.ids, salt=name)
    while left[0] > 0:
        candidate = await picker.pick()
        if candidate is None:
            return
        held = await context.perform(lifecycle.claim(candidate, actor))
        if held is None:
            picker.skip(candidate)
            continue
        picker.reset_misses()
        left[0] -= 1
        await context.blobs.head(layout.raw(held.id))
        await context.blobs.get(layout.raw(held.id))
        assert await context.perform(lifecycle.finish(held), result=result)


async def fleet(context: LibraryContext, workers: int, jobs: int, result: Path) -> float:
    left = [jobs]
    began = time.perf_counter()
    await asyncio.gather(*(worker(context, f"w{number}", left, result) for number in range(workers)))
    return (jobs - left[0]) / (time.perf_counter() - began)


async def counted(server: S3Server, prefix: str, workers: int, result: Path) -> tuple[float, float]:
    """Requests of all kinds, and listings among them, per job."""
    async with Tap(server.endpoint) as tap:
        context = s3_library(structs.replace(server, endpoint=tap.endpoint), prefix)
        await fleet(context, workers, COUNTED, result)
        return tap.methods.total() / COUNTED, tap.methods["LIST"] / COUNTED


async def idle_listings(server: S3Server) -> tuple[float, float]:
    """What an empty poll costs, and how many listings a minute a fleet makes that has been idle for long."""
    async with Tap(server.endpoint) as tap:
        context = s3_library(structs.replace(server, endpoint=tap.endpoint), "empty")
        pickers = [JobPicker(context.objects, context.clock, context.ids, salt=str(no)) for no in range(IDLE)]
        for picker in pickers:
            assert await picker.pick() is None
        each = tap.methods.total() / IDLE
    return each, IDLE * each * 60 / idle_seconds(20, 0.5)


async def measure(server: S3Server, result: Path) -> dict[str, object]:
    rows: list[dict[str, object]] = []
    for queued in QUEUED:
        prefix = f"queued-{queued}"
        context = s3_library(server, prefix)
        began = time.perf_counter()
        await fill(context, queued)
        filled = time.perf_counter() - began
        for workers in WORKERS:
            requests, listings = await counted(server, prefix, workers, result)
            rows.append(
                {
                    "queued": queued,
                    "workers": workers,
                    "jobs/s": round(await fleet(context, workers, JOBS if queued > 1000 else 100, result), 1),
                    "requests/job": round(requests, 2),
                    "LIST/job": round(listings, 3),
                    "filled in s": round(filled, 1),
                }
            )
    each, minute = await idle_listings(server)
    return {
        "rows": rows,
        "requests_of_an_empty_poll": each,
        f"requests_per_minute_of_{IDLE}_idle_workers": round(minute, 1),
    }


def run() -> dict[str, object]:
    binary = weed()
    if binary is None:
        raise SystemExit("the S3 server is missing: make install")
    with tempfile.TemporaryDirectory() as folder, s3_server(binary) as server:
        result = Path(folder, "result.zip")
        with zipfile.ZipFile(result, "w") as archive:
            archive.writestr("content.md", "nothing\n")
        return asyncio.run(measure(server, result))
