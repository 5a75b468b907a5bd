"""Rooms of the library for tests: on a store in memory, with requests counted, with sources that say what is
to become of them.
"""

import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from quire.blobs.objects import BlobObjects
from quire.library.context import LibraryContext, LibraryRules
from quire.library.protocol import layout
from quire.library.protocol.bodies import DEFAULT_TIER
from quire.library.worker.loop import WorkerOptions
from quire.model.clock import Clock
from quire.model.ids import Ids
from quire.model.objects import ObjectBody, ObjectInfo, Objects
from quire.testing.memory_blobs import MemoryBlobs
from quire.testing.time import CountingIds, FakeClock
from tests.processes import fake_converter

COMMAND = (sys.executable, "-S", "-E", fake_converter.__file__)


def memory_room(
    *, clock: Clock | None = None, ids: Ids | None = None, rules: LibraryRules | None = None
) -> LibraryContext:
    clock, ids = clock or FakeClock(), ids or CountingIds()
    blobs = MemoryBlobs(clock.now)
    return LibraryContext(
        objects=BlobObjects(blobs, ids), blobs=blobs, clock=clock, ids=ids, rules=rules or LibraryRules()
    )


def options(scratch: Path, **changes: Any) -> WorkerOptions:
    """Of a worker with the fake converter, that waits for nothing."""
    given: dict[str, Any] = {
        "worker": "w1",
        "command": COMMAND,
        "scratch": scratch,
        "environment": {"PATH": os.defpath},
        "memory_mb": 512,
        "patience_seconds": 0.001,
        **changes,
    }
    return WorkerOptions(**given)


async def ingest(room: LibraryContext, text: str, *, tier: str = DEFAULT_TIER, name: str = "") -> str:
    """A source that says what is to become of it, and the marker of its job; returns the id."""
    body = f"%PDF {text}".encode()
    ident = hashlib.sha256(body).hexdigest()
    metadata = {"original-name": name, "tags": json.dumps(["a", "ü"]), "size": str(len(body))}
    await room.blobs.put(
        layout.raw(ident), body, content_type="binary/octet-stream", metadata=metadata if name else None
    )
    await room.objects.put(layout.todo(tier, ident), b"")
    return ident


async def keys(room: LibraryContext, folder: str = "queue") -> list[str]:
    return sorted([seen.key async for page in room.objects.pages(folder) for seen in page])


class CountingObjects:
    """Counts requests as they are made of the store; `before` may refuse one, or look the other way."""

    def __init__(self, objects: Objects, before: Callable[[str, str], None] = lambda *_: None) -> None:
        self._objects = objects
        self.before = before
        self.counts: Counter[str] = Counter()
        self.asked: list[tuple[str, str]] = []

    def count(self, what: str, key: str) -> None:
        self.counts[what] += 1
        self.asked.append((what, key))
        self.before(what, key)

    async def read(self, key: str) -> ObjectBody | None:
        self.count("read", key)
        return await self._objects.read(key)

    async def head(self, key: str) -> ObjectInfo | None:
        self.count("look", key)
        return await self._objects.head(key)

    async def create(self, key: str, body: bytes) -> str | None:
        self.count("create", key)
        return await self._objects.create(key, body)

    async def create_file(self, key: str, source: Path, *, content_type: str) -> bool:
        self.count("create_file", key)
        return await self._objects.create_file(key, source, content_type=content_type)

    async def swap(self, key: str, body: bytes, version: str) -> str | None:
        self.count("swap", key)
        return await self._objects.swap(key, body, version)

    async def put(self, key: str, body: bytes) -> str:
        self.count("put", key)
        return await self._objects.put(key, body)

    async def delete(self, keys: Sequence[str]) -> None:
        self.count("delete", keys[0])
        await self._objects.delete(keys)

    async def pages(self, folder: str, *, after: str = "") -> AsyncIterator[list[ObjectInfo]]:
        asked = False
        async for page in self._objects.pages(folder, after=after):
            asked = True
            self.count("list", folder)
            yield page
        if not asked:
            self.count("list", folder)

    async def now(self) -> float:
        self.count("now", "")
        return await self._objects.now()


class CountingBlobs:
    """The two that a worker asks for."""

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
