"""Content addressing: blobs named by the SHA-256 of their bytes, on any store.

Promise: the same bytes have one key and are stored once; storing them again costs one question. Bytes that do
not fit their name are never made visible, and never handed out. Must not know: what the bytes are about.
"""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from quire.blobs import keys
from quire.blobs.port import Blobs, SupportsFiles
from quire.model.errors import Missing, Reject, Retry

_PIECE_BYTES = 1 << 20
_IN_MEMORY_BYTES = 8 << 20
_FILES_AT_ONCE = 16  # a step may make thousands, and each may be in memory while it is stored


class Content(Struct, frozen=True):
    digest: str
    size: int
    key: str


async def put_bytes(blobs: Blobs, data: bytes) -> Content:
    """May be repeated, as all of these. Raises what `Blobs.put` raises, but never Stale."""
    content = _content_of(hashlib.sha256(data).hexdigest(), len(data))
    if not await _is_stored(blobs, content):
        await blobs.put(content.key, data)
    return content


async def put_file(blobs: Blobs, path: Path, *, owned: bool = False) -> Content:
    """Store a file. Raises Missing when it is not there, perhaps Retry when it is written to meanwhile.
    A file that is `owned` is of no more use to the caller: the store may move it instead of copying.
    """
    if isinstance(blobs, SupportsFiles):
        return (await put_files(blobs, [path], owned=owned))[0]
    try:
        found = await asyncio.to_thread(_read_or_digest, path)
    except FileNotFoundError as error:
        raise Missing(f"The file {path.name!r} that was to be stored is not there.") from error
    if isinstance(found, bytes):
        return await put_bytes(blobs, found)
    if not await _is_stored(blobs, found):
        # Read again, and hashed again: a file that changed in between must not get the old one's name.
        await blobs.put(found.key, _verify_pieces(_read_pieces(path), found))
    return found


async def put_files(blobs: Blobs, paths: Sequence[Path], *, owned: bool = False) -> list[Content]:
    """Several at once: cheaper where the store takes files."""
    if isinstance(blobs, SupportsFiles):
        return [_content_of(*taken) for taken in await blobs.store_files(paths, owned=owned)]
    places = asyncio.Semaphore(_FILES_AT_ONCE)

    async def put(path: Path) -> Content:
        async with places:
            return await put_file(blobs, path, owned=owned)

    return list(await asyncio.gather(*map(put, paths)))


async def put_stream(blobs: Blobs, pieces: AsyncIterator[bytes], *, folder: Path | None = None) -> Content:
    """Store a stream, whose name is known only at its end. Until then it waits: in memory while it is small,
    in a temporary file in `folder` (None: the system's own) when it is not.
    """
    beginning = bytearray()
    async for piece in pieces:
        beginning += piece
        if len(beginning) > _IN_MEMORY_BYTES:
            break
    else:
        return await put_bytes(blobs, bytes(beginning))
    with tempfile.TemporaryDirectory(prefix="quire-", dir=folder) as scratch:
        path = Path(scratch, "content")
        await _spool(path, bytes(beginning), pieces)
        return await put_file(blobs, path, owned=True)


async def get(blobs: Blobs, digest: str) -> bytes:
    """The bytes of that name; for small ones. Raises Missing, or Reject with code `corrupt`."""
    data = await blobs.get(keys.content(digest))
    if hashlib.sha256(data).hexdigest() != digest:
        raise _corrupt(digest)
    return data


async def stream(blobs: Blobs, digest: str) -> AsyncIterator[bytes]:
    """The bytes in pieces. Only after the last one is it known that they were right: raises Reject with code
    `corrupt` there, so do not show a result before the end.
    """
    hashed = hashlib.sha256()
    async for piece in blobs.stream(keys.content(digest)):
        hashed.update(piece)
        yield piece
    if hashed.hexdigest() != digest:
        raise _corrupt(digest)


async def verify(blobs: Blobs, digest: str) -> None:
    """Read it all and say nothing when it is right. Raises Missing, or Reject with code `corrupt`."""
    async for _ in stream(blobs, digest):
        pass


def _content_of(digest: str, size: int) -> Content:
    return Content(digest, size, keys.content(digest))


async def _is_stored(blobs: Blobs, content: Content) -> bool:
    try:
        found = await blobs.head(content.key)
    except Missing:
        return False
    return found.size == content.size  # otherwise the store has lost bytes: write it again


def _read_or_digest(path: Path) -> bytes | Content:
    with path.open("rb") as file:
        beginning = file.read(_IN_MEMORY_BYTES + 1)
        if len(beginning) <= _IN_MEMORY_BYTES:
            return beginning
        hashed, size = hashlib.sha256(beginning), len(beginning)
        while piece := file.read(_PIECE_BYTES):
            hashed.update(piece)
            size += len(piece)
    return _content_of(hashed.hexdigest(), size)


async def _read_pieces(path: Path) -> AsyncIterator[bytes]:
    # A file object locks itself, so a cancelled reader cannot close it under the thread that reads.
    with await asyncio.to_thread(path.open, "rb") as file:
        while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
            yield piece


async def _verify_pieces(pieces: AsyncIterator[bytes], content: Content) -> AsyncIterator[bytes]:
    """The pieces; when they are not that content an error at the end, so that the store drops them."""
    hashed = hashlib.sha256()
    async for piece in pieces:
        await asyncio.to_thread(hashed.update, piece)
        yield piece
    if hashed.hexdigest() != content.digest:
        raise Retry("The file was changed while it was being stored.", code="source_changed")


async def _spool(path: Path, beginning: bytes, pieces: AsyncIterator[bytes]) -> None:
    with await asyncio.to_thread(path.open, "wb") as file:
        await asyncio.to_thread(_write, file, beginning)
        async for piece in pieces:
            await asyncio.to_thread(_write, file, piece)


def _write(file: BinaryIO, piece: bytes) -> None:
    try:
        file.write(piece)
        file.flush()  # here, where its failure can be told; closing would be too late
    except OSError as error:
        raise Retry(
            f"Cannot keep an upload in the temporary folder: {error.strerror}. Free space there.",
            code="storage_full",
            delay_seconds=30.0,
        ) from error


def _corrupt(digest: str) -> Reject:
    return Reject(
        f"The blob of content {digest} holds other bytes than its name says: the store is damaged or "
        "somebody wrote to it. Restore it from a copy, or send the file again.",
        code="corrupt",
    )
