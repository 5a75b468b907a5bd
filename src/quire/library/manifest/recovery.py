"""Manifest entries that could not be written to the bucket, kept on this disk until they can be.

Promise: a file is there whole or not at all, and is deleted only when its entries are in the manifest.
"""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from quire.library.manifest import entries
from quire.library.manifest.entries import BrokenManifest, ManifestEntry
from quire.library.manifest.store import LibraryManifest
from quire.model.ids import Ids

_NAME = "manifest-recovery-{}.json"


def save(folder: Path, unwritten: Mapping[str, ManifestEntry], ids: Ids, updated_at: str) -> Path:
    """Write the entries to a file in the form of the manifest. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / _NAME.format(ids.ulid())
    part = path.with_suffix(".part")
    with part.open("xb") as file:
        file.write(
            entries.encode({ident: entries.encode_entry(e) for ident, e in unwritten.items()}, updated_at)
        )
        file.flush()
        os.fsync(file.fileno())
    return part.replace(path)


async def recover(manifest: LibraryManifest, folder: Path) -> int:
    """Add the saved entries to the manifest; returns how many. Unreadable files stay."""
    count = 0
    for path in await asyncio.to_thread(lambda: sorted(folder.glob(_NAME.format("*")))):
        try:
            part = entries.decode(await asyncio.to_thread(path.read_bytes))
        except (OSError, BrokenManifest):
            continue
        kept = {
            ident: entry
            for ident, raw in part.entries.items()
            if entries.is_hash(ident) and (entry := entries.decode_entry(raw)) is not None
        }
        await manifest.add(kept)
        await asyncio.to_thread(path.unlink, missing_ok=True)
        count += len(kept)
    return count
