"""Before a batch is closed the store is asked what it has: pages of it and of the ledger go side by side."""

import json

import pytest

from quire.assembly.components import open_components
from quire.assembly.presigned_uploads import open_presigned_uploads
from quire.ingest import measurement
from quire.ingest.context import IngestLimits, build_ingest_context
from quire.ingest.finalization import IncompleteBatch, finalize
from quire.ingest.new_batch import Submitter, open_batch
from quire.ledger.port import Upload
from quire.ledger.submissions import AWAITED, TAKEN
from quire.model.errors import Missing
from quire.settings import Settings

CONFIG = {"ocr": True, "describe": True, "pinax": True}
OPENING = {"uploader": "ana", "root_path": "/", "file_count": 1, "total_size": 3}
# Their order as paths is not that of their folders: `a.b` comes before `a/b`, and `é` after `z`.
NAMES = [f"/{name}" for name in ("a.b", "a/b", "a/c/d", "a b", "z", "é/1", "é/2", "😀", "B", "10", "9", "_")]


class Scene:
    def __init__(self, front, batch):
        self.front, self.batch = front, batch

    def key(self, path):
        return f"staging/{self.batch.id}{path}"

    async def announce(self, path, stamp="1"):
        upload = Upload(
            path=path,
            state=AWAITED,
            size=3,
            stamp=stamp,
            key=self.key(path),
            content_type="text/plain",
            config=CONFIG,
        )
        await self.front.submissions.announce_upload(self.batch.no, upload, now=1.0)
        return upload

    async def receive(self, path, data=b"abc"):
        upload = await self.announce(path)
        await self.front.blobs.put(self.key(path), data)
        await self.front.submissions.record_received(self.batch.no, upload, now=2.0)

    async def is_stored(self, path):
        try:
            await self.front.blobs.head(self.key(path))
        except Missing:
            return False
        return True

    async def awaited(self):
        return {one.path for one in await self.front.submissions.list_awaited(self.batch.no, limit=100)}


@pytest.fixture(params=[1, 2, 3, 2000])
async def scene(tmp_path, monkeypatch, request):
    monkeypatch.setattr(measurement, "PAGE", request.param)
    monkeypatch.setattr(measurement, "AT_ONCE", 2)
    settings = Settings(home=tmp_path)
    async with open_components(settings) as office:
        presigned = open_presigned_uploads(settings, office)
        front = build_ingest_context(
            office, presigned, IngestLimits(), pipeline="preprocess", hands_over_to=""
        )
        made = Scene(front, (await open_batch(front, OPENING, Submitter())).batch)
        for path in NAMES:
            await made.receive(path)
        yield made
        await presigned.close()


async def test_what_is_stored_as_noted_is_closed(scene):
    closed = await finalize(scene.front, scene.batch.id)
    assert (closed.files, closed.size) == (len(NAMES), 3 * len(NAMES))


async def test_what_is_missing_or_has_another_size_is_awaited_again(scene):
    await scene.front.blobs.delete(scene.key("/a b"))
    await scene.front.blobs.put(scene.key("/a/c/d"), b"ab")
    await scene.front.blobs.put(scene.key("/😀"), b"abcd")
    with pytest.raises(IncompleteBatch) as refused:
        await finalize(scene.front, scene.batch.id)
    assert set(refused.value.names) == {"a b", "d", "😀"}
    assert await scene.awaited() == {"/a b", "/a/c/d", "/😀"}
    assert not await scene.is_stored("/😀")  # more than was announced is given back
    for path in ("/a b", "/a/c/d", "/😀"):
        await scene.receive(path)
    assert (await finalize(scene.front, scene.batch.id)).size == 3 * len(NAMES)


async def test_what_is_missing_can_be_left_out(scene):
    await scene.front.blobs.delete(scene.key("/z"))
    closed = await finalize(scene.front, scene.batch.id, skip_incomplete=True)
    assert closed.files == len(NAMES) - 1
    listed = json.loads(await scene.front.blobs.get(scene.key("/_manifest.json")))
    assert listed["total_bytes"] == 3 * (len(NAMES) - 1)


async def test_what_nobody_announced_is_deleted(scene):
    strays = ["/0", "/a/b0", "/é/3", "/😀0", "/zz/y"]
    for path in strays:
        await scene.front.blobs.put(scene.key(path), b"stray")
    await finalize(scene.front, scene.batch.id)
    assert [await scene.is_stored(path) for path in strays] == [False] * len(strays)
    assert all([await scene.is_stored(path) for path in (*NAMES, "/_manifest.json")])


async def test_what_was_announced_since_is_left_alone(scene):
    """Its bytes may come while the store is being listed."""
    await scene.front.blobs.put(scene.key("/late"), b"abc")
    list_uploads, pages = scene.front.uploads.list_uploads, []

    async def slowly(*arguments, **named):
        page = await list_uploads(*arguments, **named)
        if not pages:
            await scene.announce("/late")
        pages.append(page)
        return page

    scene.front.uploads.list_uploads = slowly
    submission = await scene.front.get_submission(scene.batch.id)
    assert await measurement.await_lost(scene.front, submission) is False
    assert await scene.is_stored("/late")


async def test_a_file_that_is_announced_anew_meanwhile_keeps_its_new_announcement(scene):
    await scene.front.blobs.delete(scene.key("/z"))
    get_upload = scene.front.submissions.get_upload

    async def slowly(number, path):
        scene.front.submissions.get_upload = get_upload
        await scene.announce(path, stamp="new")
        return await get_upload(number, path)

    scene.front.submissions.get_upload = slowly
    submission = await scene.front.get_submission(scene.batch.id)
    await measurement.await_lost(scene.front, submission)
    assert (await get_upload(scene.batch.no, "/z")).stamp == "new"
    assert (await get_upload(scene.batch.no, "/a.b")).state == TAKEN
