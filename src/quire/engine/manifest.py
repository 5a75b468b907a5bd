"""Reads a batch's manifest from the store."""

import hashlib

from quire.blobs.port import Blobs
from quire.engine.handover import original_key
from quire.model.batch import Batch
from quire.model.errors import DamagedBlob, Missing, Reject, Retry
from quire.model.manifest import Manifest, check

MAX_MANIFEST_BYTES = 1024 * 1024 * 1024
_TRIES = 3  # others may write it anew meanwhile


async def read_manifest(blobs: Blobs, batch: Batch) -> Manifest:
    """The batch's first manifest. Raises Reject when it is not one, or any of its entries is none: rows are
    written while they are read, and a batch is not to be refused half-written. Raises DamagedBlob when its
    bytes have changed in the store.
    """
    if batch.manifest_key is None:
        raise Reject("the batch has no manifest", code="bad_manifest")
    key = await _first(blobs, batch, batch.manifest_key)
    data = await _read(blobs, key)
    return check(data, batch.id, prefix=staging_prefix(key, batch.id))


async def _read(blobs: Blobs, key: str) -> bytes:
    for _ in range(_TRIES):
        stored = await blobs.head(key)
        if stored.size > MAX_MANIFEST_BYTES:
            raise Reject(
                f"the manifest has {stored.size} bytes, the limit is {MAX_MANIFEST_BYTES}",
                code="bad_manifest",
            )
        data = await blobs.get(key)
        digest = stored.metadata.get("sha256", "")
        if not digest or hashlib.sha256(data).hexdigest() == digest:
            return data
        if (await blobs.head(key)).version == stored.version:
            raise DamagedBlob(
                f"Quire's stored copy {key!r} of the list of the batch is damaged: it is not what was sent. "
                "Submit the batch again; look after the disk of the store."
            )
    raise Retry(f"the manifest {key!r} keeps changing", delay_seconds=1)


async def _first(blobs: Blobs, batch: Batch, key: str) -> str:
    """Of a batch that is handed over the manifest is written anew at its end: then the first one is kept."""
    if not batch.hands_over_to:
        return key
    try:
        return (await blobs.head(original_key(key))).key
    except Missing:
        return key


def staging_prefix(manifest_key: str, batch_id: str) -> str:
    """The folder that the keys of an uploaded batch must be in: that of its manifest. Empty for the batches
    that we take in ourselves, whose files are content-addressed and shared between batches.
    """
    prefix = f"staging/{batch_id}/"
    return prefix if manifest_key.startswith(prefix) else ""
