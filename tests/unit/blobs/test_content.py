"""Bytes named by their digest: one copy, the right one, or an error."""

import errno
import hashlib
import os
import threading

import pytest

from quire.blobs import content, keys
from quire.blobs.local import LocalBlobs
from quire.blobs.local.spool import Spool
from quire.model.errors import Missing, Reject, Retry

SMALL = b"a leaf"
LARGE = bytes(range(256)) * (10 << 12)  # 10 MiB: not held in memory


class Counting(LocalBlobs):
    """A store that needs the key first, as remote ones do."""

    store_files = None
    puts = 0

    async def put(self, *args, **kwargs):
        self.puts += 1
        return await super().put(*args, **kwargs)


@pytest.fixture
def blobs(tmp_path):
    return Counting(tmp_path / "blobs")


async def pieces(body, size=300_000):
    for start in range(0, len(body), size):
        yield body[start : start + size]


@pytest.mark.parametrize("body", [b"", SMALL, LARGE], ids=["empty", "small", "large"])
async def test_two_ways_in_give_one_blob(blobs, tmp_path, body):
    (tmp_path / "file").write_bytes(body)
    digest = hashlib.sha256(body).hexdigest()
    expected = content.Content(digest, len(body), keys.content(digest))
    assert await content.put_file(blobs, tmp_path / "file") == expected
    assert await content.put_bytes(blobs, body) == expected
    assert blobs.puts == 1
    assert [stored.key async for stored in blobs.list()] == [expected.key]
    assert await content.get(blobs, digest) == body
    assert b"".join([piece async for piece in content.stream(blobs, digest)]) == body
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blobs", "file"]


@pytest.mark.parametrize("body", [SMALL, LARGE], ids=["small", "large"])
async def test_damaged_bytes_are_not_handed_out(blobs, body):
    stored = await content.put_bytes(blobs, body)
    await blobs.put(stored.key, body[:-1] + b"?")
    with pytest.raises(Reject) as refused:
        await content.get(blobs, stored.digest)
    assert refused.value.code == "damaged_blob"
    with pytest.raises(Reject):
        await content.verify(blobs, stored.digest)


async def test_a_blob_of_the_wrong_size_is_written_again(blobs):
    stored = await content.put_bytes(blobs, SMALL)
    await blobs.put(stored.key, b"")
    await content.put_bytes(blobs, SMALL)
    await content.verify(blobs, stored.digest)


async def test_a_file_that_changes_while_it_is_stored_is_not_stored(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(LARGE)

    class Meddling(Counting):
        async def head(self, key):  # asked between the two readings
            path.write_bytes(LARGE[:-1] + b"?")
            return await super().head(key)

    blobs = Meddling(tmp_path / "blobs")
    with pytest.raises(Retry) as told:
        await content.put_file(blobs, path)
    assert told.value.code == "source_changed"
    assert [stored.key async for stored in blobs.list()] == []


async def test_what_is_not_there_is_missing(blobs, tmp_path):
    with pytest.raises(Missing):
        await content.put_file(blobs, tmp_path / "nothing")
    with pytest.raises(Missing):
        await content.get(blobs, "0" * 64)
    with pytest.raises(Reject):
        await content.get(blobs, "../" * 10)


@pytest.mark.parametrize("owned", [False, True], ids=["copied", "moved"])
@pytest.mark.parametrize("body", [b"", SMALL, LARGE], ids=["empty", "small", "large"])
async def test_a_store_that_takes_files_names_them_by_content(tmp_path, body, owned):
    blobs = LocalBlobs(tmp_path / "blobs")
    digest = hashlib.sha256(body).hexdigest()
    for _ in range(2):
        (tmp_path / "file").write_bytes(body)
        stored = await content.put_file(blobs, tmp_path / "file", owned=owned)
        assert stored == content.Content(digest, len(body), keys.content(digest))
        assert (tmp_path / "file").exists() != owned
    assert await content.get(blobs, digest) == body
    assert list((tmp_path / "blobs" / ".tmp").iterdir()) == []
    assert (blobs.local_path(stored.key).stat().st_mode & 0o777) == 0o444


async def test_an_owned_file_of_another_file_system_is_copied(tmp_path, monkeypatch):
    def elsewhere(*_arguments, **_named):
        raise OSError(errno.EXDEV, "cross-device")

    blobs = LocalBlobs(tmp_path / "blobs")
    (tmp_path / "file").write_bytes(SMALL)
    monkeypatch.setattr(os, "rename", elsewhere)
    stored = await content.put_file(blobs, tmp_path / "file", owned=True)
    assert await content.get(blobs, stored.digest) == SMALL


async def test_a_taken_file_that_changes_afterwards_does_not_change_the_blob(tmp_path):
    blobs = LocalBlobs(tmp_path / "blobs")
    (tmp_path / "file").write_bytes(SMALL)
    stored = await content.put_file(blobs, tmp_path / "file")
    (tmp_path / "file").write_bytes(b"something else")
    assert await content.get(blobs, stored.digest) == SMALL


async def test_taking_what_is_not_there_is_missing(tmp_path):
    blobs = LocalBlobs(tmp_path / "blobs")
    for owned in (False, True):
        with pytest.raises(Missing):
            await content.put_file(blobs, tmp_path / "nothing", owned=owned)
    assert list((tmp_path / "blobs" / ".tmp").iterdir()) == []


async def test_many_files_are_made_durable_together_and_named_in_their_order(tmp_path, monkeypatch):
    together = threading.Barrier(4)
    real = Spool.stamp

    def stamped(spool, above=None):
        together.wait(timeout=30)  # one after the other they would wait in vain
        return real(spool, above)

    blobs = LocalBlobs(tmp_path / "blobs")
    paths = [tmp_path / f"page-{number}" for number in range(40)]
    for number, path in enumerate(paths):
        path.write_bytes(b"page %d" % number)
    monkeypatch.setattr(Spool, "stamp", stamped)
    stored = await content.put_files(blobs, paths, owned=True)
    assert [await content.get(blobs, one.digest) for one in stored] == [b"page %d" % n for n in range(40)]
    assert list((tmp_path / "blobs" / ".tmp").iterdir()) == []


async def test_of_many_files_one_that_is_not_there_is_missing(tmp_path):
    blobs = LocalBlobs(tmp_path / "blobs")
    paths = [tmp_path / f"page-{number}" for number in range(40)]
    for path in paths:
        path.write_bytes(path.name.encode())
    paths[20].unlink()
    with pytest.raises(Missing):
        await content.put_files(blobs, paths, owned=True)
    assert list((tmp_path / "blobs" / ".tmp").iterdir()) == []


async def test_a_damaged_blob_is_replaced_when_its_content_comes_again(tmp_path):
    blobs = LocalBlobs(tmp_path / "blobs")
    (tmp_path / "file").write_bytes(SMALL)
    stored = await content.put_file(blobs, tmp_path / "file")
    await blobs.put(stored.key, b"cut")
    await content.put_file(blobs, tmp_path / "file")
    assert await content.get(blobs, stored.digest) == SMALL


async def test_of_many_files_only_some_are_in_hand_at_once(tmp_path):
    class Watching(Counting):
        now = most = 0

        async def put(self, *args, **kwargs):
            self.now += 1
            self.most = max(self.most, self.now)
            try:
                return await super().put(*args, **kwargs)
            finally:
                self.now -= 1

    paths = [tmp_path / f"{number}" for number in range(100)]
    for number, path in enumerate(paths):
        path.write_text(f"page {number}", encoding="utf-8")
    watching = Watching(tmp_path / "blobs")
    stored = await content.put_files(watching, paths)

    assert [one.digest for one in stored] == [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
    assert watching.puts == 100
    assert watching.most <= 16


def flip(blobs, stored):
    """Damage the stored file without changing its size."""
    path = blobs.local_path(stored.key)
    path.chmod(0o644)
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])


async def test_right_bytes_take_the_place_of_damaged_ones_of_equal_size(tmp_path):
    blobs = LocalBlobs(tmp_path / "blobs")
    (tmp_path / "file").write_bytes(SMALL)
    stored = await content.put_file(blobs, tmp_path / "file")
    flip(blobs, stored)
    await content.put_file(blobs, tmp_path / "file")
    assert await content.get(blobs, stored.digest) == SMALL


async def test_only_a_damaged_blob_is_set_aside(blobs):
    stored = await content.put_bytes(blobs, SMALL)
    assert not await blobs.set_aside(stored.key, stored.digest)
    assert await content.get(blobs, stored.digest) == SMALL
    flip(blobs, stored)
    assert await blobs.set_aside(stored.key, stored.digest)
    assert not await blobs.set_aside(stored.key, stored.digest), "nothing is there any more"
    with pytest.raises(Missing):
        await blobs.head(stored.key)
    assert (await blobs.get(keys.damaged(stored.digest)))[1:] == SMALL[1:]
    await content.put_bytes(blobs, SMALL)
    assert await content.get(blobs, stored.digest) == SMALL
