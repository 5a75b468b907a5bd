"""A job's source, brought here and checked: its bytes must be those that the job is named after.

Promises: streamed, never in memory; what is too large is refused before it is read; names and tags that
another tool wrote, or lost, are taken as they come. Two requests. Must not know: what becomes of it.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path, PurePosixPath

import msgspec
from msgspec import Struct

from quire.blobs.port import BlobInfo, Blobs
from quire.library.protocol import layout
from quire.model.errors import Missing, Reject

UNKNOWN = "unknown.pdf"
MAX_SOURCE_BYTES = 8 << 30
MAX_NAME_CHARACTERS = 1000
MOST_TAGS = 1000


class KnownSource(Struct, frozen=True):
    """What the manifest has of a file; `path` is the first one."""

    path: str
    tags: tuple[str, ...] = ()


SourceLookup = Callable[[str], Awaitable[KnownSource | None]]


class FetchedSource(Struct, frozen=True, kw_only=True):
    path: Path
    size: int
    name: str
    tags: tuple[str, ...]


async def fetch(blobs: Blobs, ident: str, target: Path, recall: SourceLookup | None = None) -> FetchedSource:
    """Raises Reject when it is not there, too large, or not what it is named after."""
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
            f"the source {key} is not what it is named after: its SHA-256 is {digest}; remove it and ingest "
            "the file again",
            code="wrong_hash",
        )
    name, tags = said(stored)
    if not name and recall is not None and (known := await recall(ident)) is not None:
        name, tags = PurePosixPath(known.path).name, tags or known.tags
    return FetchedSource(path=target, size=size, name=name or UNKNOWN, tags=tags)


def said(stored: BlobInfo) -> tuple[str, tuple[str, ...]]:
    """Name and tags from the metadata, which the store has decoded; empty where they were lost."""
    name = stored.metadata.get("original-name", "")
    try:
        tags = msgspec.json.decode(stored.metadata.get("tags", "[]"), type=list[str])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        tags = []
    return name[:MAX_NAME_CHARACTERS], tuple(tag[:MAX_NAME_CHARACTERS] for tag in tags[:MOST_TAGS])


async def _copy(blobs: Blobs, key: str, target: Path) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    # Opened here and not in a thread: one that is not waited for any more would leave it open.
    with target.open("wb") as file:
        async for piece in blobs.stream(key):
            size += len(piece)
            _check_size(size)
            await _run_to_end(partial(digest.update, piece))
            await _run_to_end(partial(file.write, piece))
    return digest.hexdigest(), size


async def _run_to_end(work: Callable[[], object]) -> None:
    """In a thread, which is waited for also when we are cancelled: the file must not be closed under it."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        raise


def _check_size(size: int) -> None:
    if size > MAX_SOURCE_BYTES:
        limit = MAX_SOURCE_BYTES >> 30
        raise Reject(
            f"the source has {size} bytes; more than {limit} GiB are not converted", code="too_large"
        )
