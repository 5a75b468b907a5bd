"""Blobs in a folder of this machine: the asynchronous side of `files`, which does the blocking work.

Promise: everything in `port`, with fsync before every answer; conditional writes hold between processes;
files of a killed process are invisible until `sweep` removes them. Not for network file systems without
locks.
"""

import asyncio
import itertools
import os
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from quire.blobs import keys
from quire.blobs.labels import Labels, check_labels
from quire.blobs.local.files import BlobFiles
from quire.blobs.local.parts import PartFiles
from quire.blobs.local.spool import PIECE_BYTES
from quire.blobs.local.tree import LABELS, LOCKS, TEMPORARY, translate_errors
from quire.blobs.local.walk import walk
from quire.blobs.port import BlobInfo, Condition, Metadata, SourceFile

_LIST_PAGE = 500
_UPLOADS_AFTER_SECONDS = 8 * 24 * 3600.0  # no URL for a part lives as long


class LocalBlobs:
    def __init__(self, root: Path) -> None:
        """Create the folder if it does not exist. Raises Misconfigured when that fails."""
        with translate_errors("open", str(root)):
            _make_folder(root)
            self._root = root.resolve()
            self._files = BlobFiles(self._root)
            for own in (TEMPORARY, LABELS, LOCKS):
                with self._files.tree.folder(own, make=True):
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
    ) -> BlobInfo:
        keys.check(key)
        labels = check_labels(content_type, metadata)
        if isinstance(data, bytes | Path):
            return await asyncio.to_thread(self._files.put, key, data, labels, condition)
        return await self._put_stream(key, data, labels, condition)

    async def set_aside(self, key: str, digest: str) -> bool:
        return await asyncio.to_thread(self.set_aside_file, key, digest)

    def set_aside_file(self, key: str, digest: str) -> bool:
        return self._files.set_aside(keys.check(key), digest)

    async def _put_stream(
        self, key: str, data: AsyncIterator[bytes], labels: Labels, condition: Condition | None
    ) -> BlobInfo:
        # Opened here and not in a thread: cancelling the thread call would leave its descriptors open.
        spool = self._files.spool(key)
        try:
            gathered = bytearray()
            async for piece in data:
                gathered += piece
                if len(gathered) >= PIECE_BYTES:
                    await asyncio.to_thread(self._files.fill, spool, key, gathered)
                    gathered = bytearray()
            await asyncio.to_thread(self._files.fill, spool, key, gathered)
            return await asyncio.to_thread(self._files.commit, spool, key, labels, condition)
        except BaseException:
            await asyncio.to_thread(spool.discard)  # in a thread, because it may have to wait for another
            raise

    async def store_files(self, paths: Sequence[Path | SourceFile], *, owned: bool) -> list[tuple[str, int]]:
        return await asyncio.to_thread(self._files.store_files, paths, owned=owned)

    async def get(self, key: str) -> bytes:
        return await asyncio.to_thread(self._files.read, keys.check(key))

    async def stream(self, key: str, *, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        reader = _Reader(self._files, keys.check(key), start, stop)
        try:
            while piece := await asyncio.to_thread(reader.read):
                yield piece
        finally:
            reader.close()

    async def head(self, key: str) -> BlobInfo:
        return await asyncio.to_thread(self._files.head, keys.check(key))

    async def list(self, prefix: str = "", *, after: str = "") -> AsyncIterator[BlobInfo]:
        found = walk(self._files.tree, keys.folder(prefix), after)

        def some() -> list[BlobInfo]:
            with translate_errors("list", prefix):
                return list(itertools.islice(found, _LIST_PAGE))

        while page := await asyncio.to_thread(some):
            for stored in page:
                yield stored

    async def delete(self, key: str) -> None:
        await asyncio.to_thread(self._files.delete, keys.check(key))

    def local_path(self, key: str) -> Path | None:
        return self._files.path(keys.check(key))

    async def close(self) -> None:
        """Do nothing: no file stays open between calls."""

    async def sweep(
        self,
        older_than_seconds: float,
        now: float,
        *,
        uploads_older_than_seconds: float = _UPLOADS_AFTER_SECONDS,
    ) -> int:
        """Remove files of killed writers and multipart uploads that received no part for so long; return how
        many. Choose an age that no upload reaches without sending a byte. May run at any time, repeatedly.
        """
        swept = await asyncio.to_thread(self._files.sweep, now - older_than_seconds)
        uploads = PartFiles(self._files)
        return swept + await asyncio.to_thread(uploads.sweep, now - uploads_older_than_seconds)


def _make_folder(root: Path) -> None:
    absent = [folder for folder in (root, *root.parents) if not folder.exists()]
    root.mkdir(parents=True, exist_ok=True)
    for folder in absent:
        parent = os.open(folder.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)


class _Reader:
    """Reads a file piece by piece in threads. `close` takes effect at once, even while a thread opens the
    file.
    """

    def __init__(self, files: BlobFiles, key: str, start: int, stop: int | None) -> None:
        self._files = files
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
                self._descriptor = self._files.open(self._key)
            wanted = PIECE_BYTES if self._stop is None else min(PIECE_BYTES, self._stop - self._at)
            with translate_errors("read", self._key):
                piece = os.pread(self._descriptor, max(0, wanted), self._at)
            self._at += len(piece)
            return piece

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1
