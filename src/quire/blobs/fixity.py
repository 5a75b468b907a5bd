"""Compares stored bytes with their digest while they are read or copied; no byte is read twice.

Promise: a reader learns of bytes that do not match their digest before the end, so that they are never given
on. Must not know: what the bytes mean.
"""

import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol, runtime_checkable

from quire.blobs import keys
from quire.model.errors import DamagedBlob

_PIECE_BYTES = 1 << 18


@runtime_checkable
class SupportsSetAside(Protocol):
    """A store that can move a damaged blob out of the way, so that the right bytes can take its place."""

    def set_aside(self, key: str, digest: str) -> bool:
        """Move the blob to the folder `damaged` if its bytes really do not have this digest; say whether it
        was moved. Blocking. A blob that was replaced by right bytes meanwhile stays. May be repeated.
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


def check_file(path: Path, digest: str, key: str) -> None:
    """Read a file of the store and compare it. Raises DamagedBlob."""
    with path.open("rb", buffering=0) as file:
        if digest_of(file.fileno()) != digest:
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


def set_aside(blobs: object, key: str, digest: str) -> None:
    """Move a damaged blob out of the way where the store can do that and its key is that of its content: then
    step cache and intake no longer take it for stored, and the right bytes are stored again. Blocking.
    """
    if isinstance(blobs, SupportsSetAside) and key == keys.content(digest):
        blobs.set_aside(key, digest)
