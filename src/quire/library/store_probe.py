"""Probes of a store: each ability the library needs is tried by itself and described in words.

Promises: probes write below a prefix of their own and remove everything; a probe that fails, or raises
anything, does not keep the others from running. Must not know: which store it is.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from quire.blobs import keys
from quire.blobs.port import IfAbsent, IfVersion
from quire.library.context import LibraryContext
from quire.model.errors import Missing, QuireError, Stale
from quire.model.probe import Probe

LARGE_BYTES = 17 << 20  # more than is sent in one piece
MAX_SKEW_SECONDS = 60.0
_RACERS = 8
_METADATA = {"original-name": "Rules v2 ü.pdf", "tags": '["DnD"]', "size": "4"}


class _Probes:
    def __init__(self, context: LibraryContext) -> None:
        self._context = context
        self._nonce = context.ids.ulid()
        self._names: set[str] = set()

    def _key(self, name: str) -> str:
        self._names.add(name)
        return keys.probe(self._nonce, name)

    async def put(self) -> str:
        await self._context.blobs.put(self._key("put"), b"one")
        await self._context.blobs.put(self._key("put"), b"two!")
        return ""

    async def get(self) -> str:
        await self._context.blobs.put(self._key("get"), b"old")
        await self._context.blobs.put(self._key("get"), b"new")
        _require(await self._context.blobs.get(self._key("get")) == b"new", "an old version was read")
        return ""

    async def listing(self) -> str:
        await self._context.objects.put(self._key("list"), b"{}")
        folder = self._key("list").rpartition("/")[0]
        found = [seen.key async for page in self._context.objects.pages(folder) for seen in page]
        _require(self._key("list") in found, "what was just written is not listed")
        return ""

    async def delete(self) -> str:
        await self._context.blobs.put(self._key("delete"), b"x")
        await self._context.objects.delete([self._key("delete"), self._key("never-there")])
        _require(await self._context.objects.head(self._key("delete")) is None, "it is still there")
        return ""

    async def metadata(self) -> str:
        await self._context.blobs.put(self._key("metadata"), b"%PDF", metadata=_METADATA)
        found = (await self._context.blobs.head(self._key("metadata"))).metadata
        _require(found == _METADATA, "it was changed")
        return ""

    async def create(self) -> str:
        await self._context.blobs.put(self._key("create"), b"1", condition=IfAbsent())
        try:
            await self._context.blobs.put(self._key("create"), b"2", condition=IfAbsent())
        except Stale:
            _require(
                await self._context.blobs.get(self._key("create")) == b"1", "the first one was overwritten"
            )
            return ""
        raise _ProbeFailed("a second create was not refused")

    async def swap(self) -> str:
        first = await self._context.blobs.put(self._key("swap"), b"1")
        second = await self._context.blobs.put(self._key("swap"), b"2", condition=IfVersion(first.version))
        _require(second.version != first.version, "both versions have the same name")
        for version, name in ((first.version, "swap"), (second.version, "nothing")):
            try:
                await self._context.blobs.put(self._key(name), b"3", condition=IfVersion(version))
            except (Stale, Missing):
                continue
            raise _ProbeFailed("overwriting another version was not refused")
        return ""

    async def races(self) -> str:
        objects = self._context.objects
        versions = await asyncio.gather(
            *(objects.create(self._key("race"), b"%d" % number) for number in range(_RACERS))
        )
        won = sum(version is not None for version in versions)
        _require(won == 1, f"{won} of {_RACERS} creates at the same time won")
        return f"one of {_RACERS}"

    async def large(self) -> str:
        with tempfile.TemporaryDirectory(prefix="quire-test-") as folder:
            path = Path(folder, "large")
            await asyncio.to_thread(path.write_bytes, bytes(LARGE_BYTES))
            made = await self._context.objects.create_file(
                self._key("large"), path, content_type="application/zip"
            )
            again = await self._context.objects.create_file(
                self._key("large"), path, content_type="application/zip"
            )
            await self._context.blobs.put(self._key("multipart"), path)
        _require(made and not again, "a second create of a large object was not refused")
        for name in ("large", "multipart"):
            seen = await self._context.objects.head(self._key(name))
            _require(seen is not None and seen.size == LARGE_BYTES, "it did not arrive whole")
        return f"{LARGE_BYTES >> 20} MiB"

    async def clock(self) -> str:
        ahead = await self._context.objects.now() - self._context.clock.now()
        _require(abs(ahead) < MAX_SKEW_SECONDS, f"it differs from this machine's by {ahead:.0f} s")
        return f"within {max(1.0, abs(ahead)):.0f} s of this machine's clock"

    async def clean(self) -> None:
        with suppress(QuireError):
            await self._context.objects.delete([keys.probe(self._nonce, name) for name in self._names])


class _ProbeFailed(Exception):
    """The store does not have the ability; the text says what was observed."""


UNSAFE = "workers, janitors and ingest refuse to start: work would be done twice or lost"


async def probe_store(
    context: LibraryContext, on_each: Callable[[Probe], None] = lambda _: None
) -> list[Probe]:
    """Run all probes in order; stops after a needed ability that is missing."""
    probes = _Probes(context)
    steps: list[tuple[str, bool, str, Callable[[], Awaitable[str]]]] = [
        ("put an object", True, "nothing works", probes.put),
        ("read the latest version", True, "nothing works", probes.get),
        ("list an object as soon as it is written", True, "no job would be found", probes.listing),
        ("delete", True, "no job would ever end", probes.delete),
        ("metadata", False, "names and tags are taken from the manifest", probes.metadata),
        ("create only if absent (If-None-Match)", False, UNSAFE, probes.create),
        ("overwrite only a known version (If-Match)", False, UNSAFE, probes.swap),
        ("one of several simultaneous creates succeeds", False, UNSAFE, probes.races),
        ("large objects, all or nothing", False, "large results cannot be stored", probes.large),
        ("clock", False, "ages follow the store's clock and will look wrong here", probes.clock),
    ]
    results: list[Probe] = []
    try:
        for name, needed, advice, step in steps:
            result = await _probe(name, step, needed=needed, advice=advice)
            results.append(result)
            on_each(result)
            if needed and not result.ok:
                break  # the others would fail too
    finally:
        await probes.clean()
    return results


async def _probe(name: str, step: Callable[[], Awaitable[str]], *, needed: bool, advice: str) -> Probe:
    try:
        detail = await step()
    except (_ProbeFailed, QuireError, OSError) as error:
        return Probe(name=name, ok=False, needed=needed, detail=str(error), advice=advice)
    return Probe(name=name, ok=True, needed=needed, detail=detail)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise _ProbeFailed(otherwise)
