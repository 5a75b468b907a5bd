"""What every blob store must do, as tests. Run it by a subclass with a fixture `blobs`:

    class TestMyBlobs(BlobsSuite):
        @pytest.fixture
        async def blobs(self): ...   # an empty store

Runs under pytest with pytest-asyncio in auto mode. Must not know: any store.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quire.blobs.port import Blobs, IfAbsent, IfVersion
from quire.blobs.probe import probe
from quire.model.errors import Missing, Reject, Stale
from quire.system import SystemIds

AWKWARD_KEYS = [
    "a blank/and another ",
    "plus+plus/a+b",
    "hash#mark",
    "per%cent/100%",
    "already%20escaped%2F",
    "quo'te\"s",
    "question?mark=1&x",
    "emoji-😀/…",
    "e\u0301-decomposed and é-composed",
    "[brackets]{braces}<angles>|^`~",
    "colon:semi;comma,at@dollar$bang!(star*)",
    ".hidden/..dots.",
    "-dash/--",
    "n" * 255,
]
BAD_KEYS = [
    "",
    "/a",
    "a/",
    "a//b",
    ".",
    "..",
    "a/../b",
    "a/./b",
    "a\\b",
    "a\nb",
    "a\0b",
    "é" * 513,
    "n" * 256,
]
METADATA = {"title": "Blätter, 100 % + ☂ \n", "empty": "", "edges": " x ", "7": "%41"}
BIG = 9 << 20  # more than one part of a multipart upload


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


class BlobsSuite:
    async def test_bytes_come_back_as_they_were_put(self, blobs: Blobs) -> None:
        for body in (b"", b"x", bytes(range(256)) * 5000):
            stored = await blobs.put("folder/blob", body)
            assert await blobs.get("folder/blob") == body
            head = await blobs.head("folder/blob")
            assert (head.key, head.size, head.version) == ("folder/blob", len(body), stored.version)
            assert stored.size == len(body)
            assert head.modified_at > 1e9

    async def test_a_file_is_copied_and_left_alone(self, blobs: Blobs, tmp_path: Path) -> None:
        source = tmp_path / "source"
        body = bytes(range(256)) * (BIG // 256)
        source.write_bytes(body)
        assert (await blobs.put("from/file", source)).size == BIG
        source.write_bytes(b"other")
        assert await blobs.get("from/file") == body

    async def test_a_file_that_is_not_there_is_missing(self, blobs: Blobs, tmp_path: Path) -> None:
        with pytest.raises(Missing):
            await blobs.put("from/nothing", tmp_path / "nothing")
        with pytest.raises(Missing):
            await blobs.head("from/nothing")

    async def test_streams_go_in_and_out_in_pieces(self, blobs: Blobs) -> None:
        parts = [bytes([number]) * 700_000 for number in range(14)]
        stored = await blobs.put("from/stream", pieces(*parts))
        out = [piece async for piece in blobs.stream("from/stream")]
        assert b"".join(out) == b"".join(parts)
        assert stored.size == sum(map(len, parts))
        assert max(map(len, out)) <= 4 << 20
        assert (await blobs.put("from/empty", pieces())).size == 0
        assert [piece async for piece in blobs.stream("from/empty") if piece] == []

    @pytest.mark.parametrize(
        ("start", "stop"), [(0, 1), (3, None), (1_000_000, 2_500_000), (2_999_999, 3_000_000)]
    )
    async def test_a_stream_may_begin_and_end_anywhere(
        self, blobs: Blobs, start: int, stop: int | None
    ) -> None:
        data = bytes(number % 251 for number in range(3_000_000))
        await blobs.put("long", data)
        out = [piece async for piece in blobs.stream("long", start=start, stop=stop)]
        assert b"".join(out) == data[start:stop]

    async def test_a_stream_that_breaks_off_changes_nothing(self, blobs: Blobs) -> None:
        async def broken() -> AsyncIterator[bytes]:
            yield b"x" * BIG
            raise FileNotFoundError("the sender's own trouble")

        await blobs.put("kept", b"before")
        for key in ("kept", "never"):
            with pytest.raises(FileNotFoundError, match="the sender's own trouble"):
                await blobs.put(key, broken())
        assert await blobs.get("kept") == b"before"
        assert [stored.key async for stored in blobs.list()] == ["kept"]

    async def test_what_is_not_there_is_missing(self, blobs: Blobs) -> None:
        await blobs.put("there", b"x")
        for key in ("nothing", "no/folder", "there/below"):
            with pytest.raises(Missing):
                await blobs.get(key)
            with pytest.raises(Missing):
                await blobs.head(key)
            with pytest.raises(Missing):
                await anext(aiter(blobs.stream(key)))
            assert blobs.local_path(key) is None

    async def test_each_write_of_other_bytes_has_another_version(self, blobs: Blobs) -> None:
        versions = [(await blobs.put("blob", str(number).encode())).version for number in range(20)]
        assert len(set(versions)) == 20

    async def test_a_second_create_is_refused_and_changes_nothing(self, blobs: Blobs) -> None:
        first = await blobs.put("new", b"first", condition=IfAbsent())
        for second in (b"second", pieces(b"sec", b"ond")):
            with pytest.raises(Stale):
                await blobs.put("new", second, metadata={"a": "b"}, condition=IfAbsent())
        assert await blobs.get("new") == b"first"
        head = await blobs.head("new")
        assert (head.version, head.metadata) == (first.version, {})

    async def test_a_swap_needs_the_version_that_is_there(self, blobs: Blobs) -> None:
        first = await blobs.put("state", b"one")
        second = await blobs.put("state", b"two", condition=IfVersion(first.version))
        third = await blobs.put("state", pieces(b"th", b"ree"), condition=IfVersion(second.version))
        for passed in (first.version, second.version):
            with pytest.raises(Stale):
                await blobs.put("state", b"four", condition=IfVersion(passed))
        assert (await blobs.head("state")).version == third.version
        assert await blobs.get("state") == b"three"

    async def test_a_swap_of_nothing_is_refused_and_makes_nothing(self, blobs: Blobs) -> None:
        other = await blobs.put("other", b"x")
        with pytest.raises(Stale):
            await blobs.put("none/here", b"y", condition=IfVersion(other.version))
        with pytest.raises(Missing):
            await blobs.head("none/here")

    async def test_a_condition_holds_for_files_too(self, blobs: Blobs, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"from a file")
        first = await blobs.put("c", tmp_path / "file", condition=IfAbsent())
        with pytest.raises(Stale):
            await blobs.put("c", tmp_path / "file", condition=IfAbsent())
        await blobs.put("c", b"swapped", condition=IfVersion(first.version))
        assert await blobs.get("c") == b"swapped"

    async def test_of_racing_creates_one_wins(self, blobs: Blobs) -> None:
        bodies = [f"racer {number}".encode() for number in range(8)]
        outcomes = await asyncio.gather(
            *(
                blobs.put("race/key", body, metadata={"by": body.decode()}, condition=IfAbsent())
                for body in bodies
            ),
            return_exceptions=True,
        )
        winners = [body for body, outcome in zip(bodies, outcomes, strict=True) if not _is_stale(outcome)]
        assert winners == [await blobs.get("race/key")]
        assert (await blobs.head("race/key")).metadata == {"by": winners[0].decode()}

    async def test_no_swap_is_lost_among_rivals(self, blobs: Blobs) -> None:
        async def add(name: str) -> None:
            added = 0
            while added < 4:
                seen = await blobs.head("count")
                body = await blobs.get("count")
                try:
                    await blobs.put(
                        "count", body + f"{name}{added} ".encode(), condition=IfVersion(seen.version)
                    )
                except Stale:
                    continue
                added += 1

        await blobs.put("count", b"")
        await asyncio.gather(*(add(name) for name in "abc"))
        assert len((await blobs.get("count")).split()) == 12

    async def test_labels_come_back_and_change_with_the_bytes(self, blobs: Blobs) -> None:
        first = await blobs.put("l", b"1", content_type="image/tiff", metadata=METADATA)
        assert (first.content_type, first.metadata) == ("image/tiff", METADATA)
        head = await blobs.head("l")
        assert (head.content_type, head.metadata, head.version) == ("image/tiff", METADATA, first.version)
        second = await blobs.put("l", pieces(b"2"), metadata={"n": "2"}, condition=IfVersion(first.version))
        assert (await blobs.head("l")).metadata == {"n": "2"}
        await blobs.put("l", b"3", content_type="text/plain", condition=IfVersion(second.version))
        head = await blobs.head("l")
        assert (head.content_type, head.metadata) == ("text/plain", {})
        await blobs.put("l", pieces(b"x" * BIG), content_type="a/b", metadata=METADATA)
        head = await blobs.head("l")
        assert (head.content_type, head.metadata, head.size) == ("a/b", METADATA, BIG)

    async def test_labels_that_could_not_come_back_are_refused(self, blobs: Blobs) -> None:
        for metadata in ({"Title": "x"}, {"a b": "x"}, {"": "x"}, {"a": "x" * 3000}, {"quire-nonce": "x"}):
            with pytest.raises(Reject) as refused:
                await blobs.put("l", b"", metadata=metadata)
            assert refused.value.code == "bad_metadata"
        for content_type in ("", "a\nb", "é", " a"):
            with pytest.raises(Reject):
                await blobs.put("l", b"", content_type=content_type)

    @pytest.mark.parametrize("key", AWKWARD_KEYS)
    async def test_awkward_keys_round_trip(self, blobs: Blobs, key: str) -> None:
        await blobs.put(key, key.encode(), metadata={"a": "b"}, condition=IfAbsent())
        assert await blobs.get(key) == key.encode()
        assert (await blobs.head(key)).key == key
        assert [stored.key async for stored in blobs.list()] == [key]
        folder = key.rpartition("/")[0]
        assert [stored.key async for stored in blobs.list(folder)] == [key]
        await blobs.delete(key)
        assert [stored.key async for stored in blobs.list()] == []

    @pytest.mark.parametrize("key", [*BAD_KEYS, ".tmp/x", ".META/x", ".locks", "a/\ud800"])
    async def test_bad_keys_are_refused_everywhere(self, blobs: Blobs, key: str) -> None:
        async def every() -> AsyncIterator[object]:
            yield blobs.put(key, b"")
            yield blobs.put(key, pieces(b""))
            yield blobs.get(key)
            yield blobs.head(key)
            yield blobs.delete(key)
            yield anext(aiter(blobs.stream(key)))

        async for call in every():
            with pytest.raises(Reject) as refused:
                await call  # type: ignore[misc]
            assert refused.value.code == "bad_key"
        with pytest.raises(Reject):
            blobs.local_path(key)

    async def test_lists_in_order_of_bytes(self, blobs: Blobs) -> None:
        names = [
            "d/1.json",
            "d/1-a",
            "d/1/page",
            "d/1/page-2/x",
            "d/10",
            "d!",
            "d0/x",
            "e",
            "D/x",
            "d/é",
            "d/😀",
        ]
        for name in names:
            await blobs.put(name, name.encode())
        expected = sorted(names, key=str.encode)
        found = [stored async for stored in blobs.list()]
        assert [stored.key for stored in found] == expected
        for stored in found:
            head = await blobs.head(stored.key)
            assert (stored.size, stored.version, stored.modified_at) == (
                head.size,
                head.version,
                head.modified_at,
            )
        for after in [*expected, "d", "d/", "d/1/", "d/1/pagf", "zz"]:
            rest = [stored.key async for stored in blobs.list(after=after)]
            assert rest == [name for name in expected if name.encode() > after.encode()]
        in_folder = [name for name in expected if name.startswith("d/")]
        for prefix in ("d", "d/"):
            assert [stored.key async for stored in blobs.list(prefix)] == in_folder
        assert [stored.key async for stored in blobs.list("d/1")] == ["d/1/page", "d/1/page-2/x"]
        assert [stored.key async for stored in blobs.list("d", after="d/1/page")] == in_folder[3:]
        assert [stored.key async for stored in blobs.list("nothing/here")] == []

    async def test_lists_more_than_a_page(self, blobs: Blobs) -> None:
        expected = [f"many/{number:04}" for number in range(1005)]
        await asyncio.gather(*(blobs.put(key, b"x") for key in expected))
        assert [stored.key async for stored in blobs.list("many")] == expected
        assert [stored.key async for stored in blobs.list("many", after=expected[1000])] == expected[1001:]

    async def test_deleted_is_gone_and_may_be_repeated(self, blobs: Blobs) -> None:
        await blobs.put("x/y", b"1", metadata={"a": "b"})
        for _ in range(2):
            await blobs.delete("x/y")
            with pytest.raises(Missing):
                await blobs.head("x/y")
        await blobs.delete("never/was")
        await blobs.put("x/y", b"2", condition=IfAbsent())
        assert (await blobs.head("x/y")).metadata == {}
        await blobs.delete("x/y")
        await blobs.put("x", b"what was a folder may be a blob when it is empty")
        assert [stored.key async for stored in blobs.list()] == ["x"]

    async def test_a_local_path_holds_the_bytes(self, blobs: Blobs) -> None:
        await blobs.put("a/b", b"bytes")
        path = blobs.local_path("a/b")
        assert path is None or path.read_bytes() == b"bytes"

    async def test_the_probe_finds_nothing_and_leaves_nothing(self, blobs: Blobs) -> None:
        assert len(await probe(blobs, SystemIds())) == 8
        assert [stored.key async for stored in blobs.list()] == []

    async def test_closing_may_be_repeated(self, blobs: Blobs) -> None:
        await blobs.close()
        await blobs.close()


def _is_stale(outcome: object) -> bool:
    if isinstance(outcome, BaseException) and not isinstance(outcome, Stale):
        raise outcome
    return isinstance(outcome, Stale)
