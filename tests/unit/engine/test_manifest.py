"""A manifest from the store: refused before the first row is written."""

import pytest

from quire.engine import manifest
from quire.model.batch import Stage
from quire.model.errors import Missing, Reject
from quire.testing.factories import batch
from quire.testing.memory_blobs import MemoryBlobs


async def test_one_that_is_too_large_is_refused_before_it_is_read(monkeypatch):
    blobs = MemoryBlobs()
    await blobs.put("m", b"x" * 100)
    monkeypatch.setattr(manifest, "MAX_MANIFEST_BYTES", 99)

    async def never(_key):
        raise AssertionError("it was read")

    monkeypatch.setattr(blobs, "get", never)
    with pytest.raises(Reject, match="100 bytes"):
        await manifest.read_manifest(blobs, batch(Stage.FILLING, 0, manifest_key="m"))


async def test_one_that_is_not_there_is_missing():
    with pytest.raises(Missing):
        await manifest.read_manifest(MemoryBlobs(), batch(Stage.FILLING, 0, manifest_key="m"))
