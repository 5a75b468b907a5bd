"""kill -9 before and after every write of an ingest; run again, the library is as if nothing had happened."""

import subprocess
import sys

import pytest

# Forks where no thread is: one child is killed at its n-th write, the next one runs to the end.
DRIVER = """
import asyncio, json, os, signal, sys
from pathlib import Path
from quire.blobs.local import LocalBlobs
from quire.library.ingest import upload
from quire.library.ingest.run import IngestOptions, ingest
from quire.library.manifest.store import LibraryManifest
from tests.situations.libraries import build_library, pdf

upload.SMALL_BYTES = 100
base = Path(sys.argv[1])
for number in range(5):
    path = base / "in" / f"folder {number % 2}" / f"{number}.pdf"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pdf(str(number % 4) * (200 if number % 2 else 1)))

class Deadly(LocalBlobs):
    def __init__(self, root, at, late):
        super().__init__(root)
        self.at, self.late, self.count = at, late, 0
    async def write(self, real):
        self.count += 1
        mine = self.count == self.at
        if mine and not self.late:
            os.kill(os.getpid(), signal.SIGKILL)
        answer = await real
        if mine:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer
    async def put(self, *arguments, **more):
        return await self.write(super().put(*arguments, **more))
    async def delete(self, *arguments):
        return await self.write(super().delete(*arguments))

def forked(work):
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(work())
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
    return os.waitpid(child, 0)[1]

async def run(blobs):
    context = build_library(blobs)
    tally = await ingest(context, [base / "in"], IngestOptions(at_once=2))
    assert (tally.failed, tally.problems) == (0, []), tally
    return context

async def finish(store, report):
    context = await run(LocalBlobs(store))
    found = {}
    for place in ("queue", "store"):
        async for stored in context.blobs.list(place):
            found[stored.key] = len(await context.blobs.get(stored.key))
    view = await LibraryManifest(context).read()
    found |= {hit.hash: [sorted(hit.entry.paths), hit.entry.size] for hit in view.hits()}
    report.write_text(json.dumps(found, sort_keys=True))

def outcome(name, at, late):
    store, report = base / name, base / f"{name}.json"
    ended = forked(lambda: run(Deadly(store, at, late)))
    assert ended in (0, signal.SIGKILL), ended
    assert forked(lambda: finish(store, report)) == 0
    return ended, report.read_text()

_, expected = outcome("whole", 0, False)
kills = 0
for late in (False, True):
    at = 1
    while True:
        ended, found = outcome(f"{late}-{at}", at, late)
        assert found == expected, (late, at, found, expected)
        if ended == 0:
            break
        kills, at = kills + 1, at + 1
print(kills, expected)
"""


@pytest.mark.slow
def test_killed_at_every_write_and_run_again(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", DRIVER, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    kills, _, found = ran.stdout.partition(" ")
    assert int(kills) >= 2 * (4 + 4 + 2)  # sources, markers, and two writes of the index, twice each
    assert found.count("queue/todo/3_normal/") == found.count("store/raw/") == 4
