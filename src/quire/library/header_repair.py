"""Giving stored PDFs back what is told with them, after a copy of the bucket has dropped it.

Promises: what is told comes from the index; the bytes stay the same, which is verified as they are copied,
and nobody sees a half. What says something already is left alone unless that is asked for.
"""

import hashlib
from collections.abc import AsyncIterator, Callable, Sequence

from msgspec import Struct, field

from quire.blobs.port import Blobs
from quire.library import metadata as headers
from quire.library.context import LibraryContext
from quire.library.manifest.entries import ManifestEntry
from quire.library.manifest.search import ManifestView
from quire.library.protocol import layout
from quire.model.errors import Missing, Reject


class MetadataRepair(Struct, kw_only=True):
    looked_at: int = 0
    written: int = 0
    unknown: int = 0  # nothing is told with them, and the index knows no name either
    damaged: list[str] = field(default_factory=list)  # their bytes are not those that their hash names


async def repair_metadata(
    room: LibraryContext,
    view: ManifestView,
    idents: Sequence[str] = (),
    *,
    force: bool = False,
    dry_run: bool = False,
    on_progress: Callable[[MetadataRepair], None] = lambda _: None,
) -> MetadataRepair:
    """These, or all when none are named. Raises Missing when one that is named is not stored."""
    done = MetadataRepair()
    async for ident in _list_sources(room, idents):
        try:
            stored = await room.blobs.head(layout.raw(ident))
        except Missing:
            if idents:
                raise
            continue
        done.looked_at += 1
        if force or not headers.decode_metadata(stored.metadata).name:
            entry = view.get(ident)
            if entry is None or not entry.paths:
                done.unknown += 1
            elif dry_run or await _rewrite(room.blobs, ident, entry, stored.size, done):
                done.written += 1
        on_progress(done)
    return done


async def _list_sources(room: LibraryContext, idents: Sequence[str]) -> AsyncIterator[str]:
    for named in idents:
        yield layout.check_hash(named)
    if idents:
        return
    async for page in room.objects.pages(layout.RAW):
        for seen in page:
            ident = layout.parse_job(seen.key)
            if ident is not None:
                yield ident


async def _rewrite(blobs: Blobs, ident: str, entry: ManifestEntry, size: int, done: MetadataRepair) -> bool:
    name = entry.paths[0].rpartition("/")[2]
    said = headers.encode_metadata(name, entry.tags, size)
    key = layout.raw(ident)
    try:
        await blobs.put(key, _read_verified(blobs, key, ident), content_type=headers.CONTENT_TYPE, metadata=said)
    except Reject as error:
        if error.code != "hash_mismatch":
            raise
        done.damaged.append(ident)
        return False
    return True


async def _read_verified(blobs: Blobs, key: str, ident: str) -> AsyncIterator[bytes]:
    digest = hashlib.sha256()
    async for piece in blobs.stream(key):
        digest.update(piece)
        yield piece
    if digest.hexdigest() != ident:
        raise Reject(f"The bytes stored as {ident} have another hash.", code="hash_mismatch")
