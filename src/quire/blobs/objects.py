"""State in a blob store: the port `quire.model.objects` on top of any `Blobs`.

Promise: conditions are those of the store. Deletes one by one; a store that can delete many has an adapter of
its own. Must not know: what the state is.
"""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from quire.blobs.keys import CLOCKS
from quire.blobs.port import BlobInfo, Blobs, Condition, IfAbsent, IfVersion
from quire.model.errors import Missing, Stale
from quire.model.ids import Ids
from quire.model.objects import ObjectBody, ObjectInfo

PAGE = 1000
_JSON = "application/json"
_PLAIN = "binary/octet-stream"  # what the published tools give to markers without content


class BlobObjects:
    def __init__(self, blobs: Blobs, ids: Ids) -> None:
        self._blobs = blobs
        self._ids = ids

    async def read(self, key: str) -> ObjectBody | None:
        """Reads until bytes and version belong together: a swap needs the version of the bytes it read."""
        for _ in range(10):
            try:
                before = await self._blobs.head(key)
                body = await self._blobs.get(key)
                after = await self._blobs.head(key)
            except Missing:
                return None
            if before.version == after.version:
                return ObjectBody(body, after.version)
        raise Stale(f"{key!r} is being written continuously; read it again later.")

    async def head(self, key: str) -> ObjectInfo | None:
        try:
            return _info_of(await self._blobs.head(key))
        except Missing:
            return None

    async def create(self, key: str, body: bytes) -> str | None:
        return await self._put_if(key, body, IfAbsent())

    async def create_file(self, key: str, source: Path, *, content_type: str) -> bool:
        try:
            await self._blobs.put(key, source, content_type=content_type, condition=IfAbsent())
        except Stale:
            return False
        return True

    async def swap(self, key: str, body: bytes, version: str) -> str | None:
        return await self._put_if(key, body, IfVersion(version))

    async def put(self, key: str, body: bytes) -> str:
        return (await self._blobs.put(key, body, content_type=_JSON if body else _PLAIN)).version

    async def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            await self._blobs.delete(key)

    async def pages(self, folder: str, *, after: str = "") -> AsyncIterator[list[ObjectInfo]]:
        page: list[ObjectInfo] = []
        async for stored in self._blobs.list(folder, after=after):
            page.append(_info_of(stored))
            if len(page) == PAGE:
                yield page
                page = []
        if page:
            yield page

    async def now(self) -> float:
        key = f"{CLOCKS}/{self._ids.ulid()}"
        await self._blobs.put(key, b"{}", content_type=_JSON)
        try:
            return (await self._blobs.head(key)).modified_at
        finally:
            await self._blobs.delete(key)

    async def _put_if(self, key: str, body: bytes, condition: Condition) -> str | None:
        try:
            return (await self._blobs.put(key, body, content_type=_JSON, condition=condition)).version
        except Stale:
            return None


def _info_of(stored: BlobInfo) -> ObjectInfo:
    return ObjectInfo(stored.key, stored.size, stored.version, stored.modified_at)
