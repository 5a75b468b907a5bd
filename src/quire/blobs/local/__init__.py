"""Blobs in a folder of this machine. The blocking work is in `local_vault`; this is its asynchronous face.

Promise: everything in `port`, with fsync before every answer; conditional writes hold between processes; what
a killed process leaves behind is invisible and can be swept. Not for network
file systems without locks.
"""

import asyncio
import itertools
import os
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from quire.blobs import keys
from quire.blobs.labels import Labels, labels
from quire.blobs.local.files import Vault
from quire.blobs.local.parts import PartFiles
from quire.blobs.local.spool import PIECE_BYTES
from quire.blobs.local.tree import (
    LABELS,
    LOCKS,
    TEMPORARY,
    translated,
)
from quire.blobs.local.walk import walk
from quire.blobs.port import Condition, Metadata, Stored

_LISTED_PER_HOP = 500
_UPLOADS_AFTER_SECONDS = 8 * 24 * 3600.0  # no URL for a part lives as long


class LocalBlobs:
    def __init__(self, root: Path) -> None:
        """Makes the folder when it is not there. Raises Misconfigured when it cannot."""
        with translated("open", str(root)):
            _make(root)
            self._root = root.resolve()
            self._vault = Vault(self._root)
            for own in (TEMPORARY, LABELS, LOCKS):
                with self._vault.tree.folder(own, make=True):
                    pass

    def __repr__(self) -> str:
        return f"LocalBlobs({str(self._root)!r})"

    async def put(
        self,
        key: str,
        data: bytes | Path | AsyncIterator[bytes],
        *,
        content_type: str | None = None,
        metadata: Metadata | None = None,
        condition: Condition | None = None,
    ) -> Stored:
        keys.check(key)
        described = labels(content_type, metadata)
        if isinstance(data, bytes | Path):
            return await asyncio.to_thread(self._vault.put, key, data, described, condition)
        return await self._put_stream(key, data, described, condition)

    async def _put_stream(
        self, key: str, data: AsyncIterator[bytes], described: Labels, condition: Condition | None
    ) -> Stored:
        # Made here and not in a thread: a cancelled hop would leave its descriptors open.
        spool = self._vault.spool(key)
        try:
            gathered = bytearray()
            async for piece in data:
                gathered += piece
                if len(gathered) >= PIECE_BYTES:
                    await asyncio.to_thread(self._vault.fill, spool, key, gathered)
                    gathered = bytearray()
            await asyncio.to_thread(self._vault.fill, spool, key, gathered)
            return await asyncio.to_thread(self._vault.commit, spool, key, described, condition)
        except BaseException:
            await asyncio.to_thread(spool.discard)  # in a thread, for it may have to wait for one
            raise

    async def take(self, paths: Sequence[Path], *, owned: bool) -> list[tuple[str, int]]:
        return await asyncio.to_thread(self._vault.take_all, paths, owned=owned)

    async def get(self, key: str) -> bytes:
        return await asyncio.to_thread(self._vault.read, keys.check(key))

    async def stream(self, key: str, *, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        reader = _Reader(self._vault, keys.check(key), start, stop)
        try:
            while piece := await asyncio.to_thread(reader.read):
                yield piece
        finally:
            reader.close()

    async def head(self, key: str) -> Stored:
        return await asyncio.to_thread(self._vault.head, keys.check(key))

    async def list(self, prefix: str = "", *, after: str = "") -> AsyncIterator[Stored]:
        found = walk(self._vault.tree, keys.folder(prefix), after)

        def some() -> list[Stored]:
            with translated("list", prefix):
                return list(itertools.islice(found, _LISTED_PER_HOP))

        while page := await asyncio.to_thread(some):
            for stored in page:
                yield stored

    async def delete(self, key: str) -> None:
        await asyncio.to_thread(self._vault.delete, keys.check(key))

    def local_path(self, key: str) -> Path | None:
        return self._vault.path(keys.check(key))

    async def signed_url(self, key: str, *, method: str, seconds: int) -> str | None:  # noqa: ARG002
        keys.check(key)
        return None

    async def close(self) -> None:
        """Nothing is held open between calls."""

    async def sweep(
        self,
        older_than_seconds: float,
        now: float,
        *,
        uploads_older_than_seconds: float = _UPLOADS_AFTER_SECONDS,
    ) -> int:
        """Remove what killed writers left behind, and uploads in parts that got none for so long; returns how
        many. Choose an age that no upload reaches without sending a byte. May run beside everything else and
        be repeated.
        """
        swept = await asyncio.to_thread(self._vault.sweep, now - older_than_seconds)
        uploads = PartFiles(self._vault)
        return swept + await asyncio.to_thread(uploads.sweep, now - uploads_older_than_seconds)


def _make(root: Path) -> None:
    absent = [folder for folder in (root, *root.parents) if not folder.exists()]
    root.mkdir(parents=True, exist_ok=True)
    for folder in absent:
        parent = os.open(folder.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)


class _Reader:
    """A file read piece by piece in threads; closed at once when the reading coroutine goes away, even while
    a thread is still opening it.
    """

    def __init__(self, vault: Vault, key: str, start: int, stop: int | None) -> None:
        self._vault = vault
        self._key = key
        self._at = start
        self._stop = stop
        self._lock = threading.Lock()
        self._descriptor = -1
        self._closed = False

    def read(self) -> bytes:
        with self._lock:
            if self._closed:
                return b""
            if self._descriptor < 0:
                self._descriptor = self._vault.open(self._key)
            wanted = PIECE_BYTES if self._stop is None else min(PIECE_BYTES, self._stop - self._at)
            with translated("read", self._key):
                piece = os.pread(self._descriptor, max(0, wanted), self._at)
            self._at += len(piece)
            return piece

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1
