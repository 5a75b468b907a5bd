"""What the library's index costs, and an ingest: bytes and seconds by the number of documents.

In memory, so that it is our own work that is measured. `naive` is what the published tools write: the whole
index for every fifty entries. LIBRARY_SCALE=0.1 takes a tenth of the documents.
"""

import asyncio
import os
import tempfile
import time
import tracemalloc
from pathlib import Path

from msgspec import structs
from tests.situations.libraries import CountingObjects, memory_library, pdf

from quire.library.ingest.run import ingest
from quire.library.manifest import search as catalogue
from quire.library.manifest.entries import ManifestEntry
from quire.library.manifest.store import LibraryManifest

SCALE = float(os.environ.get("LIBRARY_SCALE", "1"))
BATCH = 50


def _entry(number: int) -> tuple[str, ManifestEntry]:
    folder, name = f"Publisher {number % 97}/Series {number % 13}", f"Volume {number:05d} of the rules"
    return f"{number:064x}", ManifestEntry(
        paths=[f"{folder}/{name}.pdf"],
        size=50_000_000 + number,
        tags=[*folder.split("/"), name],
        ingested_at="2026-02-01T08:00:00Z",
        source="library",
    )


async def index(count: int) -> dict[str, object]:
    """Entries in batches of fifty, then one reading and one search."""
    context = memory_library()
    counting = CountingObjects(context.objects)
    manifest = LibraryManifest(structs.replace(context, objects=counting))
    started = time.perf_counter()
    for at in range(0, count, BATCH):
        await manifest.add(dict(_entry(number) for number in range(at, min(count, at + BATCH))))
    await manifest.compact()
    added = time.perf_counter()
    written, requests = counting.written, counting.counts.total()
    tracemalloc.start()
    view = await manifest.read()
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(view) == count
    searched = time.perf_counter()
    assert catalogue.search(view, f"volume {count - 1:05d}")
    whole = await context.objects.head("registry/manifest.json")
    assert whole is not None
    batches = count // BATCH
    return {
        "entries": count,
        "index_mb": round(whole.size / 1e6, 1),
        "written_mb": round(written / 1e6, 1),
        "naive_mb": round(whole.size / count * BATCH * batches * (batches + 1) / 2 / 1e6, 1),
        "requests": requests,
        "seconds": round(added - started, 2),
        "view_mb": round(held / 1e6, 1),
        "peak_mb": round(peak / 1e6, 1),
        "search_s": round(time.perf_counter() - searched, 3),
    }


def index_of_50000() -> dict[str, object]:
    return asyncio.run(index(50_000))


async def _files(count: int) -> tuple[float, float]:
    """Small PDFs from a folder: the first time, and again when nothing is new."""
    with tempfile.TemporaryDirectory(prefix="quire-bench-") as folder:
        for number in range(count):
            path = Path(folder, str(number % 50), f"{number}.pdf")
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(pdf(str(number)))
        context = memory_library()
        started = time.perf_counter()
        assert (await ingest(context, [folder])).queued == count
        first = time.perf_counter()
        assert (await ingest(context, [folder])).skipped == count
        return first - started, time.perf_counter() - first


def run() -> dict[str, object]:
    rows = [asyncio.run(index(int(count * SCALE))) for count in (1_000, 5_000, 50_000)]
    count = int(5_000 * SCALE)
    first, again = asyncio.run(_files(count))
    return {
        "rows": rows,
        "pdfs_per_second": round(count / first),
        "pdfs_per_second_when_known": round(count / again),
    }
