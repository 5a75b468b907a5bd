"""Content addressing: blobs named by the SHA-256 of their bytes, on any store.

Promise: the same bytes have one key and are stored once; storing them again costs one request. Bytes that do
not match their name never become visible and are never returned. Must not know: what the bytes mean.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from msgspec import Struct

from quire.blobs import fixity, keys
from quire.blobs.port import Blobs, SourceFile, SupportsFiles
from quire.blobs.sources import open_source
from quire.model.errors import DamagedBlob, Missing, Reject, Retry

_PIECE_BYTES = 1 << 20
_IN_MEMORY_BYTES = 8 << 20
_FILES_AT_ONCE = 16  # a step may make thousands, and each may be in memory while it is stored


class Content(Struct, frozen=True):
    digest: str
    size: int
    key: str


async def put_bytes(blobs: Blobs, data: bytes) -> Content:
    """Store bytes. May be repeated, like all functions here. Raises what `Blobs.put` raises, never Stale."""
    content = _content_of(hashlib.sha256(data).hexdigest(), len(data))
    if not await _is_stored(blobs, content, data):
        await blobs.put(content.key, data)
    return content


async def put_file(blobs: Blobs, path: Path | SourceFile, *, owned: bool = False) -> Content:
    """Store a file. Raises Missing when it does not exist, Retry when it changes meanwhile and the store
    notices. The caller no longer needs an `owned` file: the store may move it instead of copying.
    """
    if isinstance(blobs, SupportsFiles):
        return (await put_files(blobs, [path], owned=owned))[0]
    try:
        found = await asyncio.to_thread(_read_or_digest, path)
    except FileNotFoundError as error:
        raise Missing(f"The file {path.name!r} does not exist, so it cannot be stored.") from error
    if isinstance(found, bytes):
        return await put_bytes(blobs, found)
    if not await _is_stored(blobs, found, path):
        # Read and hashed again: a file that changed in between must not get the name of the old bytes.
        await blobs.put(found.key, _verify_pieces(_read_pieces(path), found))
    return found


async def put_files(
    blobs: Blobs, paths: Sequence[Path | SourceFile], *, owned: bool = False
) -> list[Content]:
    """Store several files: cheaper where the store supports it."""
    if isinstance(blobs, SupportsFiles):
        return [_content_of(*taken) for taken in await blobs.store_files(paths, owned=owned)]
    places = asyncio.Semaphore(_FILES_AT_ONCE)

    async def put(path: Path | SourceFile) -> Content:
        async with places:
            return await put_file(blobs, path, owned=owned)

    return list(await asyncio.gather(*map(put, paths)))


async def keep_blob(blobs: Blobs, key: str, digest: str, size: int) -> Content:
    """Copy a blob with another key to the key of its content. Raises Missing, or Reject with code
    `digest_mismatch` when it holds other bytes.
    """
    wanted = _content_of(digest, size)

    async def read() -> AsyncIterator[bytes]:
        hashed = hashlib.sha256()
        async for piece in blobs.stream(key):
            hashed.update(piece)
            yield piece
        if hashed.hexdigest() != digest:
            raise other_bytes(key)

    if await _is_stored(blobs, wanted):  # believed: its bytes are compared when they are read
        async for _ in read():  # the claim is checked, whoever stored these bytes before
            pass
    else:
        await blobs.put(wanted.key, read())
    return wanted


def other_bytes(key: str) -> Reject:
    return Reject(
        f"the blob {key!r} holds other bytes than was said of it; the step has to run again",
        code="digest_mismatch",
    )


async def get(blobs: Blobs, digest: str) -> bytes:
    """The bytes with this digest; for small blobs. Raises Missing or DamagedBlob."""
    key = keys.content(digest)
    data = await blobs.get(key)
    if hashlib.sha256(data).hexdigest() != digest:
        await fixity.set_aside(blobs, key, digest)
        raise fixity.damaged(key)
    return data


async def stream(blobs: Blobs, digest: str) -> AsyncIterator[bytes]:
    """The bytes in pieces. They are verified only after the last one: raises DamagedBlob there, so do not use
    them before the end.
    """
    key = keys.content(digest)
    try:
        async for piece in fixity.check_pieces(blobs.stream(key), digest, key):
            yield piece
    except DamagedBlob:
        await fixity.set_aside(blobs, key, digest)
        raise


async def verify(blobs: Blobs, digest: str) -> None:
    """Read all bytes and check their digest. Raises Missing or DamagedBlob."""
    async for _ in stream(blobs, digest):
        pass


def _content_of(digest: str, size: int) -> Content:
    return Content(digest, size, keys.content(digest))


async def _is_stored(blobs: Blobs, content: Content, source: bytes | Path | SourceFile | None = None) -> bool:
    """With a source, a present copy is compared as far as that costs no download: right bytes that come again
    replace wrong ones.
    """
    try:
        found = await blobs.head(content.key)
    except Missing:
        return False
    if found.size != content.size:
        return False  # the store has lost bytes: write it again
    if source is None:
        return True
    return await fixity.is_stored(blobs, found, source, blobs.local_path(content.key))


def _read_or_digest(path: Path | SourceFile) -> bytes | Content:
    with open_source(path) as file:
        beginning = file.read(_IN_MEMORY_BYTES + 1)
        if len(beginning) <= _IN_MEMORY_BYTES:
            return beginning
        hashed, size = hashlib.sha256(beginning), len(beginning)
        while piece := file.read(_PIECE_BYTES):
            hashed.update(piece)
            size += len(piece)
    return _content_of(hashed.hexdigest(), size)


async def _read_pieces(path: Path | SourceFile) -> AsyncIterator[bytes]:
    # A file object locks itself, so a cancelled reader cannot close it under the thread that reads.
    with await asyncio.to_thread(open_source, path) as file:
        while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
            yield piece


async def _verify_pieces(pieces: AsyncIterator[bytes], content: Content) -> AsyncIterator[bytes]:
    """Pass the pieces on; raise at the end when they are not `content`, so that the store drops them."""
    hashed = hashlib.sha256()
    async for piece in pieces:
        await asyncio.to_thread(hashed.update, piece)
        yield piece
    if hashed.hexdigest() != content.digest:
        raise Retry("The file was changed while it was being stored.", code="source_changed")
