"""A manifest from the store: refused before the first row is written."""

import hashlib

import pytest
from msgspec import structs

from quire.engine import handover, manifest
from quire.model.batch import Stage
from quire.model.errors import DamagedBlob, Missing, Reject
from quire.model.files import File
from quire.model.manifest import ManifestWriter
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


async def test_one_that_has_changed_in_the_store_is_never_read_for_what_was_sent():
    """A path in it with a wrong letter would be the name of a result."""
    blobs = MemoryBlobs()
    opened = batch(Stage.FILLING, 0, manifest_key="m")
    writer = ManifestWriter(opened.id)
    file = File(key="cas/aa/x", path="a.txt", name="a.txt", size=1, content_type="text/plain")
    whole = writer.begin() + writer.add([file]) + writer.end()
    labels = {"sha256": hashlib.sha256(whole).hexdigest()}
    await blobs.put("m", whole, metadata=labels)
    assert await manifest.read_manifest(blobs, opened)

    await blobs.put("m", whole.replace(b"a.txt", b"q.txt"), metadata=labels)
    with pytest.raises(DamagedBlob, match="Submit the batch again"):
        await manifest.read_manifest(blobs, opened)
    await handover.keep_original(blobs, "m")
    await blobs.put("m", whole)
    kept = structs.replace(opened, hands_over_to="next")
    with pytest.raises(DamagedBlob):
        await manifest.read_manifest(blobs, kept)
