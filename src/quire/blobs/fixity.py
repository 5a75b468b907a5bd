"""Compares stored bytes with their digest while they are read or copied; no byte is read twice.

Promise: a reader learns of bytes that do not match their digest before the end, so that they are never given
on. Must not know: what the bytes mean.
"""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol, runtime_checkable

from quire.blobs import keys
from quire.blobs.port import BlobInfo, SourceFile
from quire.model.errors import DamagedBlob

_PIECE_BYTES = 1 << 18


@runtime_checkable
class SupportsSetAside(Protocol):
    """A store that can move a damaged blob out of the way, so that the right bytes can take its place."""

    async def set_aside(self, key: str, digest: str) -> bool:
        """Move the blob to the folder `damaged` if its bytes really do not have this digest; say whether it
        was moved. A blob that was replaced by right bytes meanwhile stays. Afterwards the key does not exist,
        or it holds a blob of another size than the right one. May be repeated.
        """
        ...


@runtime_checkable
class SupportsFileSetAside(Protocol):
    """A store of files, where that can be done without an event loop."""

    def set_aside_file(self, key: str, digest: str) -> bool:
        """The same as `set_aside`, blocking."""
        ...


@runtime_checkable
class SupportsComparison(Protocol):
    """A store that can tell, without reading it, whether a stored blob is as a source is."""

    def is_copy(self, stored: BlobInfo, source: bytes | Path | SourceFile) -> bool:
        """Whether the store's own checksum of the blob is that of the source. Blocking. False also where the
        store has no such checksum: then nobody knows.
        """
        ...


class StoredChecksums(Protocol):
    """The checksums that a store keeps with its blobs."""

    async def find_sha256(self, key: str) -> str | None:
        """The SHA-256 of the whole blob as the store computed it from what it was sent; None where it has
        none. Raises Missing, Retry.
        """
        ...


def damaged(key: str) -> DamagedBlob:
    return DamagedBlob(
        f"Quire's stored copy {key!r} is damaged: its bytes no longer have the digest they were stored with. "
        "The file that was sent is not to blame. Run the folder again or send the file again: then the copy "
        "is replaced; look after the disk of the store."
    )


def digest_of(descriptor: int) -> str:
    """SHA-256 of an open file, from its beginning; its position stays."""
    hashed, at = hashlib.sha256(), 0
    # One buffer for the whole file: fresh memory for each piece costs more than the hashing.
    buffer = bytearray(_PIECE_BYTES)
    view = memoryview(buffer)
    while count := os.preadv(descriptor, [buffer], at):
        hashed.update(view[:count])
        at += count
    return hashed.hexdigest()


def has_digest(path: Path, digest: str) -> bool:
    """Whether a file has these bytes. Blocking. Raises OSError."""
    with path.open("rb", buffering=0) as file:
        return digest_of(file.fileno()) == digest


def check_file(path: Path, digest: str, key: str) -> None:
    """Read a file of the store and compare it. Raises DamagedBlob."""
    if not has_digest(path, digest):
        raise damaged(key)


def copy_checked(source: Path, target: Path, digest: str, key: str) -> None:
    """Copy a file of the store and hash the bytes that are written. Raises DamagedBlob when they are others;
    the copy is there then and must not be used.
    """
    hashed = hashlib.sha256()
    buffer = bytearray(_PIECE_BYTES)
    view = memoryview(buffer)
    with source.open("rb", buffering=0) as reading, target.open("wb", buffering=0) as writing:
        while count := reading.readinto(buffer):
            hashed.update(view[:count])
            rest = view[:count]
            while rest:
                rest = rest[writing.write(rest) :]
    if hashed.hexdigest() != digest:
        raise damaged(key)


async def check_pieces(pieces: AsyncIterator[bytes], digest: str, key: str) -> AsyncIterator[bytes]:
    """Pass the pieces on; raises DamagedBlob after the last one when they are other bytes."""
    hashed = hashlib.sha256()
    async for piece in pieces:
        hashed.update(piece)
        yield piece
    if hashed.hexdigest() != digest:
        raise damaged(key)


async def set_aside(blobs: object, key: str, digest: str) -> bool:
    """Move a damaged blob out of the way where the store can do that and its key is that of its content: then
    step cache and intake no longer take it for stored, and the right bytes are stored again. Says whether it
    was moved. Raises what the store raises.
    """
    if isinstance(blobs, SupportsSetAside) and key == keys.content(digest):
        return await blobs.set_aside(key, digest)
    return False


def set_aside_file(blobs: object, key: str, digest: str) -> None:
    """The same for a store of files. Blocking."""
    if isinstance(blobs, SupportsFileSetAside) and key == keys.content(digest):
        blobs.set_aside_file(key, digest)


async def is_stored(
    blobs: object, stored: BlobInfo, source: bytes | Path | SourceFile, path: Path | None
) -> bool:
    """Whether a blob of the right size is a copy of the source: its file at `path` is compared, or the
    store's checksum. Of a store that has neither it is believed.
    """
    if path is not None:
        try:
            return await asyncio.to_thread(has_digest, path, stored.key.rpartition("/")[2])
        except FileNotFoundError:  # set aside meanwhile
            return False
    if isinstance(blobs, SupportsComparison):
        return await asyncio.to_thread(blobs.is_copy, stored, source)
    return True
