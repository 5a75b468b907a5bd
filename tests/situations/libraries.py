"""Libraries for tests: in memory, in a folder, in a real bucket; with requests counted; and PDFs for them."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from quire.assembly.library_worker import ComputeStarter
from quire.blobs.local import LocalBlobs
from quire.blobs.objects import BlobObjects
from quire.blobs.port import Blobs
from quire.blobs.s3 import S3Blobs
from quire.blobs.s3.objects import S3Objects
from quire.library.context import LibraryContext, LibraryRules
from quire.library.protocol import layout
from quire.library.protocol.bodies import DEFAULT_TIER
from quire.library.worker.loop import WorkerOptions
from quire.model.clock import Clock
from quire.model.ids import Ids
from quire.model.objects import ObjectBody, ObjectInfo, Objects
from quire.system import SystemClock, SystemIds
from quire.testing.memory_blobs import MemoryBlobs
from tests.processes import fake_converter
from tests.servers.s3 import S3Server

ROOT = Path(__file__).parents[2]


def fake_compute() -> ComputeStarter:
    """Starts processes with the fake converter."""
    return ComputeStarter(
        {"PATH": os.defpath, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}, (fake_converter.__name__,)
    )


def memory_library(
    *, clock: Clock | None = None, ids: Ids | None = None, rules: LibraryRules | None = None
) -> LibraryContext:
    clock = clock or SystemClock()
    return build_library(MemoryBlobs(clock.now), clock, ids, rules)


def local_library(folder: Path, *, clock: Clock | None = None, ids: Ids | None = None) -> LibraryContext:
    return build_library(LocalBlobs(folder), clock, ids)


def s3_library(server: S3Server, prefix: str, *, clock: Clock | None = None) -> LibraryContext:
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


def build_library(
    blobs: Blobs, clock: Clock | None = None, ids: Ids | None = None, rules: LibraryRules | None = None
) -> LibraryContext:
    clock, ids = clock or SystemClock(), ids or SystemIds()
    return LibraryContext(
        objects=BlobObjects(blobs, ids), blobs=blobs, clock=clock, ids=ids, rules=rules or LibraryRules()
    )


def worker_options(scratch: Path, **changes: Any) -> WorkerOptions:
    """Options of a worker with the fake converter that waits for nothing."""
    given: dict[str, Any] = {
        "worker": "w1",
        "start_compute": fake_compute(),
        "scratch": scratch,
        "memory_mb": 512,
        "patience_seconds": 0.001,
        **changes,
    }
    return WorkerOptions(**given)


async def ingest_text(context: LibraryContext, text: str, *, tier: str = DEFAULT_TIER, name: str = "") -> str:
    """Store a source whose text tells the fake converter what to do, and queue its job; returns the id."""
    body = f"%PDF {text}".encode()
    ident = hashlib.sha256(body).hexdigest()
    metadata = {"original-name": name, "tags": json.dumps(["a", "ü"]), "size": str(len(body))}
    await context.blobs.put(
        layout.raw(ident), body, content_type="binary/octet-stream", metadata=metadata if name else None
    )
    await context.objects.put(layout.todo(tier, ident), b"")
    return ident


async def list_keys(context: LibraryContext, folder: str = "queue") -> list[str]:
    return sorted([seen.key async for page in context.objects.pages(folder) for seen in page])


class CountingObjects:
    """Counts the requests to a store, a listing by its pages, and the bytes written. `before` is called
    before each request and may refuse it.
    """

    def __init__(self, objects: Objects, before: Callable[[str, str], None] = lambda *_: None) -> None:
        self._objects = objects
        self.before = before
        self.counts: Counter[str] = Counter()
        self.requests: list[tuple[str, str]] = []
        self.written = 0

    def count(self, what: str, key: str, body: bytes = b"") -> None:
        self.counts[what] += 1
        self.written += len(body)
        self.requests.append((what, key))
        self.before(what, key)

    async def read(self, key: str) -> ObjectBody | None:
        self.count("read", key)
        return await self._objects.read(key)

    async def head(self, key: str) -> ObjectInfo | None:
        self.count("head object", key)
        return await self._objects.head(key)

    async def create(self, key: str, body: bytes) -> str | None:
        self.count("create", key, body)
        return await self._objects.create(key, body)

    async def create_file(self, key: str, source: Path, *, content_type: str) -> bool:
        self.count("create_file", key)
        return await self._objects.create_file(key, source, content_type=content_type)

    async def swap(self, key: str, body: bytes, version: str) -> str | None:
        self.count("swap", key, body)
        return await self._objects.swap(key, body, version)

    async def put(self, key: str, body: bytes) -> str:
        self.count("put", key, body)
        return await self._objects.put(key, body)

    async def delete(self, keys: Sequence[str]) -> None:
        self.count("delete", keys[0] if keys else "")
        await self._objects.delete(keys)

    async def pages(self, folder: str, *, after: str = "") -> AsyncIterator[list[ObjectInfo]]:
        has_pages = False
        async for page in self._objects.pages(folder, after=after):
            has_pages = True
            self.count("list", folder)
            yield page
        if not has_pages:
            self.count("list", folder)

    async def now(self) -> float:
        self.count("now", "")
        return await self._objects.now()


class CountingBlobs:
    """Counts the two requests that a worker makes of blobs."""

    def __init__(self, blobs: Any, counter: CountingObjects) -> None:
        self._blobs = blobs
        self._counter = counter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._blobs, name)

    async def head(self, key: str) -> Any:
        self._counter.count("head", key)
        return await self._blobs.head(key)

    async def stream(self, key: str, **parts: Any) -> AsyncIterator[bytes]:
        self._counter.count("get", key)
        async for piece in self._blobs.stream(key, **parts):
            yield piece


def pdf(text: str) -> bytes:
    """Bytes that begin like a PDF, which no reader could open."""
    return b"%PDF-1.7\n" + text.encode() + b"\n%%EOF\n"


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def pointer(body: bytes) -> bytes:
    """The Git LFS pointer file of these bytes."""
    version = "version https://git-lfs.github.com/spec/v1"
    return f"{version}\noid sha256:{digest(body)}\nsize {len(body)}\n".encode()
