"""The scrub on a folder and on a real S3 server: what it notices, what it restores, how it continues."""

import asyncio
import hashlib
from contextlib import suppress

import msgspec
import pytest

from quire.blobs import content, fixity, keys
from quire.blobs.local import LocalBlobs
from quire.blobs.repairs import CopyRepairs
from quire.blobs.s3 import S3Blobs
from quire.blobs.s3.checksums import S3Checksums
from quire.blobs.scrub import LEAST_BYTES, Scrub, ScrubOptions
from quire.blobs.scrub_record import ScrubStore
from quire.model.errors import DamagedBlob, Missing, Stale
from quire.model.files import BlobUse
from quire.system import SystemClock, SystemIds
from quire.testing.time import FakeClock
from quire.tools.file_search import find_by_digest

ULID = "01JAAAAAAAAAAAAAAAAAAAAAAA"
RIGHT, WRONG = b"the right bytes", b"the wrong bytes"
BIG = bytes(range(256)) * (40 << 10)  # 10 MiB: in a bucket in two parts


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def s3_access(server, prefix):
    return {
        "bucket": server.bucket,
        "endpoint": server.endpoint,
        "access_key_id": server.access_key_id,
        "secret_access_key": server.secret_access_key,
        "prefix": prefix,
    }


@pytest.fixture(params=["folder", pytest.param("bucket", marks=pytest.mark.service)])
async def blobs(request, tmp_path):
    if request.param == "folder":
        store = LocalBlobs(tmp_path / "blobs")
    else:
        server = request.getfixturevalue("s3_server")
        store = S3Blobs(**s3_access(server, f"scrub/{SystemIds().ulid()}"), allow_http=True)
    yield store
    await store.close()


async def damage(blobs, data: bytes, wrong: bytes = b"") -> str:
    """Store bytes under the key of others of the same size; the key."""
    key = keys.content(digest(data))
    await blobs.put(key, wrong or data[:-1] + bytes([data[-1] ^ 1]))
    return key


class Bench:
    """A store that is scrubbed with a fake clock, which pauses move on."""

    def __init__(self, blobs, uses=(), originals=None, checksums=None):
        self.blobs, self.clock, self.paused = blobs, FakeClock(), 0.0
        self._uses, self._originals, self._checksums = uses, originals, checksums

    async def find_uses(self, digests):
        return [use for use in self._uses if use.digest in digests]

    async def pause(self, seconds):
        self.paused += seconds
        self.clock.advance(seconds)
        await asyncio.sleep(0)

    async def scrub(self, *, stop_after=None, rate=0.0, store=None, reads_all=False):
        store = store or ScrubStore(self.blobs)
        record = await store.load()
        before = record.counts.blobs if record.position is not None else 0

        def is_stopped():
            return stop_after is not None and record.counts.blobs - before >= stop_after

        scrub = Scrub(
            self.blobs,
            store,
            CopyRepairs(self.blobs, self.find_uses, self._originals),
            ScrubOptions(owner="me", bytes_per_second=rate, reads_all=reads_all),
            clock=self.clock,
            pause=self.pause,
            is_stopped=is_stopped,
            checksums=self._checksums,
        )
        return record, await scrub.run(record)


async def states(bench, **options):
    _, finished = await bench.scrub(**options)
    return {one.key: one.state for one in finished.damaged}


async def test_a_right_store_has_no_findings(blobs):
    for number in range(3):
        await content.put_bytes(blobs, b"blob %d" % number)
    await blobs.put("batches/x/manifest.json", b"{}")
    _, finished = await Bench(blobs).scrub()
    assert (finished.counts.blobs, finished.counts.unchecked, finished.counts.damaged) == (3, 1, 0)
    assert finished.counts.bytes == 18


async def test_a_damaged_blob_is_set_aside_and_kept_for_people(blobs):
    key = await damage(blobs, RIGHT, WRONG)
    assert await states(Bench(blobs)) == {key: "waiting"}
    assert await blobs.get(keys.damaged(digest(RIGHT))) == WRONG
    with suppress(Missing):  # in a folder
        assert (await blobs.head(key)).size == 0
    # It is told until right bytes are there, and a second scrub does not lose the kept copy.
    assert await states(Bench(blobs)) == {key: "waiting"}
    assert await blobs.get(keys.damaged(digest(RIGHT))) == WRONG
    await content.put_bytes(blobs, RIGHT)
    assert await states(Bench(blobs)) == {}
    assert await blobs.get(key) == RIGHT


@pytest.mark.parametrize("data", [RIGHT, BIG], ids=["small", "large"])
async def test_right_bytes_replace_wrong_ones_that_nobody_has_noticed(blobs, tmp_path, data):
    key = await damage(blobs, data)
    source = tmp_path / "source"
    source.write_bytes(data)
    stored = await content.put_file(blobs, source)
    assert stored.key == key
    await content.verify(blobs, digest(data))


async def test_right_bytes_in_memory_replace_wrong_ones(blobs):
    await damage(blobs, RIGHT)
    await content.put_bytes(blobs, RIGHT)
    await content.verify(blobs, digest(RIGHT))


@pytest.mark.parametrize("data", [RIGHT, BIG], ids=["small", "large"])
async def test_right_bytes_are_not_stored_twice(blobs, tmp_path, data):
    source = tmp_path / "source"
    source.write_bytes(data)
    key = (await content.put_file(blobs, source)).key
    before = await blobs.head(key)
    await content.put_file(blobs, source)
    after = await blobs.head(key)
    assert (after.version, after.modified_at) == (before.version, before.modified_at)


async def test_whoever_reads_a_damaged_value_sets_it_aside(blobs):
    await damage(blobs, RIGHT)
    with pytest.raises(DamagedBlob):
        await content.get(blobs, digest(RIGHT))
    assert await blobs.get(keys.damaged(digest(RIGHT))) != RIGHT
    await content.put_bytes(blobs, RIGHT)
    assert await content.get(blobs, digest(RIGHT)) == RIGHT


async def test_a_right_blob_is_never_set_aside(blobs):
    key = (await content.put_bytes(blobs, RIGHT)).key
    assert not await fixity.set_aside(blobs, key, digest(RIGHT))
    assert not await fixity.set_aside(blobs, keys.content(digest(b"nothing")), digest(b"nothing"))
    assert await blobs.get(key) == RIGHT


async def test_a_damaged_blob_is_restored_from_an_upload_of_the_same_bytes(blobs):
    key = await damage(blobs, RIGHT)
    staged = f"staging/{ULID}/a.tif"
    await blobs.put(staged, RIGHT)
    use = BlobUse(
        digest=digest(RIGHT), key=staged, size=len(RIGHT), batch_id=ULID, path="/a.tif", is_input=True
    )
    bench = Bench(blobs, [use])
    assert await states(bench) == {key: "restored"}
    assert await blobs.get(key) == RIGHT


async def test_a_damaged_upload_is_restored_from_its_archive_copy_with_its_labels(blobs):
    staged, archived = f"staging/{ULID}/a.tif", keys.archived(ULID, ULID, "tif")
    labels = {"sha256": digest(RIGHT), "more": "é"}
    await blobs.put(staged, WRONG, content_type="image/tiff", metadata=labels)
    await blobs.put(archived, RIGHT, metadata={"sha256": digest(RIGHT)})
    line = {"original_r2_key": staged, "archive_r2_key": archived, "sha256": digest(RIGHT)}
    await blobs.put(keys.archive_index(ULID, staged), msgspec.json.encode(line) + b"\n")
    use = BlobUse(
        digest=digest(RIGHT), key=staged, size=len(RIGHT), batch_id=ULID, path="/a.tif", is_input=True
    )
    _, finished = await Bench(blobs, [use]).scrub()
    (entry,) = finished.damaged
    assert (entry.key, entry.state, entry.is_input) == (staged, "restored", True)
    assert entry.used_by == (f"/a.tif of batch {ULID}",)
    found = await blobs.head(staged)
    assert (found.content_type, found.metadata) == ("image/tiff", labels)
    assert await blobs.get(staged) == RIGHT


async def test_a_damaged_upload_without_a_right_copy_stays(blobs):
    staged = f"staging/{ULID}/a.tif"
    await blobs.put(staged, WRONG, metadata={"sha256": digest(RIGHT)})
    assert await states(Bench(blobs)) == {staged: "left"}
    assert await blobs.get(staged) == WRONG


async def test_a_copy_that_is_damaged_itself_restores_nothing(blobs, tmp_path):
    key = await damage(blobs, RIGHT)
    staged, false = f"staging/{ULID}/a.tif", tmp_path / "false"
    await blobs.put(staged, WRONG)
    false.write_bytes(WRONG)
    use = BlobUse(
        digest=digest(RIGHT), key=staged, size=len(RIGHT), batch_id=ULID, path="/a.tif", is_input=True
    )
    bench = Bench(blobs, [use], lambda _sizes, digests: dict.fromkeys(digests, false))
    assert await states(bench) == {key: "waiting"}


async def test_a_damaged_blob_is_restored_from_an_original_file(blobs, tmp_path):
    key = await damage(blobs, RIGHT)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "same size").write_bytes(WRONG)
    (tmp_path / "folder" / "link").symlink_to("original")
    (tmp_path / "folder" / "original").write_bytes(RIGHT)

    def find(sizes, digests):
        return find_by_digest([tmp_path], sizes, digests)

    assert await states(Bench(blobs, originals=find)) == {key: "restored"}
    assert await blobs.get(key) == RIGHT


async def test_a_stopped_scrub_continues_where_it_was(blobs):
    wrong = await damage(blobs, b"blob 0")
    for number in range(1, 8):
        await content.put_bytes(blobs, b"blob %d" % number)
    bench = Bench(blobs)
    for part in range(1, 4):
        record, finished = await bench.scrub(stop_after=2)
        assert finished is None
        assert record.counts.blobs == 2 * part
    _, finished = await bench.scrub()
    assert (finished.counts.blobs, finished.counts.damaged) == (8, 1)
    assert [one.key for one in finished.damaged] == [wrong]


async def test_of_two_processes_the_first_one_stops(blobs):
    for number in range(4):
        await content.put_bytes(blobs, b"blob %d" % number)
    first, bench = ScrubStore(blobs), Bench(blobs)
    await bench.scrub(stop_after=1, store=first)
    record = await first.load()
    await bench.scrub(stop_after=1)  # another one takes it over
    with pytest.raises(Stale):
        await first.save(record)
    assert (await bench.scrub())[1].counts.blobs == 4


async def test_it_keeps_to_the_rate(blobs):
    for number in range(4):
        await content.put_bytes(blobs, bytes([number]) * 50_000)
    await content.put_bytes(blobs, b"small")
    bench = Bench(blobs)
    await bench.scrub(rate=10_000.0)
    assert bench.paused == pytest.approx((4 * 50_000 + LEAST_BYTES) / 10_000, rel=0.01)


@pytest.mark.service
class TestStoredChecksums:
    @pytest.fixture
    async def bucket(self, s3_server):
        access = s3_access(s3_server, f"sums/{SystemIds().ulid()}")
        checksums = S3Checksums(clock=SystemClock(), **access)
        with_checksums = S3Blobs(**access, allow_http=True, checksums=True)
        yield {"with": with_checksums, "plain": S3Blobs(**access, allow_http=True)}, checksums
        await checksums.close()

    async def test_objects_are_compared_by_the_checksum_that_the_store_keeps(self, bucket):
        stores, checksums = bucket
        blobs = stores["with"]
        right = (await content.put_bytes(blobs, b"right")).key
        assert await checksums.find_sha256(right) == digest(b"right")
        wrong = await damage(blobs, RIGHT)
        unread = _Unread(blobs, {right})
        _, finished = await Bench(unread, checksums=checksums).scrub()
        assert [one.key for one in finished.damaged] == [wrong]
        assert finished.counts.by_checksum == 2

    async def test_objects_without_a_usable_checksum_are_read(self, bucket):
        stores, checksums = bucket
        plain = await damage(stores["plain"], RIGHT)
        in_parts = await damage(stores["with"], BIG)
        assert await checksums.find_sha256(plain) is None
        assert await checksums.find_sha256(in_parts) is None
        _, finished = await Bench(stores["plain"], checksums=checksums).scrub()
        assert {one.key for one in finished.damaged} == {plain, in_parts}
        assert finished.counts.by_checksum == 0

    async def test_all_are_read_when_that_is_wanted(self, bucket):
        stores, checksums = bucket
        await content.put_bytes(stores["with"], b"right")
        _, finished = await Bench(stores["with"], checksums=checksums).scrub(reads_all=True)
        assert (finished.counts.blobs, finished.counts.by_checksum) == (1, 0)

    async def test_a_missing_object_has_no_checksum(self, bucket):
        with pytest.raises(Missing):
            await bucket[1].find_sha256("cas/nothing")


class _Unread:
    """The store; reading one of these keys fails the test."""

    def __init__(self, blobs, unread):
        self._blobs, self._unread = blobs, unread

    def __getattr__(self, name):
        return getattr(self._blobs, name)

    def stream(self, key, **options):
        assert key not in self._unread
        return self._blobs.stream(key, **options)
