"""kill -9 while blobs are being put: what was acknowledged is whole, what was not is invisible or whole."""

import asyncio
import hashlib
import random
import signal
import subprocess
import sys
import time

from quire.blobs.local import LocalBlobs

KILLS = 15

# Each body tells its own digest, so that a reader can see whether it is whole. Sizes vary over the pieces.
CHILD = """
import asyncio, hashlib, secrets, sys
from pathlib import Path
from quire.blobs.local import LocalBlobs
from quire.blobs.port import IfAbsent

async def pieces(body):
    for start in range(0, len(body), 400_000):
        yield body[start : start + 400_000]

async def writer(blobs, name):
    number = 0
    while True:
        number += 1
        key = f"{name}/{number % 7}/{secrets.token_hex(8)}"
        body = secrets.token_bytes((10, 5_000, 1_500_000)[number % 3])
        body = hashlib.sha256(body).digest() + body
        way = pieces(body) if number % 2 else body
        labels = {"metadata": {"size": str(len(body))}} if number % 4 < 2 else {}
        await blobs.put(key, way, condition=IfAbsent() if number % 5 else None, **labels)
        print(key, len(body), int(bool(labels)), flush=True)
        await blobs.put(f"{name}/overwritten", body, metadata={"size": str(len(body))})

async def main():
    blobs = LocalBlobs(Path(sys.argv[1]))
    await asyncio.gather(*(writer(blobs, name) for name in ("a", "b", "c")))

asyncio.run(main())
"""


def whole(body: bytes) -> bool:
    return hashlib.sha256(body[32:]).digest() == body[:32]


def run_and_kill(root, seconds: float) -> list[str]:
    """Lines that the child had printed, whole ones only; killed that long after its first acknowledgement."""
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(root)], stdout=subprocess.PIPE, text=True)
    try:
        first = child.stdout.readline()
        limit = time.monotonic() + seconds
        lines = [first]
        while time.monotonic() < limit:
            lines.append(child.stdout.readline())
    finally:
        child.send_signal(signal.SIGKILL)
        rest = child.stdout.read()
        child.stdout.close()
        child.wait()
    return [line for line in "".join([*lines, rest]).splitlines(keepends=True) if line.endswith("\n")]


async def test_acknowledged_blobs_survive_and_halves_are_never_seen(tmp_path):
    root = tmp_path / "blobs"
    chance = random.Random()
    acknowledged = []
    for _ in range(KILLS):
        lines = await asyncio.to_thread(run_and_kill, root, chance.uniform(0, 0.12))
        acknowledged += [line.split() for line in lines]

    blobs = LocalBlobs(root)
    for key, size, labelled in acknowledged:
        body = await blobs.get(key)
        assert (len(body), whole(body)) == (int(size), True), key
        assert (await blobs.head(key)).metadata == ({"size": size} if labelled == "1" else {})
    seen = 0
    async for stored in blobs.list():
        seen += 1
        assert whole(await blobs.get(stored.key)), stored.key
        labels = (await blobs.head(stored.key)).metadata
        assert labels in ({}, {"size": str(stored.size)})
        assert labels or not stored.key.endswith("overwritten")
    assert seen >= len(acknowledged) >= KILLS

    # What the killed writers left can be swept, and nothing else goes with it.
    await blobs.sweep(older_than_seconds=0, now=time.time() + 3600)
    assert list((root / ".tmp").iterdir()) == []
    assert len([stored async for stored in blobs.list()]) == seen
    label_files = [path for path in (root / ".meta").rglob("*.json") if path.is_file()]
    labelled = [stored.key async for stored in blobs.list() if (await blobs.head(stored.key)).metadata]
    assert len(label_files) == len(labelled)
