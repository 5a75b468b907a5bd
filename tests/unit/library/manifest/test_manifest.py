"""The index in every kind of store: nobody's entries are lost, and adding costs what is added."""

import asyncio
import contextlib
import json
import random
from functools import partial

import pytest
from msgspec import structs
from tests.situations.libraries import CountingObjects, local_library, memory_library, s3_library

from quire.library import metadata
from quire.library.manifest import recovery
from quire.library.manifest.entries import ManifestEntry
from quire.library.manifest.repair import rebuild_manifest, repair_manifest
from quire.library.manifest.store import SEGMENTS, LibraryManifest
from quire.model.errors import Reject, Retry
from quire.testing.time import CountingIds, FakeClock

WHOLE = "registry/manifest.json"


@pytest.fixture(params=["memory", "local", pytest.param("s3", marks=pytest.mark.service)])
def context(request, tmp_path):
    if request.param == "memory":
        return memory_library()
    if request.param == "local":
        return local_library(tmp_path / "store")
    return s3_library(request.getfixturevalue("s3_server"), f"manifest/{tmp_path.name}")


@pytest.fixture
def manifest(context):
    return LibraryManifest(context, sleep=_at_once)


async def _at_once(_):
    await asyncio.sleep(0)


def _ident(number):
    return f"{number:064x}"


def _entry(number, path=None):
    return ManifestEntry(
        paths=[path or f"shelf {number % 7}/volume {number}.pdf"],
        size=number,
        tags=[f"shelf {number % 7}", f"volume {number}"],
        ingested_at="2026-02-01T08:00:00Z",
        source="library",
    )


def _some(first, last):
    return {_ident(number): _entry(number) for number in range(first, last)}


async def _keys(context, folder):
    return [seen.key async for page in context.objects.pages(folder) for seen in page]


async def _whole(context):
    found = await context.objects.read(WHOLE)
    return {} if found is None else json.loads(found.body)["entries"]


async def test_what_is_added_is_read(manifest):
    assert len(await manifest.read()) == 0
    await manifest.add(_some(0, 5))
    await manifest.add(_some(3, 8))
    view = await manifest.read()
    assert len(view) == 8
    assert view.get(_ident(7)) == _entry(7)
    assert view.problems == ()


async def test_paths_of_the_same_document_come_together(manifest):
    await manifest.add({_ident(1): _entry(1, "a.pdf")})
    await manifest.add({_ident(1): _entry(1, "b/a.pdf")})
    assert (await manifest.read()).get(_ident(1)).paths == ["a.pdf", "b/a.pdf"]


async def test_compacting_moves_additions_into_the_one_file(context, manifest):
    await manifest.add(_some(0, 40))
    await manifest.compact()
    await manifest.add(_some(40, 42))
    assert len(await _keys(context, SEGMENTS)) == 1
    assert len(await _whole(context)) == 40
    done = await manifest.compact()
    assert (done.segments, done.entries) == (1, 2)
    assert await _keys(context, SEGMENTS) == []
    assert len(await _whole(context)) == 42
    assert (await manifest.compact()).segments == 0


async def test_an_index_that_is_not_changed_is_not_written(context, manifest):
    await manifest.add(_some(0, 40))
    await manifest.compact()
    before = await context.objects.read(WHOLE)
    await manifest.add(_some(0, 3))
    assert (await manifest.compact()).entries == 0
    assert await _keys(context, SEGMENTS) == []
    assert await context.objects.read(WHOLE) == before


async def test_a_hash_that_is_none_is_refused(context, manifest):
    with pytest.raises(Reject):
        await manifest.add({_ident(1): _entry(1), "../x": _entry(2)})
    assert await _keys(context, "registry") == []


async def test_removed_documents_are_gone_from_additions_too(context, manifest):
    await manifest.add(_some(0, 40))
    await manifest.compact()
    await manifest.add(_some(40, 42))
    assert await manifest.remove([_ident(41), _ident(3), _ident(99)]) == 2
    view = await manifest.read()
    assert len(view) == 40
    assert _ident(41) not in view
    assert _ident(40) in view
    assert await manifest.remove([_ident(3)]) == 0


async def _as_published_tools_do(context, numbers):
    """Read, merge, write on the condition that it is unchanged; again when it is not."""
    for number in numbers:
        while True:
            found = await context.objects.read(WHOLE)
            document = {"version": 1, "entries": {}} if found is None else json.loads(found.body)
            document["updated_at"] = f"by another {number}"
            document["entries"][_ident(number)] = structs.asdict(_entry(number))
            body = json.dumps(document).encode()
            if found is None:
                written = await context.objects.create(WHOLE, body)
            else:
                written = await context.objects.swap(WHOLE, body, found.version)
            if written is not None:
                break
            await asyncio.sleep(0)


async def test_two_ingestors_and_one_of_another_make_lose_nothing(context):
    async def ours(first):
        manifest = LibraryManifest(context)
        for at in range(first, first + 60, 6):
            await manifest.add(_some(at, at + 6))
            await manifest.compact()

    await asyncio.gather(ours(0), ours(1000), _as_published_tools_do(context, range(2000, 2012)))
    expected = {*_some(0, 60), *_some(1000, 1060), *_some(2000, 2012)}
    assert set((await LibraryManifest(context).read()).entries) == expected
    await LibraryManifest(context).compact()
    assert set(await _whole(context)) == expected


class Jostling(CountingObjects):
    """Whoever asks waits for a random while, before and after: so everything happens in another order."""

    def __init__(self, inner, chance):
        super().__init__(inner)
        self._chance = chance

    async def _wait(self):
        for _ in range(self._chance.randrange(6)):
            await asyncio.sleep(0)

    async def read(self, key):
        await self._wait()
        found = await super().read(key)
        await self._wait()
        return found

    async def create(self, key, body):
        await self._wait()
        version = await super().create(key, body)
        await self._wait()
        return version

    async def swap(self, key, body, version):
        await self._wait()
        written = await super().swap(key, body, version)
        await self._wait()
        return written

    async def delete(self, keys):
        for key in keys:
            await self._wait()
            await super().delete([key])

    async def pages(self, folder, *, after=""):
        await self._wait()
        async for page in super().pages(folder, after=after):
            await self._wait()
            yield page


@pytest.mark.parametrize("seed", range(40))
async def test_in_whatever_order_nothing_is_lost_or_unseen(seed):
    inner = memory_library()
    context = structs.replace(inner, objects=Jostling(inner.objects, random.Random(seed)))
    sure = set()

    async def ingestor(first):
        manifest = LibraryManifest(context, sleep=_at_once)
        for number in range(first, first + 6):
            await manifest.add({_ident(number): _entry(number)})
            sure.add(_ident(number))

    async def janitor():
        for _ in range(4):
            with contextlib.suppress(Retry):
                await LibraryManifest(context, sleep=_at_once).compact()

    async def reader():
        for _ in range(12):
            before = set(sure)
            assert before <= set((await LibraryManifest(context).read()).entries)

    others = _as_published_tools_do(context, range(300, 304))
    await asyncio.gather(ingestor(0), ingestor(100), ingestor(200), janitor(), janitor(), reader(), others)
    await LibraryManifest(inner).compact()
    expected = {*_some(0, 6), *_some(100, 106), *_some(200, 206), *_some(300, 304)}
    assert set(await _whole(inner)) == expected


async def test_readers_miss_nothing_while_it_is_compacted(context, manifest):
    await manifest.add(_some(0, 10))
    stop = asyncio.Event()

    async def write():
        for number in range(10, 40):
            await manifest.add({_ident(number): _entry(number)})
            await manifest.compact()
        stop.set()

    async def watch():
        last = 10
        while not stop.is_set():
            now = len(await LibraryManifest(context).read())
            assert now >= last
            last = now

    await asyncio.gather(write(), watch())


async def test_a_broken_index_is_told_and_not_overwritten(context, manifest):
    broken = b'{"version":1,"entries":{"' + _ident(1).encode() + b'":{"paths":["a.pdf"],"size":1},"' + b"b"
    await context.objects.put(WHOLE, broken)
    await manifest.add(_some(5, 7))
    view = await manifest.read()
    assert set(view.entries) == set(_some(5, 7))
    assert "Repair" in view.problems[0]
    with pytest.raises(Reject) as refused:
        await manifest.compact()
    assert refused.value.code == "manifest_broken"
    assert (await context.objects.read(WHOLE)).body == broken


async def test_repair_keeps_a_copy_and_what_can_be_read(context, manifest):
    broken = b'{"version":1,"entries":{"' + _ident(1).encode() + b'":{"paths":["a.pdf"],"size":1},"' + b"b"
    await context.objects.put(WHOLE, broken)
    await manifest.add(_some(5, 7))
    would = await repair_manifest(manifest, dry_run=True)
    assert (would.kept, would.moved, would.copy) == (1, 1, "")
    assert (await context.objects.read(WHOLE)).body == broken
    done = await repair_manifest(manifest)
    assert done.kept == 1
    assert (await context.objects.read(done.copy)).body == broken
    assert set(await _whole(context)) == {_ident(1), *_some(5, 7)}
    assert (await manifest.read()).problems == ()


async def test_repair_takes_out_what_is_no_entry(context, manifest):
    body = json.dumps({"version": 1, "entries": {"nonsense": {}, _ident(1): 5, _ident(2): {"paths": ["x"]}}})
    await context.objects.put(WHOLE, body.encode())
    done = await repair_manifest(manifest)
    assert (done.dropped, done.kept) == (2, 1)
    assert (await context.objects.read(done.copy)).body == body.encode()
    assert set(await _whole(context)) == {_ident(2)}
    assert (await repair_manifest(manifest)).copy == ""


async def test_an_index_of_a_later_version_is_not_touched(context, manifest):
    later = b'{"version":2,"shelves":[]}'
    await context.objects.put(WHOLE, later)
    await manifest.add(_some(5, 7))
    assert set((await manifest.read()).entries) == set(_some(5, 7))
    for act in (partial(repair_manifest, manifest), partial(rebuild_manifest, manifest), manifest.compact):
        with pytest.raises(Reject, match="version 2"):
            await act()
    assert (await context.objects.read(WHOLE)).body == later


async def test_rebuilding_takes_what_is_told_with_the_sources(context, manifest):
    for number in range(3):
        told = metadata.encode_metadata(f"Bücher & 100% {number}.pdf", ["Ürte", "x"], 4)
        await context.blobs.put(f"store/raw/{_ident(number)}.pdf", b"%PDF", metadata=told)
    await context.blobs.put(f"store/raw/{_ident(3)}.pdf", b"%PDF")
    await context.objects.put(WHOLE, b"broken")
    await manifest.add({_ident(0): _entry(0, "known.pdf")})
    would = await rebuild_manifest(manifest, dry_run=True)
    assert (would.stored, would.added) == (4, 3)
    done = await rebuild_manifest(manifest)
    assert (done.stored, done.added, done.nameless) == (4, 3, 1)
    whole = await _whole(context)
    assert whole[_ident(1)]["paths"] == ["Bücher & 100% 1.pdf"]
    assert whole[_ident(1)]["tags"] == ["Ürte", "x"]
    assert whole[_ident(3)]["size"] == 4
    assert whole[_ident(0)]["paths"] == ["known.pdf"]
    assert (await rebuild_manifest(manifest)).added == 0
    assert len([key for key in await _keys(context, "registry") if "broken-" in key]) == 1


async def test_who_is_always_late_gives_up_and_loses_nothing():
    context = memory_library(clock=FakeClock(), ids=CountingIds())
    pauses = []

    async def rival(seconds):
        pauses.append(seconds)

    class Contended(CountingObjects):
        async def swap(self, key, body, version):
            await self._objects.put(key, json.dumps({"version": 1, "entries": {}, "n": len(pauses)}).encode())
            return await super().swap(key, body, version)

    await LibraryManifest(context).add(_some(0, 5))
    await LibraryManifest(context).compact()
    context = structs.replace(context, objects=Contended(context.objects))
    manifest = LibraryManifest(context, sleep=rival)
    await manifest.add(_some(5, 6))
    pauses.clear()
    with pytest.raises(Retry):
        await manifest.compact()
    assert pauses == pytest.approx([0.15, 0.3, 0.6, 1.2, 2.4, 4.8, 5, 5, 5, 5])
    assert _ident(5) in await manifest.read()


async def test_bytes_written_grow_with_the_index_and_not_with_its_square():
    async def written(count):
        context = memory_library()
        counting = CountingObjects(context.objects)
        manifest = LibraryManifest(structs.replace(context, objects=counting))
        for at in range(0, count, 50):
            await manifest.add(_some(at, at + 50))
        await manifest.compact()
        assert len(await _whole(context)) == count
        return counting.written

    small, large = await written(1000), await written(5000)
    assert large / small <= 6
    assert small <= 6 * 1000 * 200  # an entry has about 200 bytes


async def test_an_index_that_the_store_does_not_take_costs_one_attempt():
    context = memory_library()

    class Small(CountingObjects):
        async def create(self, key, body):
            if key == WHOLE:
                raise Reject("64 MiB at most.", code="too_large")
            return await super().create(key, body)

    counting = Small(context.objects)
    manifest = LibraryManifest(structs.replace(context, objects=counting))
    for number in range(20):
        await manifest.add({_ident(number): _entry(number)})
    assert counting.counts["read"] <= 2
    assert len(await manifest.read()) == 20
    with pytest.raises(Reject, match=r"Additions stay in registry/manifest\.d"):
        await manifest.compact()


async def test_many_small_additions_do_not_pile_up():
    context = memory_library()
    manifest = LibraryManifest(context)
    await manifest.add(_some(0, 2000))
    await manifest.compact()
    for number in range(2000, 2300):
        await manifest.add({_ident(number): _entry(number)})
    assert len(await _keys(context, SEGMENTS)) < 256
    assert len(await manifest.read()) == 2300


async def test_what_could_not_be_written_is_kept_and_written_later(tmp_path):
    context = memory_library()
    path = recovery.save(tmp_path / "home", _some(0, 3), context.ids, "now")
    (tmp_path / "home" / "manifest-recovery-x.json").write_text("broken")
    assert json.loads(path.read_text())["entries"][_ident(2)]["size"] == 2
    manifest = LibraryManifest(context)
    assert await recovery.recover(manifest, tmp_path / "home") == 3
    assert not path.exists()
    assert (tmp_path / "home" / "manifest-recovery-x.json").exists()
    assert set((await manifest.read()).entries) == set(_some(0, 3))
    assert await recovery.recover(manifest, tmp_path / "home") == 0
