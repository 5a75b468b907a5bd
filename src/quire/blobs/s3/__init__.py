"""Blobs in an S3 bucket (AWS, R2, SeaweedFS, MinIO …), by way of obstore: the extra `quire[s3]`.

Promise: everything in `port`, given a server that honours conditional writes: `quire.blobs.probe`
checks that. A version is an ETag: equal bytes may have equal versions, so compare-and-swap bodies carry a
nonce. Conditional writes are single requests from memory: 64 MiB at most. Must not know: settings.
"""

import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from quire.blobs import keys
from quire.blobs.labels import NONCE, Labels, check_labels, decode, encode
from quire.blobs.port import BlobInfo, Condition, IfVersion, Metadata, SourceFile
from quire.blobs.s3.body import CountingStream, read_whole, size_of
from quire.blobs.s3.checksums import etag_of
from quire.blobs.s3.client import open_store
from quire.blobs.s3.conditional import ConditionalWriter, version_of
from quire.blobs.s3.errors import translate_errors
from quire.model.errors import Missing, QuireError, Stale

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta

_PIECE_BYTES = 1 << 20
_PART_BYTES = 8 << 20  # S3 takes 10,000 parts: 80 GB to a blob
_PARTS_AT_ONCE = 4


class S3Blobs:
    def __init__(
        self,
        *,
        bucket: str,
        endpoint: str | None = None,
        region: str = "us-east-1",
        access_key_id: str,
        secret_access_key: str,
        prefix: str = "",
        allow_http: bool = False,
        checksums: bool = False,
        timeout_seconds: float = 60,
    ) -> None:
        """Connects to nothing yet. Raises Misconfigured when the extra is not installed."""
        access = {"region": region, "access_key_id": access_key_id, "secret_access_key": secret_access_key}
        self._bucket = bucket
        self._prefix = keys.folder(prefix)
        self._store = open_store(
            bucket, endpoint, access, allow_http=allow_http, seconds=timeout_seconds, checksums=checksums
        )
        self._writer = ConditionalWriter(self._store, bucket)

    def __repr__(self) -> str:
        # Not the endpoint: people write credentials into URLs.
        return f"S3Blobs(bucket={self._bucket!r}, prefix={self._prefix!r})"

    async def put(
        self,
        key: str,
        data: bytes | Path | AsyncIterator[bytes],
        *,
        content_type: str | None = None,
        metadata: Metadata | None = None,
        condition: Condition | None = None,
    ) -> BlobInfo:
        path = self._path(key)
        labels = check_labels(content_type, metadata)
        attributes = {name: encode(value) for name, value in labels.metadata.items()}
        if labels.content_type is not None:
            attributes["Content-Type"] = labels.content_type
        if condition is not None:
            body = await read_whole(data)
            version = await self._writer.put(path, key, body, attributes, condition)
            return _info_of_put(key, len(body), version, labels)
        if isinstance(data, bytes | Path):
            size = await size_of(data)
            return _info_of_put(
                key, size, await self._put_unconditionally(path, key, data, attributes), labels
            )
        counted = CountingStream(data)
        try:
            version = await self._put_unconditionally(path, key, counted, attributes)
        except QuireError:
            if counted.failure is not None:
                raise counted.failure from None  # the caller's stream failed, not the store
            raise
        return _info_of_put(key, counted.size, version, labels)

    async def _put_unconditionally(
        self, path: str, key: str, body: bytes | Path | CountingStream, attributes: dict[str, str]
    ) -> str:
        """Write without a condition: large blobs are sent in parts and become visible with the last."""
        with self._translate("store", key):
            result = await self._store.put_async(
                path, body, attributes=attributes, chunk_size=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE
            )
        return version_of(key, result)

    async def set_aside(self, key: str, digest: str) -> bool:
        """See `SupportsSetAside`. There is no conditional delete, so an empty object takes the place of the
        damaged one: by its size nobody takes it for the right one, and any writer replaces it.
        """
        try:
            present = await self.head(key)
            if not present.size or await self._has_digest(key, digest):
                return False
            await self.put(keys.damaged(digest), self.stream(key))
            await self.put(key, b"", condition=IfVersion(present.version))
        except (Missing, Stale):  # another writer was faster
            return False
        return True

    async def _has_digest(self, key: str, digest: str) -> bool:
        hashed = hashlib.sha256()
        async for piece in self.stream(key):
            hashed.update(piece)
        return hashed.hexdigest() == digest

    def is_copy(self, stored: BlobInfo, source: bytes | Path | SourceFile) -> bool:
        """See `SupportsComparison`. By the ETag, which is made of MD5 unless the store encrypts with a key of
        the customer; then the bytes are sent again.
        """
        return stored.version.strip('"') == etag_of(source, _PART_BYTES, in_parts="-" in stored.version)

    async def get(self, key: str) -> bytes:
        with self._translate("read", key):
            found = await self._store.get_async(self._path(key))
            return bytes(await found.bytes_async())

    async def stream(self, key: str, *, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        path = self._path(key)
        options: GetOptions = {}
        if stop is not None:
            options = {"range": (start, stop)}
        elif start:
            options = {"range": {"offset": start}}
        with self._translate("read", key):
            found = await self._store.get_async(path, options=options)
            async for piece in found.stream(min_chunk_size=_PIECE_BYTES):
                yield bytes(piece)

    async def head(self, key: str) -> BlobInfo:
        path = self._path(key)
        with self._translate("look at", key):
            found = await self._store.get_async(path, options={"head": True})
        meta, attributes = found.meta, dict(found.attributes)
        content_type = attributes.pop("Content-Type", None)
        attributes.pop(NONCE, None)
        labels = {name: decode(value) for name, value in attributes.items() if name == name.lower()}
        return _info_of_meta(key, meta, content_type, labels)

    async def list(self, prefix: str = "", *, after: str = "") -> AsyncIterator[BlobInfo]:
        # A level at a time: some servers list by folder, where `a/b` comes before `a.b`, and cut at `after`
        # by that order too. Levels are sorted here, so memory holds one level of each folder on the way down.
        waiting = [keys.folder(prefix)]
        found: dict[str, ObjectMeta] = {}
        while waiting:
            key = waiting.pop()
            if key and not key.endswith("/"):
                yield _info_of_meta(key, found.pop(key))
                continue
            if key and key <= after and not after.startswith(key):
                continue
            objects, folders = await self._list_level(key)
            found.update((name, meta) for name, meta in objects if name > after)
            waiting += sorted([*(name for name, _ in objects if name > after), *folders], reverse=True)

    async def _list_level(self, folder: str) -> "tuple[Sequence[tuple[str, ObjectMeta]], Sequence[str]]":
        with self._translate("list", folder):
            level = await self._store.list_with_delimiter_async(self._prefix + folder or None)
        cut = len(self._prefix)
        # Consoles and some servers keep a marker for an empty folder; the client shows it without its slash.
        found = [meta for meta in level["objects"] if meta["path"].startswith(self._prefix + folder)]
        objects = [(meta["path"][cut:], meta) for meta in found]
        return objects, [name[cut:] + "/" for name in level["common_prefixes"]]

    async def delete(self, key: str) -> None:
        path = self._path(key)
        try:
            with self._translate("delete", key):
                await self._store.delete_async(path)
        except Missing:
            return

    def local_path(self, key: str) -> Path | None:
        keys.check(key)
        return None

    async def close(self) -> None:
        """Do nothing: the client releases its connections when it is garbage-collected."""

    def _path(self, key: str) -> str:
        return keys.check(self._prefix + keys.check(key))

    def _translate(self, action: str, key: str) -> AbstractContextManager[None]:
        return translate_errors(action, key, self._bucket)


def _info_of_put(key: str, size: int, version: str, labels: Labels) -> BlobInfo:
    # The answer of S3 does not contain the time; asking for it would double the requests.
    return BlobInfo(
        key=key,
        size=size,
        version=version,
        modified_at=0.0,
        content_type=labels.content_type,
        metadata=labels.metadata,
    )


def _info_of_meta(
    key: str, meta: "ObjectMeta", content_type: str | None = None, metadata: dict[str, str] | None = None
) -> BlobInfo:
    return BlobInfo(
        key=key,
        size=meta["size"],
        version=version_of(key, meta),
        modified_at=meta["last_modified"].timestamp(),
        content_type=content_type,
        metadata=metadata or {},
    )
