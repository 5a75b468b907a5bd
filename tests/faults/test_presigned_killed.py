"""kill -9 before every single change to the disk while an upload is stored: all of it, or nothing."""

import subprocess
import sys

import pytest

# Forks where no thread is: the child is killed at its n-th change, the parent looks at what is left.
CHILD = """
import asyncio, hashlib, itertools, os, signal, sys, time
from pathlib import Path
from quire.blobs.presigned_uploads import CompletedPart
from quire.blobs.local import LocalBlobs
from quire.blobs.local.presigned_uploads import LocalPresignedUploads
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

def open_presigned(root):
    limits = {"max_blob_bytes": 1 << 30, "max_part_bytes": 1 << 30}
    return LocalPresignedUploads(root, secret=b"s" * 32, clock=SystemClock(), **limits)

async def put(presigned, url, body):
    async def pieces():
        for start in range(0, len(body), 400_000):
            yield body[start : start + 400_000]
    return await presigned.receive(url.rpartition("/")[2], pieces(), length=len(body))

async def whole_put(presigned, upload_id, parts):
    await put(presigned, await presigned.sign_put(KEY, seconds=60, base_url=""), WHOLE)

async def part_put(presigned, upload_id, parts):
    urls = await presigned.sign_parts(KEY, upload_id, parts=2, seconds=60, base_url="")
    await put(presigned, urls[0], BODIES[0])

async def join(presigned, upload_id, parts):
    await presigned.join(KEY, upload_id, parts)

async def abort(presigned, upload_id, parts):
    await presigned.abort(KEY, upload_id)

async def begin(presigned):
    upload_id = await presigned.begin(KEY, content_type="image/tiff")
    urls = await presigned.sign_parts(KEY, upload_id, parts=2, seconds=60, base_url="")
    numbered = enumerate(zip(urls, BODIES), 1)
    return upload_id, [CompletedPart(n, await put(presigned, u, b)) for n, (u, b) in numbered]

async def is_stored(blobs):
    found = [info.key async for info in blobs.list()]
    if not found:
        return False
    assert found == [KEY], found
    assert await blobs.get(KEY) == WHOLE
    assert (await blobs.head(KEY)).metadata == {"sha256": hashlib.sha256(WHOLE).hexdigest()}
    return True

async def look(root, scene, upload_id, parts):
    blobs, presigned = LocalBlobs(root), open_presigned(root)
    stored = await is_stored(blobs)
    assert not stored or scene in (whole_put, join)
    try:
        await presigned.join(KEY, upload_id, parts)
    except Missing:
        assert stored or scene is abort
    else:
        assert await is_stored(blobs)
    stored = await is_stored(blobs)
    await blobs.sweep(0, time.time() + 60, uploads_older_than_seconds=0)
    assert [path for own in (".tmp", ".parts") for path in (root / own).iterdir()] == []
    assert await is_stored(blobs) == stored

def main():
    scene = {"whole": whole_put, "part": part_put, "join": join, "abort": abort}[sys.argv[2]]
    for at in itertools.count():
        root = Path(sys.argv[1]) / str(at)
        LocalBlobs(root)
        upload_id, parts = asyncio.run(begin(open_presigned(root)))
        child = os.fork()
        if not child:
            presigned = open_presigned(root)
            doom(at)
            asyncio.run(scene(presigned, upload_id, parts))
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
@pytest.mark.parametrize("scene", ["whole", "part", "join", "abort"])
def test_whoever_is_killed_leaves_all_or_nothing(tmp_path, scene):
    ran = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path), scene], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 10  # changes before each of which it was killed once
