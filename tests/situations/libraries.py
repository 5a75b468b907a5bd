"""Libraries to try things in: in memory, in a folder, in a real bucket; and PDFs to put into them."""

import hashlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from quire.blobs.local import LocalBlobs
from quire.blobs.objects import BlobObjects
from quire.blobs.port import Blobs
from quire.blobs.s3 import S3Blobs
from quire.blobs.s3.objects import S3Objects
from quire.library.context import LibraryContext
from quire.model.clock import Clock
from quire.model.ids import Ids
from quire.model.objects import ObjectBody, ObjectInfo, Objects
from quire.system import SystemClock, SystemIds
from quire.testing.memory_blobs import MemoryBlobs
from tests.servers.s3 import S3Server


def memory_room(*, clock: Clock | None = None, ids: Ids | None = None) -> LibraryContext:
    return _room(MemoryBlobs(), clock, ids)


def local_room(folder: Path, *, clock: Clock | None = None, ids: Ids | None = None) -> LibraryContext:
    return _room(LocalBlobs(folder), clock, ids)


def s3_room(server: S3Server, prefix: str, *, clock: Clock | None = None) -> LibraryContext:
    access: dict[str, Any] = {
        "bucket": server.bucket,
        "endpoint": server.endpoint,
        "region": server.region,
        "access_key_id": server.access_key_id,
        "secret_access_key": server.secret_access_key,
        "prefix": prefix,
        "allow_http": True,
    }
    blobs, ids = S3Blobs(**access), SystemIds()
    objects = S3Objects(clock=clock or SystemClock(), ids=ids, **access)
    return LibraryContext(objects=objects, blobs=blobs, clock=clock or SystemClock(), ids=ids)


def _room(blobs: Blobs, clock: Clock | None, ids: Ids | None) -> LibraryContext:
    chosen = ids or SystemIds()
    return LibraryContext(
        objects=BlobObjects(blobs, chosen), blobs=blobs, clock=clock or SystemClock(), ids=chosen
    )


class CountingObjects:
    """Objects of somebody else, with what was asked of them: requests by kind, and bytes written."""

    def __init__(self, inner: Objects) -> None:
        self._inner = inner
        self.requests: dict[str, int] = {}
        self.written = 0

    async def read(self, key: str) -> ObjectBody | None:
        self._count("read")
        return await self._inner.read(key)

    async def head(self, key: str) -> ObjectInfo | None:
        self._count("look")
        return await self._inner.head(key)

    async def create(self, key: str, body: bytes) -> str | None:
        self._count("create", body)
        return await self._inner.create(key, body)

    async def create_file(self, key: str, source: Path, *, content_type: str) -> bool:
        self._count("create_file")
        return await self._inner.create_file(key, source, content_type=content_type)

    async def swap(self, key: str, body: bytes, version: str) -> str | None:
        self._count("swap", body)
        return await self._inner.swap(key, body, version)

    async def put(self, key: str, body: bytes) -> str:
        self._count("put", body)
        return await self._inner.put(key, body)

    async def delete(self, keys: Sequence[str]) -> None:
        self._count("delete")
        await self._inner.delete(keys)

    async def pages(self, folder: str, *, after: str = "") -> AsyncIterator[list[ObjectInfo]]:
        self._count("pages")
        async for page in self._inner.pages(folder, after=after):
            yield page

    async def now(self) -> float:
        self._count("now")
        return await self._inner.now()

    def _count(self, kind: str, body: bytes = b"") -> None:
        self.requests[kind] = self.requests.get(kind, 0) + 1
        self.written += len(body)


def pdf(text: str) -> bytes:
    """Not a PDF that anybody could read; one that begins like one."""
    return b"%PDF-1.7\n" + text.encode() + b"\n%%EOF\n"


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def pointer(body: bytes) -> bytes:
    """What Git LFS leaves in the place of a file."""
    version = "version https://git-lfs.github.com/spec/v1"
    return f"{version}\noid sha256:{digest(body)}\nsize {len(body)}\n".encode()
