"""What only local presigned uploads promise: limits, digests, a restart in between, nothing left behind."""

import asyncio
import contextlib
import errno
import hashlib
import os
import random
import threading
import time
from pathlib import Path

import pytest

from quire.blobs.local import LocalBlobs
from quire.blobs.local import parts as local_parts
from quire.blobs.local import spool as local_spool
from quire.blobs.local.presigned_uploads import LocalPresignedUploads
from quire.blobs.presigned_uploads import CompletedPart, PresignedUploads, StoredPart, UploadReceiver
from quire.model.errors import Misconfigured, Missing, Reject, Retry
from quire.testing.time import FakeClock

KEY = "staging/page 1.tif"
MIB = 1 << 20


@pytest.fixture
def root(tmp_path):
    return tmp_path / "blobs"


@pytest.fixture
def blobs(root):
    return LocalBlobs(root)


def open_presigned(root, secret=b"s" * 32, clock=None, max_blob_bytes=20 * MIB):
    return LocalPresignedUploads(
        root, secret=secret, clock=clock or FakeClock(), max_blob_bytes=max_blob_bytes, max_part_bytes=8 * MIB
    )


@pytest.fixture
def presigned(root, blobs):
    return open_presigned(root)


async def stream(*pieces):
    for piece in pieces:
        yield piece


async def put(presigned, url, *pieces, length=None):
    return await presigned.receive(url.rpartition("/")[2], stream(*pieces), length=length)


async def put_parts(presigned, key, upload_id, *bodies):
    urls = await presigned.sign_parts(key, upload_id, parts=len(bodies), seconds=60, base_url="")
    numbered = enumerate(zip(urls, bodies, strict=True), start=1)
    return [CompletedPart(number, await put(presigned, url, body)) for number, (url, body) in numbered]


def everything(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if not path.is_dir() and path.parent.name != ".locks"
    }


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_local_presigned_uploads_are_received_by_quire(presigned: PresignedUploads):
    assert isinstance(presigned, UploadReceiver)


async def test_a_url_leads_to_our_own_route(presigned):
    url = await presigned.sign_put(KEY, seconds=60, base_url="https://quire.example/base/")
    assert url.startswith("https://quire.example/base/blobs/")
    reading = await presigned.sign_get(KEY, seconds=60, base_url="", name="Ü.tif")
    assert presigned.read_download(reading.rpartition("/")[2]) == (KEY, "Ü.tif")


async def test_an_uploaded_blob_has_its_digest_in_its_metadata(presigned, blobs):
    body = random.Random(1).randbytes(3 * MIB + 5)
    digest = hashlib.sha256(body).hexdigest()
    url = await presigned.sign_put(KEY, seconds=60, base_url="")
    etag = await put(presigned, url, body[:MIB], b"", body[MIB:], length=len(body))
    assert etag == digest[:32]
    assert (await blobs.head(KEY)).metadata == {"sha256": digest}
    upload_id = await presigned.begin("joined", content_type="image/tiff")
    parts = await put_parts(presigned, "joined", upload_id, body[:7], body[7:MIB], b"", body[MIB:])
    stored = await presigned.join("joined", upload_id, parts)
    assert (stored.metadata, stored.content_type) == ({"sha256": digest}, "image/tiff")
    assert await blobs.head("joined") == stored


async def test_the_length_is_exact_and_limited(presigned, blobs, root):
    url = await presigned.sign_put(KEY, seconds=60, base_url="")
    for length in (3, 5):
        with pytest.raises(Reject) as refused:
            await put(presigned, url, b"ab", b"cd", length=length)
        assert refused.value.code == "incomplete_body"
    upload_id = await presigned.begin(KEY, content_type="a/b")
    part = (await presigned.sign_parts(KEY, upload_id, parts=1, seconds=60, base_url=""))[0]
    for target, limit in ((url, 20), (part, 8)):
        for pieces, length in (((b"x" * MIB,) * (limit + 1), None), ((), limit * MIB + 1)):
            with pytest.raises(Reject) as refused:
                await put(presigned, target, *pieces, length=length)
            assert refused.value.code == "too_large"
        await put(presigned, target, *(b"x" * MIB,) * limit, length=limit * MIB)
    assert (await blobs.head(KEY)).size == 20 * MIB
    assert list((root / ".tmp").iterdir()) == []


async def test_a_joined_blob_is_limited_too(presigned, blobs, root):
    upload_id = await presigned.begin(KEY, content_type="a/b")
    parts = await put_parts(presigned, KEY, upload_id, *(b"x" * 7 * MIB,) * 2)
    smaller = open_presigned(root, max_blob_bytes=13 * MIB)
    with pytest.raises(Reject) as refused:
        await smaller.join(KEY, upload_id, parts)
    assert refused.value.code == "too_large"
    await presigned.join(KEY, upload_id, parts)
    assert (await blobs.head(KEY)).size == 14 * MIB


async def test_a_restart_in_between_loses_nothing(presigned, blobs, root):
    upload_id = await presigned.begin(KEY, content_type="a/b")
    urls = await presigned.sign_parts(KEY, upload_id, parts=2, seconds=60, base_url="")
    first = await put(presigned, urls[0], b"one, ")
    after = open_presigned(root)
    second = await put(after, urls[1], b"two")
    with pytest.raises(Reject):
        await put(open_presigned(root, secret=b"t" * 32), urls[1], b"two")
    await open_presigned(root).join(KEY, upload_id, [CompletedPart(2, second), CompletedPart(1, first)])
    assert await blobs.get(KEY) == b"one, two"


async def test_nothing_is_left_when_an_upload_is_over(presigned, blobs, root):
    kept = {KEY}
    joined = await presigned.begin(KEY, content_type="a/b")
    parts = await put_parts(presigned, KEY, joined, b"1", b"2")
    assert [stored async for stored in blobs.list()] == []
    await presigned.join(KEY, joined, parts)
    dropped = await presigned.begin(KEY, content_type="a/b")
    await put_parts(presigned, KEY, dropped, b"1", b"2")
    await presigned.abort(KEY, dropped)
    assert {path for path in everything(root) if not path.startswith(".meta/")} == kept
    assert list((root / ".parts").iterdir()) == []


async def test_a_part_sent_again_replaces_the_first(presigned, blobs, root):
    upload_id = await presigned.begin(KEY, content_type="a/b")
    first = await put_parts(presigned, KEY, upload_id, b"first", b"x")
    second = await put_parts(presigned, KEY, upload_id, b"second", b"x")
    assert first[1] == second[1]
    assert len(list((root / ".parts" / upload_id).iterdir())) == 3
    with pytest.raises(Reject) as refused:
        await presigned.join(KEY, upload_id, first)
    assert refused.value.code == "bad_parts"
    await presigned.join(KEY, upload_id, second)
    assert await blobs.get(KEY) == b"secondx"
    with pytest.raises(Missing):
        await presigned.join(KEY, upload_id, second)


async def test_of_two_files_of_one_part_the_later_is_listed(presigned, root):
    upload_id = await presigned.begin(KEY, content_type="a/b")
    (part,) = await put_parts(presigned, KEY, upload_id, b"second")
    left = root / ".parts" / upload_id / f"00001-{'f' * 32}"
    left.write_bytes(b"first")
    (left.parent / "stray").write_bytes(b"")
    os.utime(left, (1, 1))
    assert await presigned.list_parts(KEY, upload_id) == [StoredPart(1, part.etag, 6)]
    os.utime(left, (2**33, 2**33))
    assert await presigned.list_parts(KEY, upload_id) == [StoredPart(1, "f" * 32, 5)]


async def test_the_same_part_sent_many_times_at_once_is_one_of_them(presigned, blobs, root):
    upload_id = await presigned.begin(KEY, content_type="a/b")
    url = (await presigned.sign_parts(KEY, upload_id, parts=1, seconds=60, base_url=""))[0]
    bodies = {b"%04d" % number * 250 for number in range(20)}
    etags = await asyncio.gather(*(put(presigned, url, body, length=1000) for body in bodies))
    assert len(list((root / ".parts" / upload_id).iterdir())) == 2
    for etag in etags:
        with contextlib.suppress(Reject):
            await presigned.join(KEY, upload_id, [CompletedPart(1, etag)])
            break
    assert await blobs.get(KEY) in bodies


@pytest.mark.parametrize(
    "upload_id", ["", ".", "..", "../..", "../../x", "0" * 31, "a/b", "ü", "\0", "0" * 32]
)
async def test_no_upload_id_leads_elsewhere(presigned, blobs, root, upload_id):
    await blobs.put("upload", b"not a record")
    with pytest.raises(Missing):
        await presigned.join(KEY, upload_id, [CompletedPart(1, "0" * 32)])
    with pytest.raises(Missing):
        await presigned.list_parts(KEY, upload_id)
    await presigned.abort(KEY, upload_id)
    url = (await presigned.sign_parts(KEY, upload_id, parts=1, seconds=60, base_url=""))[0]
    with pytest.raises(Missing):
        await put(presigned, url, b"x")
    assert {path for path in everything(root) if not path.startswith(".meta/")} == {"upload"}


async def test_an_upload_that_ends_while_a_part_arrives_takes_it_no_more(presigned, root):
    upload_id = await presigned.begin(KEY, content_type="a/b")
    url = (await presigned.sign_parts(KEY, upload_id, parts=1, seconds=60, base_url=""))[0]

    async def late():
        yield b"x"
        await presigned.abort(KEY, upload_id)
        yield b"y"

    with pytest.raises(Missing):
        await presigned.receive(url.rpartition("/")[2], late(), length=2)
    assert everything(root) == set()


async def test_a_part_replaced_while_parts_are_joined_joins_nothing(presigned, blobs, root, monkeypatch):
    upload_id = await presigned.begin(KEY, content_type="a/b")
    parts = await put_parts(presigned, KEY, upload_id, b"first")
    files = local_parts.PartFiles(presigned._files)
    copied = local_parts._copy_parts

    def slow(spool, folder, names):
        digest = copied(spool, folder, names)
        new = presigned._files.spool(KEY)
        new.write(b"second")
        files.add(new, KEY, upload_id, 1, "2" * 32)
        return digest

    monkeypatch.setattr(local_parts, "_copy_parts", slow)
    with pytest.raises(Reject) as refused:
        await presigned.join(KEY, upload_id, parts)
    assert refused.value.code == "bad_parts"
    assert [stored async for stored in blobs.list()] == []
    monkeypatch.undo()
    await presigned.join(KEY, upload_id, [CompletedPart(1, "2" * 32)])
    assert await blobs.get(KEY) == b"second"


async def test_joining_goes_on_when_nobody_waits_and_is_not_done_twice(presigned, blobs, monkeypatch):
    upload_id = await presigned.begin(KEY, content_type="a/b")
    parts = await put_parts(presigned, KEY, upload_id, b"1", b"2")
    loop = asyncio.get_running_loop()
    begun, going_on, copies = asyncio.Event(), threading.Event(), []
    copied = local_parts._copy_parts

    def slow(*asked):
        copies.append(asked)
        loop.call_soon_threadsafe(begun.set)
        assert going_on.wait(60)
        return copied(*asked)

    monkeypatch.setattr(local_parts, "_copy_parts", slow)
    impatient = asyncio.create_task(presigned.join(KEY, upload_id, parts))
    await begun.wait()
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    again = [asyncio.create_task(presigned.join(KEY, upload_id, parts)) for _ in range(2)]
    closing = asyncio.create_task(presigned.close())
    going_on.set()
    first, second = await asyncio.gather(*again)
    await closing
    assert first == second == await blobs.head(KEY)
    assert len(copies) == 1
    with pytest.raises(Missing):
        await presigned.join(KEY, upload_id, parts)


async def test_parts_are_joined_where_the_kernel_does_not_copy(presigned, blobs, monkeypatch):
    def unable(*_):
        raise OSError(errno.EXDEV, "cross-device")

    monkeypatch.setattr(local_spool.os, "copy_file_range", unable)
    upload_id = await presigned.begin(KEY, content_type="a/b")
    bodies = (b"a" * (2 * MIB + 1), b"b" * 3)
    await presigned.join(KEY, upload_id, await put_parts(presigned, KEY, upload_id, *bodies))
    assert await blobs.get(KEY) == b"".join(bodies)


async def test_broken_off_and_cancelled_uploads_leave_nothing(presigned, root):
    async def broken(sent, going_on):
        yield b"x" * 2 * MIB
        sent.set()
        await going_on.wait()
        raise ConnectionResetError

    upload_id = await presigned.begin(KEY, content_type="a/b")
    part = (await presigned.sign_parts(KEY, upload_id, parts=1, seconds=60, base_url=""))[0]
    await put(presigned, part, b"")
    before, files = everything(root), open_files()
    for url in (part, await presigned.sign_put(KEY, seconds=60, base_url="")):
        for cancelled in (True, False):
            sent, going_on = asyncio.Event(), asyncio.Event()
            token = url.rpartition("/")[2]
            task = asyncio.create_task(presigned.receive(token, broken(sent, going_on), length=3 * MIB))
            await sent.wait()
            assert everything(root) > before
            task.cancel() if cancelled else going_on.set()
            with pytest.raises(asyncio.CancelledError if cancelled else ConnectionResetError):
                await task
            assert everything(root) == before
    assert open_files() == files


async def test_a_full_disk_is_reported_and_leaves_nothing(presigned, root, monkeypatch):
    def full(_, __):
        raise OSError(errno.ENOSPC, "No space left on device")

    url = await presigned.sign_put(KEY, seconds=60, base_url="")
    monkeypatch.setattr(local_spool.os, "write", full)
    with pytest.raises(Retry) as told:
        await put(presigned, url, b"x")
    assert told.value.code == "storage_full"
    assert everything(root) == set()


async def test_idle_uploads_are_swept_and_others_not(presigned, blobs, root):
    idle, busy, damaged = [await presigned.begin(KEY, content_type="a/b") for _ in range(3)]
    parts = await put_parts(presigned, KEY, busy, b"x")
    await put_parts(presigned, KEY, idle, b"x", b"y")
    (root / ".parts" / damaged / "upload").chmod(0o600)
    (root / ".parts" / damaged / "upload").write_bytes(b"{")
    with pytest.raises(Reject):
        await presigned.join(KEY, damaged, parts)
    for upload_id in (idle, damaged):
        os.utime(root / ".parts" / upload_id, (1000, 1000))
    assert await blobs.sweep(3600, time.time()) == 2
    assert [path.name for path in (root / ".parts").iterdir()] == [busy]
    await presigned.join(KEY, busy, parts)
    assert await blobs.sweep(3600, time.time(), uploads_older_than_seconds=-60) == 0


async def test_a_missing_folder_is_reported(tmp_path):
    with pytest.raises((Misconfigured, Retry)):
        open_presigned(tmp_path / "nowhere")


async def test_one_cannot_land_on_a_folder_of_blobs(presigned, blobs):
    await blobs.put("a/b", b"x")
    for key in ("a", "a/b/c"):
        url = await presigned.sign_put(key, seconds=60, base_url="")
        with pytest.raises(Reject) as refused:
            await put(presigned, url, b"y")
        assert refused.value.code == "bad_key"
    assert [stored.key async for stored in blobs.list()] == ["a/b"]


async def test_parts_together_have_no_more_bytes_than_announced(presigned, blobs, root):
    """Counted while they arrive, and again where they are stored: another process may receive some."""
    upload_id = await presigned.begin(KEY, content_type="a/b", size=10 * MIB)
    urls = await presigned.sign_parts(KEY, upload_id, parts=3, seconds=60, base_url="", size=10 * MIB)
    other = open_presigned(root)
    started, finish = asyncio.Event(), asyncio.Event()

    async def slowly():
        yield b"1" * 4 * MIB
        started.set()
        await finish.wait()
        yield b"1" * 2 * MIB

    first = asyncio.create_task(presigned.receive(urls[0].rpartition("/")[2], slowly(), length=None))
    await started.wait()
    with pytest.raises(Reject) as refused:  # six have arrived here
        await put(presigned, urls[1], b"2" * 3 * MIB, b"2" * 4 * MIB)
    assert refused.value.code == "too_large"
    await put(other, urls[2], b"3" * 5 * MIB)
    finish.set()
    with pytest.raises(Reject) as refused:
        await first
    assert refused.value.code == "too_large"
    assert [part.number for part in await presigned.list_parts(KEY, upload_id)] == [3]
    assert list((root / ".tmp").iterdir()) == []
    etag = await put(presigned, urls[1], b"2" * 5 * MIB)
    parts = [CompletedPart(part.number, part.etag) for part in await presigned.list_parts(KEY, upload_id)]
    assert CompletedPart(2, etag) in parts
    assert (await presigned.join(KEY, upload_id, parts)).size == 10 * MIB


async def test_a_url_of_an_earlier_version_is_limited_by_the_announcement(presigned, blobs, root):
    """It says no size; the guard, who asks the ledger, does."""
    url = await presigned.sign_put(KEY, seconds=60, base_url="")

    @contextlib.asynccontextmanager
    async def guard(key, upload_id):
        assert (key, upload_id) == (KEY, "")
        yield 5

    for length in (6, None):
        with pytest.raises(Reject) as refused:
            await presigned.receive(url.rpartition("/")[2], stream(b"123456"), length=length, guard=guard)
        assert refused.value.code == "too_large"
    await presigned.receive(url.rpartition("/")[2], stream(b"12345"), length=5, guard=guard)
    assert await blobs.get(KEY) == b"12345"
