"""What every store of state must do, as tests. Subclass `ObjectsSuite` with a fixture `objects`."""

import asyncio
from pathlib import Path

import pytest

from quire.model.objects import Objects


async def keys_of(objects: Objects, folder: str, after: str = "") -> list[str]:
    return [seen.key async for page in objects.pages(folder, after=after) for seen in page]


class ObjectsSuite:
    async def test_what_was_put_is_read_with_its_version(self, objects: Objects) -> None:
        version = await objects.put("queue/state/a", b"one")
        found = await objects.read("queue/state/a")
        assert found is not None
        assert (found.body, found.version) == (b"one", version)
        assert await objects.put("queue/state/a", b"two") != version

    async def test_what_is_not_there_is_none(self, objects: Objects) -> None:
        assert await objects.read("queue/state/a") is None
        assert await objects.head("queue/state/a") is None
        assert await keys_of(objects, "queue") == []

    async def test_a_body_may_be_empty(self, objects: Objects) -> None:
        await objects.put("queue/todo/3_normal/a", b"")
        seen = await objects.head("queue/todo/3_normal/a")
        assert seen is not None
        assert seen.size == 0

    async def test_creating_has_one_winner(self, objects: Objects) -> None:
        bodies = [f"racer {number}".encode() for number in range(6)]
        versions = await asyncio.gather(*(objects.create("queue/state/a", body) for body in bodies))
        (winner,) = [number for number, version in enumerate(versions) if version is not None]
        found = await objects.read("queue/state/a")
        assert found is not None
        assert (found.body, found.version) == (bodies[winner], versions[winner])

    async def test_swapping_has_one_winner(self, objects: Objects) -> None:
        first = await objects.put("queue/state/a", b"first")
        bodies = [f"racer {number}".encode() for number in range(6)]
        versions = await asyncio.gather(*(objects.swap("queue/state/a", body, first) for body in bodies))
        assert len([version for version in versions if version is not None]) == 1
        assert await objects.swap("queue/state/a", b"too late", first) is None

    async def test_what_is_gone_is_not_swapped(self, objects: Objects) -> None:
        first = await objects.put("queue/state/a", b"first")
        await objects.delete(["queue/state/a"])
        assert await objects.swap("queue/state/a", b"second", first) is None
        assert await objects.read("queue/state/a") is None

    @pytest.mark.parametrize("size", [0, 3 << 20, 9 << 20])
    async def test_a_file_is_created_once(self, objects: Objects, tmp_path: Path, size: int) -> None:
        sources = [tmp_path / f"{number}.zip" for number in range(3)]
        for number, source in enumerate(sources):
            source.write_bytes(bytes([number]) * size)
        made = await asyncio.gather(
            *(objects.create_file("store/out/a.zip", one, content_type="application/zip") for one in sources)
        )
        assert sorted(made) == [False, False, True]
        seen, found = await objects.head("store/out/a.zip"), await objects.read("store/out/a.zip")
        assert seen is not None
        assert found is not None
        assert (seen.size, found.body) == (size, sources[made.index(True)].read_bytes())

    async def test_many_are_deleted_at_once_be_they_there_or_not(self, objects: Objects) -> None:
        names = [f"queue/todo/3_normal/{number:04d}" for number in range(20)]
        for name in names:
            await objects.put(name, b"")
        await objects.delete([*names[:19], "queue/failed/none"])
        assert await keys_of(objects, "queue") == names[19:]
        await objects.delete([])

    async def test_a_listing_goes_through_all_folders_by_key(self, objects: Objects) -> None:
        names = [f"queue/todo/{tier}/{name}" for tier in ("1_critical", "3_normal") for name in "abc"]
        for name in reversed(names):
            await objects.put(name, b"x")
        assert await keys_of(objects, "queue/todo") == names
        assert await keys_of(objects, "queue/todo/3_normal") == names[3:]

    async def test_a_listing_may_begin_anywhere(self, objects: Objects) -> None:
        names = [f"queue/todo/3_normal/{digit * 8}" for digit in "0123456789abcdef"]
        for name in names:
            await objects.put(name, b"")
        assert await keys_of(objects, "queue/todo/3_normal", "queue/todo/3_normal/7f") == names[8:]
        assert await keys_of(objects, "queue/todo/3_normal", names[8]) == names[9:]

    async def test_a_listing_tells_size_version_and_age(self, objects: Objects) -> None:
        version = await objects.put("queue/state/a", b"four")
        ((seen,),) = [page async for page in objects.pages("queue/state")]
        assert (seen.key, seen.size, seen.version) == ("queue/state/a", 4, version)
        assert abs(await objects.now() - seen.modified_at) < 30

    async def test_asking_for_the_time_leaves_nothing_behind(self, objects: Objects) -> None:
        await objects.now()
        assert await keys_of(objects, "registry") == []
