"""Originals are archived before they go, and what assets lead to never goes without."""

import hashlib
import json

import msgspec
import pytest
from tests.unit.ingest.test_cleanup import DAY, opened_scene

from quire.assets.registry import deliver
from quire.blobs import asset_records
from quire.ingest.archive import archive_batch
from quire.ingest.cleanup import CleanupPolicy, CleanupResult, clean_up
from quire.model.asset import Asset, Rendition
from quire.model.errors import Reject, Retry
from quire.model.ids import named_ulid

ID = "01KB0000000000000000000000"


@pytest.fixture
async def scene(tmp_path):
    async with opened_scene(tmp_path) as made:
        yield made


async def ended(scene, *names):
    batch_id = await scene.opened()
    for name in names:
        await scene.sent(batch_id, name)
    await scene.done(batch_id)
    return batch_id


def asset(key, asset_id=ID, role="original"):
    rendition = Rendition(key=key, content_type="image/jpeg", size=3, width=1, height=1)
    return Asset(id=asset_id, content_type="image/jpeg", is_image=True, renditions={role: rendition})


async def cleaned(scene, *, archives):
    scene.clock.advance(31 * DAY)
    return await clean_up(scene.office, scene.presigned, CleanupPolicy(archives=archives))


async def under(scene, prefix):
    return [key for key in await scene.keys() if key.startswith(prefix)]


async def index(scene, batch_id):
    lines = []
    for key in await under(scene, f"archive/{batch_id}/index/"):
        lines += (await scene.office.blobs.get(key)).splitlines()
    return {line["original_r2_key"]: line for line in map(json.loads, lines)}


async def test_without_an_archive_originals_of_assets_stay_and_the_rest_goes(scene):
    batch_id = await ended(scene, "p1.jpg", "letter.pdf")
    key = f"staging/{batch_id}/p1.jpg"
    await asset_records.register(scene.office.blobs, asset(key))
    assert await cleaned(scene, archives=False) == CleanupResult(stagings=1, objects=1, kept=1)
    assert await under(scene, "staging/") == [key]
    assert (await deliver(scene.office.blobs, ID, "original", allowed=str)).key == key
    assert await cleaned(scene, archives=False) == CleanupResult()


async def test_with_an_archive_everything_is_copied_first_and_assets_go_on(scene):
    batch_id = await ended(scene, "p1.jpg", "box/Brief é.PDF", "none")
    await asset_records.register(scene.office.blobs, asset(f"staging/{batch_id}/p1.jpg"))
    assert await cleaned(scene, archives=True) == CleanupResult(stagings=1, objects=3, archived=3)
    assert await under(scene, "staging/") == []
    given = await deliver(scene.office.blobs, ID, "original", allowed=str)
    assert given.key == f"archive/{batch_id}/{ID}/original.jpg"
    lines = await index(scene, batch_id)
    assert len(lines) == 3
    digest = hashlib.sha256(b"abc").hexdigest()
    for key, line in lines.items():
        stored = await scene.office.blobs.head(line["archive_r2_key"])
        assert await scene.office.blobs.get(line["archive_r2_key"]) == b"abc"
        assert stored.metadata["original-r2-key"] == key
        assert stored.metadata["batch-id"] == batch_id
        assert (line["sha256"], line["size"]) == (digest, 3)
    named = named_ulid(digest)
    assert lines[f"staging/{batch_id}/box/Brief é.PDF"]["archive_r2_key"] == (
        f"archive/{batch_id}/{named}/original.pdf"
    )
    assert lines[f"staging/{batch_id}/none"]["archive_r2_key"] == f"archive/{batch_id}/{named}/original.bin"


async def test_archiving_again_changes_nothing(scene):
    batch_id = await ended(scene, "p1.jpg", "p2.jpg")
    first = await archive_batch(scene.office, batch_id)
    before = await scene.keys()
    assert await archive_batch(scene.office, batch_id) == first
    assert await scene.keys() == before
    assert first.bytes == 6


async def test_a_batch_that_goes_on_is_not_archived(scene):
    with pytest.raises(Reject, match="has not ended"):
        await archive_batch(scene.office, await scene.opened())


async def test_a_copy_that_is_not_right_is_removed_and_its_original_stays(scene, monkeypatch):
    batch_id = await ended(scene, "p1.jpg")
    blobs, put = scene.office.blobs, scene.office.blobs.put

    async def lossy(key, data, **options):
        if key.startswith("archive/") and "/original." in key:
            data = b"ab"
        return await put(key, data, **options)

    monkeypatch.setattr(blobs, "put", lossy)
    assert await cleaned(scene, archives=True) == CleanupResult(postponed=1)
    assert await under(scene, "staging/") == [f"staging/{batch_id}/p1.jpg"]
    assert await under(scene, "archive/") == []
    with pytest.raises(Retry, match="made again"):
        await archive_batch(scene.office, batch_id)
    monkeypatch.undo()
    assert (await cleaned(scene, archives=True)).stagings == 1
    assert await under(scene, "staging/") == []


async def test_it_goes_on_where_it_was_stopped(scene, monkeypatch):
    batch_id = await ended(scene, *(f"{number:03d}.txt" for number in range(5)))
    monkeypatch.setattr("quire.ingest.archive.PAGE", 2)
    delete, deleted = scene.office.blobs.delete, []

    async def stopped(key):
        if len(deleted) == 3:
            raise KeyboardInterrupt
        deleted.append(key)
        await delete(key)

    monkeypatch.setattr(scene.office.blobs, "delete", stopped)
    with pytest.raises(KeyboardInterrupt):
        await cleaned(scene, archives=True)
    monkeypatch.setattr(scene.office.blobs, "delete", delete)
    assert (await cleaned(scene, archives=True)).objects == 2
    assert await under(scene, "staging/") == []
    assert len(await index(scene, batch_id)) == 5


async def test_two_contents_under_one_identifier_are_both_kept(scene):
    batch_id = await scene.opened()
    for name, data in (("a.bin", b"abc"), ("b.bin", b"xyz")):
        key = await scene.sent(batch_id, name)
        await scene.office.blobs.put(key, data)
        no = (await scene.office.batches.get_batch(batch_id)).no
        upload = await scene.office.submissions.get_upload(no, f"/{name}")
        again = msgspec.structs.replace(upload, state="awaited", stamp="2", cid="bafkreisame")
        await scene.office.submissions.announce_upload(no, again, now=scene.clock.now())
        taken = msgspec.structs.replace(again, state="taken", taken_at=scene.clock.now())
        await scene.office.submissions.record_received(no, taken, now=scene.clock.now())
    await scene.done(batch_id)
    await archive_batch(scene.office, batch_id)
    lines = await index(scene, batch_id)
    kept = {await scene.office.blobs.get(line["archive_r2_key"]) for line in lines.values()}
    assert kept == {b"abc", b"xyz"}
    ids = {line["asset_id"] for line in lines.values()}
    assert ids == {named_ulid("bafkreisame"), named_ulid(hashlib.sha256(b"xyz").hexdigest())}


async def test_what_lies_at_the_place_of_its_own_digest_is_not_taken_for_its_copy(scene):
    batch_id = await ended(scene, "p1.jpg")
    digest = hashlib.sha256(b"abc").hexdigest()
    place = f"archive/{batch_id}/{named_ulid(digest)}/original.jpg"
    await scene.office.blobs.put(place, b"abd")
    assert (await cleaned(scene, archives=True)).archived == 1
    assert await under(scene, "staging/") == []
    line = (await index(scene, batch_id))[f"staging/{batch_id}/p1.jpg"]
    assert await scene.office.blobs.get(line["archive_r2_key"]) == b"abc"
    assert await scene.office.blobs.get(place) == b"abd", "it may be somebody's only copy"


async def test_an_original_stays_when_every_place_for_its_copy_holds_something_else(scene, monkeypatch):
    monkeypatch.setattr("quire.ingest.archive._MORE_NAMES", 0)
    batch_id = await ended(scene, "p1.jpg")
    digest = hashlib.sha256(b"abc").hexdigest()
    await scene.office.blobs.put(f"archive/{batch_id}/{named_ulid(digest)}/original.jpg", b"abd")
    with pytest.raises(Retry, match="hold something else"):
        await archive_batch(scene.office, batch_id)
    assert await cleaned(scene, archives=True) == CleanupResult(postponed=1)
    assert await under(scene, "staging/") == [f"staging/{batch_id}/p1.jpg"]


async def test_a_copy_that_an_asset_names_stays_in_staging_also_with_an_archive(scene):
    batch_id = await ended(scene, "p1.thumb.jpg")
    key = f"staging/{batch_id}/p1.thumb.jpg"
    await asset_records.register(scene.office.blobs, asset(key, role="thumb"))
    assert await cleaned(scene, archives=True) == CleanupResult(stagings=1, kept=1, archived=1)
    assert await under(scene, "staging/") == [key]


async def test_uploads_that_were_never_closed_are_not_archived(scene):
    batch_id = await scene.opened()
    await scene.sent(batch_id)
    scene.clock.advance(8 * DAY)
    assert (await cleaned(scene, archives=True)).objects == 1
    assert await under(scene, "archive/") == []


async def test_copies_that_were_made_for_workers_go_without_being_archived(scene):
    """Unless somebody has uploaded a file of such a name."""
    batch_id = await ended(scene, "p1.tif", "_work/tiff_ab12-1.tif")
    folder = f"staging/{batch_id}/_work"
    for name in ("tiff_ab12-2.tif", "img_ab12-1.jpg", "tiff_ab12-2.result.json", "tiff_ab12-1-p00002.jpg"):
        await scene.office.blobs.put(f"{folder}/{name}", b"xyz")
    assert (await cleaned(scene, archives=True)).archived == 3
    assert await under(scene, f"staging/{batch_id}/") == []
    kept = {f"staging/{batch_id}/p1.tif", f"{folder}/tiff_ab12-1.tif", f"{folder}/tiff_ab12-1-p00002.jpg"}
    assert set(await index(scene, batch_id)) == kept
