"""Fetches a job's source and checks it: its bytes must have the hash that the job is named after.

Promises: streamed, never in memory; a source that is too large is refused before it is read; names and tags
that another tool wrote, or lost, are taken as they come. Two requests. Must not know: what happens to the
source.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path, PurePosixPath

from msgspec import Struct

from quire.blobs.port import BlobInfo, Blobs
from quire.library.metadata import decode_metadata
from quire.library.protocol import layout
from quire.model.errors import Missing, Reject

UNKNOWN = "unknown.pdf"
MAX_SOURCE_BYTES = 8 << 30
MAX_NAME_CHARACTERS = 1000
MAX_TAGS = 1000


class KnownSource(Struct, frozen=True):
    """A document in the manifest; `path` is its first one."""

    path: str
    tags: tuple[str, ...] = ()


SourceLookup = Callable[[str], Awaitable[KnownSource | None]]


class FetchedSource(Struct, frozen=True, kw_only=True):
    path: Path
    size: int
    name: str
    tags: tuple[str, ...]


async def fetch(blobs: Blobs, ident: str, target: Path, lookup: SourceLookup | None = None) -> FetchedSource:
    """Raises Reject when the source is missing, too large, or has another hash."""
    key = layout.raw(ident)
    try:
        stored = await blobs.head(key)
        _check_size(stored.size)
        digest, size = await _copy(blobs, key, target)
    except Missing as error:
        raise Reject(
            f"the source {key} is not in the bucket; `remove` the document and ingest its file again",
            code="no_source",
        ) from error
    if digest != ident:
        raise Reject(
            f"the source {key} has the SHA-256 {digest} instead of its name; remove it and ingest "
            "the file again",
            code="wrong_hash",
        )
    name, tags = read_metadata(stored)
    if not name and lookup is not None and (known := await lookup(ident)) is not None:
        name, tags = PurePosixPath(known.path).name, tags or known.tags
    return FetchedSource(path=target, size=size, name=name or UNKNOWN, tags=tags)


def read_metadata(stored: BlobInfo) -> tuple[str, tuple[str, ...]]:
    """Name and tags from the metadata; empty if they were lost."""
    said = decode_metadata(stored.metadata)
    return said.name[:MAX_NAME_CHARACTERS], tuple(tag[:MAX_NAME_CHARACTERS] for tag in said.tags[:MAX_TAGS])


async def _copy(blobs: Blobs, key: str, target: Path) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    # Opened here and not in a thread: a cancelled thread would leave the file open.
    with target.open("wb") as file:
        async for piece in blobs.stream(key):
            size += len(piece)
            _check_size(size)
            await run_to_end(partial(digest.update, piece))
            await run_to_end(partial(file.write, piece))
    return digest.hexdigest(), size


async def run_to_end(work: Callable[[], object]) -> None:
    """Run in a thread, and wait for it also when cancelled: its files must not be removed under it."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        raise


def _check_size(size: int) -> None:
    if size > MAX_SOURCE_BYTES:
        limit = MAX_SOURCE_BYTES >> 30
        raise Reject(f"the source has {size} bytes; the limit is {limit} GiB", code="too_large")
