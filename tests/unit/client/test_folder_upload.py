"""An upload ends with every file on the server once, whatever fails on the way."""

import asyncio
import os
from contextlib import asynccontextmanager, nullcontext

import pytest
from tests.standins.ingest_server import MIB, Fault, IngestServer, running

from quire.client import file_upload
from quire.client.folder_upload import ClientContext, UploadRequest, plan_request, upload_folder
from quire.client.http import ClientRetries, IngestClient
from quire.client.plan import EVERYTHING
from quire.client.upload_state import UploadStateFile
from quire.model.errors import Lost, Misconfigured, Reject, Retry
from quire.testing.time import CountingIds, FakeClock


class Seen:
    """A watcher that remembers."""

    def __init__(self):
        self.notes, self.batches, self.statuses = [], [], []
        self.there, self.closed, self.bytes = [], [], 0

    def planned(self, plan):
        self.plan = plan

    def noted(self, words):
        self.notes.append(words)

    def opened(self, batch_id, *, resumed):
        self.batches.append((batch_id, resumed))

    def sent(self, count):
        self.bytes += count

    def settled(self, file, *, there, failure):  # noqa: ARG002
        if there:
            self.there.append(file.path)

    def finalized(self, batch_id, answer):  # noqa: ARG002
        self.closed.append(batch_id)

    def looked(self, status):
        self.statuses.append(status)


class Uploads:
    """The same command, as often as it is called."""

    def __init__(self, tmp_path, server):
        self.server = server
        self.folder = tmp_path / "in"
        self.folder.mkdir()
        self.home = tmp_path / "home"
        self.clock = FakeClock(now=4_000_000_000.0)  # every file is older than its batch
        self.ids = CountingIds()
        self.stop = asyncio.Event()
        self.memory = UploadStateFile(self.home, self.folder, server.url)
        self.slept = []

    def write(self, name, data=b"some text"):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    async def sleep(self, seconds):
        self.slept.append(seconds)

    @asynccontextmanager
    async def desk(self):
        client = IngestClient(
            self.server.url,
            clock=self.clock,
            sleep=self.sleep,
            fraction=lambda: 0.5,
            retries=ClientRetries(attempts=3),
        )
        async with client:
            yield ClientContext(
                client=client,
                state=self.memory,
                clock=self.clock,
                ids=self.ids,
                sleep=self.sleep,
                claim_upload=nullcontext,
            )

    def asked(self, **more):
        given = {"folder": self.folder, "url": self.server.url, "uploader": "ana", "config": EVERYTHING}
        return UploadRequest(**given | more)

    async def __call__(self, **more):
        self.seen = Seen()
        async with self.desk() as desk:
            return await upload_folder(self.asked(**more), desk, self.seen, self.stop)

    def content(self, root=""):
        """What lies in the folder, as the server should have it."""
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        return {f"{root}/{path.relative_to(self.folder)}": path.read_bytes() for path in files}

    def check_whole(self, root=""):
        (batch,) = self.server.closed()
        assert self.server.content(batch) == self.content(root)


@pytest.fixture(params=[False, True], ids=["ours", "original"])
def original(request):
    return request.param


@pytest.fixture
def server(original):
    with running(IngestServer(original=original)) as server:
        yield server


@pytest.fixture
def upload(tmp_path, server):
    uploads = Uploads(tmp_path, server)
    for name in ("a.txt", "sub/b é.txt", "sub/c#%+.bin"):
        uploads.write(name, name.encode())
    return uploads


async def test_a_folder_becomes_a_batch(upload, server):
    ended = await upload(
        root_path="/fonds", metadata={"shelf": "B7"}, prompts={"general": "Letters"}, parent="0" * 26
    )
    assert (ended.sent, ended.finalized, ended.failures) == (3, True, ())
    upload.check_whole("/fonds")
    said = dict(server.bodies)["init"]
    assert (said["file_count"], said["metadata"], said["custom_prompts"]) == (
        3,
        {"shelf": "B7"},
        {"general": "Letters"},
    )
    assert upload.seen.bytes == ended.sent_bytes == said["total_size"]


@pytest.mark.parametrize("size", [5 * MIB - 1, 5 * MIB, 10 * MIB, 10 * MIB + 1, 25 * MIB])
async def test_large_files_go_in_parts(upload, server, size):
    upload.write("large.bin", os.urandom(size))
    server.faults.append(Fault("PUT .*large", status=500))
    ended = await upload()
    assert ended.finalized
    upload.check_whole()
    assert upload.seen.bytes == ended.sent_bytes
    parts = -(-size // (10 * MIB)) if size >= 5 * MIB else 1
    assert len([path for verb, path, _ in server.requests if verb == "PUT" and "large" in path]) == parts + 1


async def test_not_more_than_asked_for_is_sent_at_once(upload, server):
    for number in range(20):
        upload.write(f"{number}.txt")
    await upload(files_at_once=2)
    assert server.most_at_once <= 2


async def test_nothing_there_opens_no_batch(tmp_path, server):
    uploads = Uploads(tmp_path, server)
    uploads.write("empty.txt", b"")
    ended = await uploads()
    assert ended.batch_id is None
    assert [one.error_class for one in ended.plan.skipped] == ["empty_file"]
    assert server.requests == []


async def test_a_refused_name_keeps_the_batch_open_and_the_rest_is_sent(upload, server):
    upload.write("what?.txt")
    ended = await upload()
    assert (ended.sent, ended.finalized) == (3, False)
    assert [one.path for one in ended.failures] == ["what?.txt"]
    assert server.closed() == []
    (upload.folder / "what?.txt").rename(upload.folder / "what.txt")
    ended = await upload()
    assert (ended.sent, ended.there, ended.finalized) == (1, 3, True)
    upload.check_whole()


async def test_a_batch_may_be_closed_without_what_was_refused(upload, server):
    upload.write("what?.txt")
    ended = await upload(allow_failed=True)
    assert ended.finalized
    assert [one.path for one in ended.failures] == ["what?.txt"]
    assert len(server.closed()[0]["files"]) == 3


async def test_a_file_that_the_store_refuses_fails_alone_and_goes_later(upload, server, original):
    expired = b"<Error><Message>Request has expired</Message></Error>"
    server.faults.append(Fault("PUT .*a.txt", status=403, body=expired))
    ended = await upload()
    assert [(one.path, one.error_class) for one in ended.failures] == [("a.txt", "server_refused")]
    assert "expired" in ended.failures[0].reason
    assert not ended.finalized
    ended = await upload()
    assert ended.finalized
    upload.check_whole()
    # An original server counts the file twice and can never close that batch.
    assert any("twice" in note for note in upload.seen.notes) == original


async def test_without_the_failed_file_only_our_server_can_close(upload, server, original):
    server.faults.append(Fault("PUT .*a.txt", status=403))
    if original:
        with pytest.raises(Reject, match=r"a\.txt"):
            await upload(allow_failed=True)
        return
    ended = await upload(allow_failed=True)
    assert (ended.finalized, len(ended.failures)) == (True, 1)
    assert len(server.closed()[0]["files"]) == 2


async def test_a_file_that_changes_while_it_is_sent_is_not_confirmed(upload, server):
    def grow():
        upload.write("a.txt", b"another text, and a longer one")

    server.faults.append(Fault("PUT .*a.txt", call=grow))
    ended = await upload()
    assert [(one.path, one.error_class) for one in ended.failures] == [("a.txt", "changed")]
    assert (await upload()).finalized
    upload.check_whole()


async def test_a_file_that_vanishes_fails_alone(upload, server):
    server.faults.append(Fault("init", call=(upload.folder / "a.txt").unlink))
    ended = await upload()
    assert [(one.path, one.error_class) for one in ended.failures] == [("a.txt", "vanished")]
    assert (await upload()).finalized
    upload.check_whole()


async def test_a_file_that_becomes_a_link_is_not_followed(upload, server):
    def replace():
        (upload.folder / "a.txt").unlink()
        (upload.folder / "a.txt").symlink_to("/etc/passwd")

    server.faults.append(Fault("init", call=replace))
    ended = await upload()
    assert [(one.path, one.error_class) for one in ended.failures] == [("a.txt", "unreadable")]


async def test_a_part_with_a_wrong_tag_fails_its_file(upload, server):
    upload.write("large.bin", bytes(6 * MIB))
    server.faults.append(Fault("PUT .*large", headers={"etag": '"wrong"'}))
    ended = await upload()
    assert [one.path for one in ended.failures] == ["large.bin"]
    assert "Invalid parts format" in ended.failures[0].reason


async def test_a_part_without_a_tag_fails_its_file(upload, server):
    upload.write("large.bin", bytes(6 * MIB))
    server.faults.append(Fault("PUT .*large", headers={"etag": ""}))
    assert "no ETag" in (await upload()).failures[0].reason


@pytest.mark.parametrize("request_", ["init", "files/start", "PUT", "files/complete", "finalize"])
async def test_a_lost_answer_changes_nothing(upload, server, request_):
    server.faults.append(Fault(request_, lost=True))
    ended = await upload()
    assert ended.finalized
    upload.check_whole()


@pytest.mark.parametrize("request_", ["init", "files/start", "PUT", "files/complete", "finalize"])
async def test_a_server_in_trouble_is_waited_for(upload, server, request_):
    server.faults += [Fault(request_, status=500), Fault(request_, status=429, headers={"retry-after": "0"})]
    assert (await upload()).finalized
    upload.check_whole()
    assert 0.0 in upload.slept


async def test_a_server_that_stays_away_ends_the_work_and_the_next_run_goes_on(upload, server):
    server.faults += [Fault("files/start", status=503)] * 9
    with pytest.raises(Retry):
        await upload(files_at_once=1)
    server.faults.clear()
    assert (await upload()).finalized
    assert len(server.batches) == 1
    upload.check_whole()


async def test_a_refused_key_ends_the_work_at_once(upload, server):
    server.key = "wanted"
    with pytest.raises(Misconfigured):
        await upload()
    assert len(server.requests) == 1


async def test_only_what_is_missing_or_changed_is_sent_again(upload, server, original):
    upload.write("what?.txt")
    await upload()
    (upload.folder / "what?.txt").unlink()
    upload.write("sub/new.txt")
    upload.write("a.txt", b"of another size")
    before = len(server.requests)
    ended = await upload()
    assert ended.finalized
    upload.check_whole()
    if not original:
        assert (ended.sent, ended.there) == (2, 2)
        assert len(server.requests) == before + 1 + 2 * 3 + 1


def puts(server):
    return len([path for verb, path, _ in server.requests if verb == "PUT" and "large" in path])


async def broken_off(upload, server):
    """Two parts of three have arrived."""
    upload.write("large.bin", os.urandom(25 * MIB))
    server.faults += [Fault("PUT .*large"), Fault("PUT .*large"), Fault("PUT .*large", status=403)]
    ended = await upload(parts_at_once=1)
    assert [one.path for one in ended.failures] == ["large.bin"]
    server.requests.clear()
    server.bodies.clear()


async def test_parts_that_are_there_are_not_sent_again(upload, server, original):
    await broken_off(upload, server)
    ended = await upload()
    assert ended.finalized
    upload.check_whole()
    flags = [said.get("resume") for name, said in server.bodies if name == "files/start"]
    assert flags[0] is True
    if not original:  # of such a one the next batch has all of it
        assert puts(server) == 1
        assert ended.sent_bytes == 5 * MIB
        assert upload.seen.bytes == 25 * MIB  # as far as the bar goes
        assert flags == [True]


async def test_parts_of_another_content_are_not_gone_on_with(upload, server):
    await broken_off(upload, server)
    upload.write("large.bin", os.urandom(25 * MIB))
    assert (await upload()).finalized
    upload.check_whole()
    assert puts(server) >= 3


async def test_parts_cut_at_other_places_are_sent_again(upload, server, original):
    await broken_off(upload, server)
    (parts,) = server.parts.values()
    parts[1] = parts[1][:-1]
    assert (await upload()).finalized
    upload.check_whole()
    assert original or puts(server) == 2


async def test_a_file_that_was_completed_meanwhile_is_left(upload, server, original):
    upload.write("large.bin", os.urandom(6 * MIB))
    plan = await asyncio.to_thread(plan_request, upload.asked())
    (large,) = [file for file in plan.files if file.path == "large.bin"]
    async with upload.desk() as desk:
        opening = {"uploader": "ana", "root_path": "/", "file_count": 1, "total_size": 1}
        batch = (await desk.client.init(opening, None)).batch_id
        told = []
        sender = file_upload.FileSender(desk.client, batch, parts_at_once=1, sent=told.append)
        assert await sender.send(large) == 6 * MIB
        told.clear()
        assert await sender.send(large, resume=True) == (6 * MIB if original else 0)
    assert sum(told) == 6 * MIB


async def test_a_file_written_since_is_compared_by_content(upload, server, original):
    upload.write("what?.txt")
    upload.clock = FakeClock(now=1_000_000_000.0)  # every file is younger than its batch
    await upload()
    (upload.folder / "what?.txt").unlink()
    upload.write("a.txt", b"A.TXT")
    ended = await upload()
    assert ended.finalized
    upload.check_whole()
    if not original:
        assert (ended.sent, ended.there) == (1, 2)


async def test_after_its_end_the_same_command_begins_anew(upload, server):
    first = await upload()
    second = await upload()
    assert first.batch_id != second.batch_id
    assert len(server.closed()) == 2
    assert "finished" in upload.seen.notes[0]


async def test_other_wishes_are_another_batch(upload, server):
    upload.write("what?.txt")
    await upload()
    await upload(root_path="/elsewhere")
    assert "changed" in upload.seen.notes[0]
    assert len(server.batches) == 2


async def test_new_begins_anew(upload, server):
    upload.write("what?.txt")
    await upload()
    await upload(begin_anew=True)
    assert len(server.batches) == 2
    assert upload.seen.batches[0][1] is False


async def test_a_batch_that_the_server_forgot_is_opened_anew(upload, server):
    upload.write("what?.txt")
    await upload()
    server.batches.clear()
    (upload.folder / "what?.txt").unlink()
    assert (await upload()).finalized
    assert "does not know" in upload.seen.notes[0]
    upload.check_whole()


async def test_a_batch_that_is_gone_in_the_middle_ends_the_work(upload, server):
    server.faults.append(Fault("init", call=server.batches.clear))
    with pytest.raises(Lost, match="opens a new one"):
        await upload()
    assert (await upload()).finalized


async def test_a_batch_closed_by_somebody_else_without_our_files_is_left(upload, server):
    upload.write("what?.txt")
    await upload()
    next(iter(server.batches.values()))["status"] = "preprocessing"
    upload.write("more.txt")
    await upload()
    assert "closed" in upload.seen.notes[0]
    assert len(server.batches) == 2


async def test_a_key_used_for_another_request_is_no_obstacle(upload, server):
    server.faults.append(Fault("init", status=422, body=b'{"error":"Idempotency-Key was used before"}'))
    assert (await upload()).finalized
    server.faults += [Fault("init", status=400, body=b'{"error":"unknown header Idempotency-Key"}')] * 2
    await upload()
    assert "idempotency-key" not in [one for one in server.requests if "init" in one[1]][-1][2]


async def test_an_opening_that_was_not_answered_is_asked_for_again_with_its_key(upload, server, original):
    server.faults += [Fault("init", lost=True)] * 3
    with pytest.raises(Retry):
        await upload()
    assert (await upload()).finalized
    assert original or len(server.batches) == 1


async def test_a_damaged_memory_is_none(upload, server):
    upload.write("what?.txt")
    await upload()
    upload.memory.path.write_bytes(b"{oops")
    await upload()
    assert len(server.batches) == 2


async def test_the_memory_is_for_its_owner_alone(upload):
    await upload()
    assert upload.memory.path.stat().st_mode & 0o777 == 0o600
    assert upload.memory.path.parent.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in upload.memory.path.parent.iterdir()] == [upload.memory.path.name]


@pytest.mark.parametrize(
    ("last", "status"), [("completed", "completed"), ("failed", "failed"), ("enqueued", "enqueued")]
)
async def test_waiting_follows_the_batch_to_its_end(upload, server, last, status):
    server.statuses = ["preprocessing", "preprocessing", last]
    ended = await upload(wait=True)
    assert ended.status == status
    assert upload.seen.statuses == ["preprocessing", "preprocessing", last]
    assert upload.slept == [1.0, 1.5, 2.25]


async def test_stopped_it_finishes_what_it_has_begun_and_goes_on_later(upload, server):
    loop = asyncio.get_running_loop()
    server.faults.append(Fault("files/complete", call=lambda: loop.call_soon_threadsafe(upload.stop.set)))
    ended = await upload(files_at_once=1)
    assert ended.stopped
    assert not ended.finalized
    upload.stop.clear()
    ended = await upload()
    assert (ended.finalized, ended.sent + ended.there) == (True, 3)
    assert len(server.batches) == 1
    upload.check_whole()


async def test_a_server_that_gives_wrong_addresses_is_named(upload, server):
    upload.write("large.bin", bytes(6 * MIB))
    server.lie = lambda answer: answer | {"upload_type": "multipart", "presigned_urls": []}
    with pytest.raises(Misconfigured, match="protocol"):
        await upload()


async def test_bytes_are_read_in_small_pieces(upload, server, monkeypatch):
    sizes = []
    real = os.pread

    def pread(descriptor, count, at):
        sizes.append(count)
        return real(descriptor, count, at)

    upload.write("large.bin", bytes(25 * MIB))
    monkeypatch.setattr(file_upload.os, "pread", pread)
    await upload()
    assert max(sizes) <= MIB
