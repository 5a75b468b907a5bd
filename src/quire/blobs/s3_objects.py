"""State kept in an S3 bucket: the port `quire.model.objects` with as few requests as S3 allows.

Promise: one request each, as long as nobody interferes; a refused condition is looked into once, since it may
be about our own success (`s3_conditional`). Listings are asked for page by page. Must not know: what is kept.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quire.blobs import keys
from quire.blobs.objects import CLOCKS
from quire.blobs.port import Condition, IfAbsent, IfVersion
from quire.blobs.s3_body import in_memory
from quire.blobs.s3_conditional import ConditionalWriter, version_of
from quire.blobs.s3_edge import translated
from quire.model.errors import Missing, Stale
from quire.model.ids import Ids
from quire.model.objects import Found, Seen

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import S3Store

PAGE = 1000  # S3 gives no more at once
# A book of scans is larger than what else is written on a condition. In memory all the same: the parts of
# an upload cannot be put together on a condition everywhere.
MAX_FILE_BYTES = 512 << 20
_JSON = "application/json"
_PLAIN = "binary/octet-stream"  # what the published tools give to markers without content


class S3Objects:
    def __init__(self, store: "S3Store", *, bucket: str, prefix: str, ids: Ids) -> None:
        self._store = store
        self._bucket = bucket
        self._prefix = keys.folder(prefix)
        self._writer = ConditionalWriter(store, bucket)
        self._ids = ids

    async def read(self, key: str) -> Found | None:
        try:
            with self._edge("read", key):
                found = await self._store.get_async(self._path(key))
                return Found(bytes(await found.bytes_async()), version_of(key, found.meta))
        except Missing:
            return None

    async def look(self, key: str) -> Seen | None:
        try:
            with self._edge("look at", key):
                return self._seen(await self._store.head_async(self._path(key)))
        except Missing:
            return None

    async def create(self, key: str, body: bytes) -> str | None:
        return await self._conditional(key, body, _JSON, IfAbsent())

    async def create_file(self, key: str, source: Path, *, content_type: str) -> bool:
        body = await in_memory(source, MAX_FILE_BYTES)
        return await self._conditional(key, body, content_type, IfAbsent()) is not None

    async def swap(self, key: str, body: bytes, version: str) -> str | None:
        return await self._conditional(key, body, _JSON, IfVersion(version))

    async def put(self, key: str, body: bytes) -> str:
        attributes: Any = {"Content-Type": _JSON if body else _PLAIN}
        with self._edge("store", key):
            return version_of(key, await self._store.put_async(self._path(key), body, attributes=attributes))

    async def delete(self, keys: Sequence[str]) -> None:
        if not keys:
            return
        with self._edge("delete", keys[0]):
            await self._store.delete_async([self._path(key) for key in keys])

    async def pages(self, folder: str, *, after: str = "") -> AsyncIterator[list[Seen]]:
        prefix = self._path(folder)
        offset = self._path(after) if after else None
        with self._edge("list", folder):
            listing = self._store.list(prefix, offset=offset, chunk_size=PAGE)
            async for page in listing:
                yield [self._seen(meta) for meta in page]

    async def now(self) -> float:
        key = f"{CLOCKS}/{self._ids.ulid()}"
        await self.put(key, b"{}")
        try:
            seen = await self.look(key)
        finally:
            await self.delete([key])
        if seen is None:
            raise Missing(f"{key!r} was there a moment ago.")
        return seen.modified_at

    async def _conditional(self, key: str, body: bytes, kind: str, condition: Condition) -> str | None:
        try:
            return await self._writer.put(self._path(key), key, body, {"Content-Type": kind}, condition)
        except Stale:
            return None

    def _seen(self, meta: "ObjectMeta") -> Seen:
        key = meta["path"][len(self._prefix) :]
        return Seen(key, meta["size"], version_of(key, meta), meta["last_modified"].timestamp())

    def _path(self, key: str) -> str:
        return keys.check(self._prefix + keys.check(key))

    def _edge(self, action: str, key: str) -> AbstractContextManager[None]:
        return translated(action, key, self._bucket)
