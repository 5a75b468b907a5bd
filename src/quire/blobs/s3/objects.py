"""State in an S3 bucket: the port `quire.model.objects` with as few requests as S3 allows.

Promise: one request per call without contention; a refused condition costs one more, since it may be caused
by this writer's own success (`conditional`). Large files are streamed in one conditional request. Listings
are read page by page. Must not know: what the state is.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quire.blobs import keys
from quire.blobs.keys import CLOCKS
from quire.blobs.port import Condition, IfAbsent, IfVersion
from quire.blobs.s3.body import read_whole, size_of
from quire.blobs.s3.client import open_store
from quire.blobs.s3.conditional import ConditionalWriter, version_of
from quire.blobs.s3.errors import translate_errors
from quire.blobs.s3.files import S3Files
from quire.blobs.s3.requests import Pause
from quire.blobs.s3.signing import Signer
from quire.model.clock import Clock
from quire.model.errors import Missing, Stale
from quire.model.ids import Ids
from quire.model.objects import ObjectBody, ObjectInfo

if TYPE_CHECKING:
    from obstore import ObjectMeta

PAGE = 1000  # the limit of S3
SMALL_BYTES = 8 << 20  # smaller files go through memory, on a connection that is already open
_JSON = "application/json"
_PLAIN = "binary/octet-stream"  # what the published tools give to markers without content


class S3Objects:
    def __init__(
        self,
        *,
        clock: Clock,
        ids: Ids,
        bucket: str,
        endpoint: str | None = None,
        region: str = "us-east-1",
        access_key_id: str,
        secret_access_key: str,
        prefix: str = "",
        allow_http: bool = False,
        timeout_seconds: float = 60,
        pause: Pause = asyncio.sleep,
    ) -> None:
        """Connects to nothing yet. Raises Misconfigured when the extra is not installed."""
        access = {"region": region, "access_key_id": access_key_id, "secret_access_key": secret_access_key}
        own = endpoint or f"https://s3.{region}.amazonaws.com"
        self._store = open_store(bucket, endpoint, access, allow_http=allow_http, seconds=timeout_seconds)
        self._files = S3Files(
            Signer(endpoint=own, **access), clock, bucket=bucket, timeout_seconds=timeout_seconds, pause=pause
        )
        self._writer = ConditionalWriter(self._store, bucket)
        self._bucket = bucket
        self._prefix = keys.folder(prefix)
        self._ids = ids

    def __repr__(self) -> str:
        # Not the endpoint: people write credentials into URLs.
        return f"S3Objects(bucket={self._bucket!r}, prefix={self._prefix!r})"

    async def close(self) -> None:
        """Do nothing: the client releases its connections when it is garbage-collected."""

    async def read(self, key: str) -> ObjectBody | None:
        try:
            with self._translate("read", key):
                found = await self._store.get_async(self._path(key))
                return ObjectBody(bytes(await found.bytes_async()), version_of(key, found.meta))
        except Missing:
            return None

    async def head(self, key: str) -> ObjectInfo | None:
        try:
            with self._translate("look at", key):
                return self._info_of(await self._store.head_async(self._path(key)))
        except Missing:
            return None

    async def create(self, key: str, body: bytes) -> str | None:
        return await self._put_if(key, body, _JSON, IfAbsent())

    async def create_file(self, key: str, source: Path, *, content_type: str) -> bool:
        if await size_of(source) <= SMALL_BYTES:
            body = await read_whole(source)
            return await self._put_if(key, body, content_type, IfAbsent()) is not None
        path = f"/{self._bucket}/{self._path(key)}"
        return await self._files.create(path, key, source, content_type=content_type)

    async def swap(self, key: str, body: bytes, version: str) -> str | None:
        return await self._put_if(key, body, _JSON, IfVersion(version))

    async def put(self, key: str, body: bytes) -> str:
        attributes: Any = {"Content-Type": _JSON if body else _PLAIN}
        with self._translate("store", key):
            return version_of(key, await self._store.put_async(self._path(key), body, attributes=attributes))

    async def delete(self, keys: Sequence[str]) -> None:
        if not keys:
            return
        with self._translate("delete", keys[0]):
            await self._store.delete_async([self._path(key) for key in keys])

    async def pages(self, folder: str, *, after: str = "") -> AsyncIterator[list[ObjectInfo]]:
        prefix = self._path(folder)
        offset = self._path(after) if after else None
        with self._translate("list", folder):
            listing = self._store.list(prefix, offset=offset, chunk_size=PAGE)
            async for page in listing:
                yield [self._info_of(meta) for meta in page]

    async def now(self) -> float:
        key = f"{CLOCKS}/{self._ids.ulid()}"
        await self.put(key, b"{}")
        try:
            seen = await self.head(key)
        finally:
            await self.delete([key])
        if seen is None:
            raise Missing(f"{key!r} was deleted by another process.")
        return seen.modified_at

    async def _put_if(self, key: str, body: bytes, kind: str, condition: Condition) -> str | None:
        try:
            return await self._writer.put(self._path(key), key, body, {"Content-Type": kind}, condition)
        except Stale:
            return None

    def _info_of(self, meta: "ObjectMeta") -> ObjectInfo:
        key = meta["path"][len(self._prefix) :]
        return ObjectInfo(key, meta["size"], version_of(key, meta), meta["last_modified"].timestamp())

    def _path(self, key: str) -> str:
        return keys.check(self._prefix + keys.check(key))

    def _translate(self, action: str, key: str) -> AbstractContextManager[None]:
        return translate_errors(action, key, self._bucket)
