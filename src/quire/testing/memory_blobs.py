"""Blobs in memory: the reference adapter. Nothing in it waits, so that the simulator can step through it.

Promise: passes the same suite as every other store. Must not know: files, except those it has to read.
"""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

from msgspec import Struct

from quire.blobs import keys
from quire.blobs.labels import Labels, check_labels
from quire.blobs.port import BlobInfo, Condition, IfAbsent, IfVersion, Metadata
from quire.model.errors import Missing, Stale

_PIECE_BYTES = 1 << 20
_EPOCH = 1_700_000_000.0


class _Blob(Struct, frozen=True):
    data: bytes
    version: str
    modified_at: float
    labels: Labels


class MemoryBlobs:
    def __init__(self, now: Callable[[], float] = lambda: _EPOCH) -> None:
        self._now = now
        self._blobs: dict[str, _Blob] = {}
        self._writes = 0

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
        body = await _bytes_of(data)
        # No await from here on: of concurrent writers one is first.
        self._check_condition(key, condition)
        return self.store(key, body, labels)

    def store(self, key: str, body: bytes, labels: Labels | None = None) -> BlobInfo:
        """Store without awaiting, as a worker does that is not simulated itself."""
        self._writes += 1
        self._blobs[key] = _Blob(body, f"v{self._writes}", self._now(), labels or Labels())
        return self._info_of(key)

    async def get(self, key: str) -> bytes:
        return self._find(key).data

    async def stream(self, key: str, *, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        data = self._find(key).data[start:stop]
        for at in range(0, len(data), _PIECE_BYTES):
            yield data[at : at + _PIECE_BYTES]

    async def head(self, key: str) -> BlobInfo:
        self._find(key)
        return self._info_of(key)

    async def list(self, prefix: str = "", *, after: str = "") -> AsyncIterator[BlobInfo]:
        folder = keys.folder(prefix)
        for key in sorted(self._blobs, key=str.encode):
            if key.startswith(folder) and key.encode() > after.encode():
                yield self._info_of(key)

    async def delete(self, key: str) -> None:
        self._blobs.pop(keys.check(key), None)

    def local_path(self, key: str) -> Path | None:
        keys.check(key)
        return None

    async def close(self) -> None:
        """Do nothing."""

    def _find(self, key: str) -> _Blob:
        found = self._blobs.get(keys.check(key))
        if found is None:
            raise Missing(f"there is no blob {key!r}")
        return found

    def _info_of(self, key: str) -> BlobInfo:
        blob = self._blobs[key]
        return BlobInfo(
            key=key,
            size=len(blob.data),
            version=blob.version,
            modified_at=blob.modified_at,
            content_type=blob.labels.content_type,
            metadata=dict(blob.labels.metadata),
        )

    def _check_condition(self, key: str, condition: Condition | None) -> None:
        there = self._blobs.get(key)
        match condition:
            case IfAbsent() if there is not None:
                raise Stale(f"blob {key!r} exists already")
            case IfVersion(version) if there is None or there.version != version:
                raise Stale(f"blob {key!r} is not the one that was read")


async def _bytes_of(data: bytes | Path | AsyncIterator[bytes]) -> bytes:
    if isinstance(data, bytes):
        return data
    if isinstance(data, Path):
        try:
            return data.read_bytes()  # noqa: ASYNC240 - no other coroutine may run meanwhile
        except FileNotFoundError as error:
            raise Missing(f"the file {data.name!r} does not exist, so it cannot be stored") from error
    return b"".join([piece async for piece in data])
