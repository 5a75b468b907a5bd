"""Folders and whole batches as the input of one task: their members are listed in a blob.

The list is content-addressed, so a unit whose members have not changed has the same digest and is answered by
the step cache.
"""

import hashlib

import msgspec

from quire.blobs import keys
from quire.blobs.port import Blobs
from quire.ledger.port import FileStore, ListedFile, UnitContent
from quire.model.batch import Batch

UNITS_AT_ONCE = 100


async def store_units(
    files: FileStore, blobs: Blobs, batch: Batch
) -> tuple[list[ListedFile], list[UnitContent]]:
    """Store the member lists of the next units of the batch's phase; the units and where each list is."""
    found = await files.list_units(batch, after=batch.position.cursor, limit=UNITS_AT_ONCE)
    contents = []
    for unit in found:
        members = await files.list_unit_members(batch.no, unit.no)
        listed = msgspec.json.encode([member.file for member in members])
        digest = hashlib.sha256(listed).hexdigest()
        key = keys.content(digest)
        await blobs.put(key, listed, content_type="application/json")
        contents.append(UnitContent(unit.no, key, len(listed), digest))
    return found, contents
