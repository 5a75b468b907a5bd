"""kill -9 before every single change to the disk while an upload lands: all of it is there, or nothing."""

import subprocess
import sys

import pytest

# Forks where no thread is: the child is killed at its n-th change, the parent looks at what is left.
CHILD = """
import asyncio, hashlib, itertools, os, signal, sys, time
from pathlib import Path
from quire.blobs.presigned import Part
from quire.blobs.local import LocalBlobs
from quire.blobs.local.presigned import LocalLanding
from quire.model.errors import Missing, Reject
from quire.system import SystemClock

CHANGES = "copy_file_range fsync link mkdir open replace rename rmdir unlink utime write".split()
KEY, BODIES = "staging/a b", (b"1" * 3_000_000, b"2" * 70_000)
WHOLE = b"".join(BODIES)

def doom(at):
    count = itertools.count()
    def deadly(real):
        def call(*args, **more):
            if next(count) == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **more)
        return call
    for name in CHANGES:
        setattr(os, name, deadly(getattr(os, name)))

def opened(root):
    limits = {"max_blob_bytes": 1 << 30, "max_part_bytes": 1 << 30}
    return LocalLanding(root, secret=b"s" * 32, clock=SystemClock(), **limits)

async def put(landing, url, body):
    async def pieces():
        for start in range(0, len(body), 400_000):
            yield body[start : start + 400_000]
    return await landing.receive(url.rpartition("/")[2], pieces(), length=len(body))

async def whole_put(landing, upload_id, parts):
    await put(landing, await landing.put_url(KEY, seconds=60, base_url=""), WHOLE)

async def part_put(landing, upload_id, parts):
    urls = await landing.part_urls(KEY, upload_id, parts=2, seconds=60, base_url="")
    await put(landing, urls[0], BODIES[0])

async def join(landing, upload_id, parts):
    await landing.join(KEY, upload_id, parts)

async def give_up(landing, upload_id, parts):
    await landing.give_up(KEY, upload_id)

async def begun(landing):
    upload_id = await landing.begin(KEY, content_type="image/tiff")
    urls = await landing.part_urls(KEY, upload_id, parts=2, seconds=60, base_url="")
    return upload_id, [Part(n, await put(landing, u, b)) for n, (u, b) in enumerate(zip(urls, BODIES), 1)]

async def seen(blobs):
    found = [stored.key async for stored in blobs.list()]
    if not found:
        return False
    assert found == [KEY], found
    assert await blobs.get(KEY) == WHOLE
    assert (await blobs.head(KEY)).metadata == {"sha256": hashlib.sha256(WHOLE).hexdigest()}
    return True

async def look(root, scene, upload_id, parts):
    blobs, landing = LocalBlobs(root), opened(root)
    landed = await seen(blobs)
    assert not landed or scene in (whole_put, join)
    try:
        await landing.join(KEY, upload_id, parts)
    except Missing:
        assert landed or scene is give_up
    else:
        assert await seen(blobs)
    landed = await seen(blobs)
    await blobs.sweep(0, time.time() + 60, uploads_older_than_seconds=0)
    assert [path for own in (".tmp", ".parts") for path in (root / own).iterdir()] == []
    assert await seen(blobs) == landed

def main():
    scene = {"whole": whole_put, "part": part_put, "join": join, "give_up": give_up}[sys.argv[2]]
    for at in itertools.count():
        root = Path(sys.argv[1]) / str(at)
        LocalBlobs(root)
        upload_id, parts = asyncio.run(begun(opened(root)))
        child = os.fork()
        if not child:
            landing = opened(root)
            doom(at)
            asyncio.run(scene(landing, upload_id, parts))
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        assert os.WIFEXITED(status) or os.WTERMSIG(status) == signal.SIGKILL
        asyncio.run(look(root, scene, upload_id, parts))
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            print(at)
            return

main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("scene", ["whole", "part", "join", "give_up"])
def test_whoever_is_killed_leaves_all_or_nothing(tmp_path, scene):
    ran = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path), scene], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 10  # changes before each of which it was killed once
