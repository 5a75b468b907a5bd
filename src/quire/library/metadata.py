"""The metadata of stored PDFs: name, tags and size, as published tools write and read them; and its repair.

Promises: what is written fits the limits of stores, whatever the file is called; reading takes what can be
understood of anybody's metadata. The manifest has the full truth. Repair takes metadata from the manifest,
and verifies the bytes as it copies them; nobody sees half an object.
"""

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec
from msgspec import Struct, field

from quire.blobs.labels import MAX_BYTES, encode
from quire.blobs.port import Blobs, Metadata
from quire.library.context import LibraryContext
from quire.library.manifest.entries import ManifestEntry
from quire.library.manifest.search import ManifestView
from quire.library.protocol import layout
from quire.model.errors import Missing, Reject

CONTENT_TYPE = "binary/octet-stream"  # of sources, and of markers without content
_NAME, _TAGS, _SIZE = "original-name", "tags", "size"
_RESERVED = 64  # for the mark of a conditional write, and a margin


class SourceMetadata(Struct, frozen=True, kw_only=True):
    name: str = ""
    tags: list[str] = field(default_factory=list)
    size: int | None = None


class MetadataRepair(Struct, kw_only=True):
    looked_at: int = 0
    written: int = 0
    unknown: int = 0  # no name in the metadata, and none in the manifest either
    damaged: list[str] = field(default_factory=list)  # their bytes do not have the hash they are stored under


def encode_metadata(name: str, tags: list[str], size: int) -> dict[str, str]:
    """Tags that do not fit are left out, the outermost folders first; then the end of the name. The store's
    adapter percent-encodes the values.
    """
    left = MAX_BYTES - _RESERVED - sum(len(key) for key in (_NAME, _TAGS, _SIZE)) - len(str(size))
    short_name = name
    while len(encode(short_name)) > left // 2:
        short_name = short_name[:-1]
    left -= len(encode(short_name))
    fitting = list(tags)
    while fitting and len(encode(json.dumps(fitting))) > left:
        fitting.pop(0)
    return {_NAME: short_name, _TAGS: json.dumps(fitting), _SIZE: str(size)}


def decode_metadata(metadata: Metadata) -> SourceMetadata:
    size = metadata.get(_SIZE, "")
    return SourceMetadata(
        name=metadata.get(_NAME, ""),
        tags=_decode_tags(metadata.get(_TAGS, "")),
        size=int(size) if size.isascii() and size.isdecimal() and len(size) <= 19 else None,
    )


def _decode_tags(text: str) -> list[str]:
    try:
        return msgspec.json.decode(text.encode(), type=list[str])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return []


async def repair_metadata(
    context: LibraryContext,
    view: ManifestView,
    idents: Sequence[str] = (),
    *,
    force: bool = False,
    dry_run: bool = False,
    on_progress: Callable[[MetadataRepair], None] = lambda _: None,
) -> MetadataRepair:
    """Rewrite the metadata of these PDFs, or of all when none are named. PDFs that have a name are left alone
    unless `force`. Raises Missing when a named one is not stored.
    """
    done = MetadataRepair()
    async for ident in _list_sources(context, idents):
        try:
            stored = await context.blobs.head(layout.raw(ident))
        except Missing:
            if idents:
                raise
            continue
        done.looked_at += 1
        if force or not decode_metadata(stored.metadata).name:
            entry = view.get(ident)
            if entry is None or not entry.paths:
                done.unknown += 1
            elif dry_run or await _rewrite(context.blobs, ident, entry, stored.size, done):
                done.written += 1
        on_progress(done)
    return done


async def _list_sources(context: LibraryContext, idents: Sequence[str]) -> AsyncIterator[str]:
    for named in idents:
        yield layout.check_hash(named)
    if idents:
        return
    async for page in context.objects.pages(layout.RAW):
        for seen in page:
            ident = layout.parse_job(seen.key)
            if ident is not None:
                yield ident


async def _rewrite(blobs: Blobs, ident: str, entry: ManifestEntry, size: int, done: MetadataRepair) -> bool:
    name = entry.paths[0].rpartition("/")[2]
    metadata = encode_metadata(name, entry.tags, size)
    key = layout.raw(ident)
    try:
        await blobs.put(key, _read_verified(blobs, key, ident), content_type=CONTENT_TYPE, metadata=metadata)
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
