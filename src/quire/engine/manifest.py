"""Reads a batch's manifest from the store."""

from collections.abc import Iterator

from quire.blobs.port import Blobs
from quire.model.batch import Batch
from quire.model.errors import Reject
from quire.model.files import File
from quire.model.manifest import decode, files

MAX_MANIFEST_BYTES = 1024 * 1024 * 1024


async def entries(blobs: Blobs, batch: Batch) -> Iterator[File]:
    """The files of the batch's manifest, in its order. Raises Reject when it is not one."""
    if batch.manifest_key is None:
        raise Reject("the batch has no manifest", code="bad_manifest")
    size = (await blobs.head(batch.manifest_key)).size
    if size > MAX_MANIFEST_BYTES:
        raise Reject(f"the manifest has {size} bytes, the limit is {MAX_MANIFEST_BYTES}", code="bad_manifest")
    return files(decode(await blobs.get(batch.manifest_key), batch.id))
