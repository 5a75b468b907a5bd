"""Files are stored before they are noted; what cannot be read is refused alone."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from quire.batches import uploads
from quire.batches.uploads import is_unchanged, upload_files
from quire.blobs.local import LocalBlobs
from quire.database.sqlite import SqliteDatabase
from quire.ledger.sqlite import SqliteLedger
from quire.testing.factories import draft
from quire.tools.folder_scan import scan


@pytest.fixture
async def ledger(tmp_path):
    database = SqliteDatabase(tmp_path / "quire.db")
    await database.open()
    ledger = SqliteLedger(database)
    await ledger.prepare()
    yield ledger
    await database.close()


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.jpg").write_bytes(b"\xff\xd8\xff" + bytes([number]) * 100)
    return folder


async def taken(ledger, blobs, folder, found=None, stop=None):
    batch = await ledger.find_run("k") or await ledger.open_batch(
        draft("0" * 26, run_key="k", now=time.time())
    )
    told = []

    whole = await upload_files(
        batch.no,
        found if found is not None else list(scan([folder])),
        uploads=ledger,
        blobs=blobs,
        progress=told.append,
        stop=stop or asyncio.Event(),
    )
    return whole, {one.path: one for one in await ledger.list_uploads(batch.no, limit=100)}, told, batch


async def test_every_file_is_stored_under_its_content_and_noted(ledger, folder, tmp_path):
    blobs = LocalBlobs(tmp_path / "blobs")
    whole, noted, told, _ = await taken(ledger, blobs, folder)
    assert whole
    assert {one.state for one in noted.values()} == {"taken"}
    assert noted["0.jpg"].content_type == "image/jpeg"
    assert await blobs.get(noted["1.jpg"].key) == (folder / "1.jpg").read_bytes()
    assert sum(told) == 3


async def test_a_second_look_reads_only_what_changed(ledger, folder, tmp_path, monkeypatch):
    blobs = LocalBlobs(tmp_path / "blobs")
    *_, batch = await taken(ledger, blobs, folder)
    assert await is_unchanged(batch.no, list(scan([folder])), uploads=ledger)
    (folder / "1.jpg").write_bytes(b"\xff\xd8\xff changed")
    (folder / "2.jpg").unlink()
    (folder / "3.jpg").write_bytes(b"\xff\xd8\xff new")
    assert not await is_unchanged(batch.no, list(scan([folder])), uploads=ledger)
    read = []
    put_files = uploads.content.put_files

    async def spy(store, paths):
        read.extend(path.name for path in paths)
        return await put_files(store, paths)

    monkeypatch.setattr(uploads.content, "put_files", spy)
    _, noted, _, _ = await taken(ledger, blobs, folder)
    assert sorted(read) == ["1.jpg", "3.jpg"]
    assert set(noted) == {"0.jpg", "1.jpg", "3.jpg"}


async def test_a_file_that_vanished_or_changed_since_the_scan_is_refused_alone(ledger, folder, tmp_path):
    found = list(scan([folder]))
    (folder / "0.jpg").unlink()
    (folder / "1.jpg").write_bytes(b"\xff\xd8\xff longer than before " * 50)
    _, noted, _, _ = await taken(ledger, LocalBlobs(tmp_path / "blobs"), folder, found)
    assert [(one.state, one.error_class) for one in noted.values()] == [
        ("failed", "vanished"),
        ("failed", "changed"),
        ("taken", ""),
    ]


async def test_a_file_written_to_while_it_is_read_is_refused(ledger, folder, tmp_path, monkeypatch):
    put_files = uploads.content.put_files

    async def meddle(store, paths: list[Path]):
        stored = await put_files(store, paths)
        for path in paths:
            if path.name == "1.jpg":
                with path.open("ab") as file:
                    file.write(b"the scanner is still writing")
        return stored

    monkeypatch.setattr(uploads.content, "put_files", meddle)
    _, noted, _, _ = await taken(ledger, LocalBlobs(tmp_path / "blobs"), folder)
    assert noted["1.jpg"].error_class == "changed"
    assert noted["2.jpg"].state == "taken"


async def test_what_an_earlier_batch_took_in_is_not_read_again(ledger, folder, tmp_path, monkeypatch):
    blobs = LocalBlobs(tmp_path / "blobs")
    long_ago = 10**9
    for path in folder.iterdir():
        os.utime(path, ns=(long_ago, long_ago))
    os.utime(folder / "2.jpg")  # not at rest when the first batch took it in
    _, first, _, _ = await taken(ledger, blobs, folder)
    earlier = await ledger.find_run("k")
    (folder / "1.jpg").write_bytes(b"\xff\xd8\xff changed")
    read = []
    put_files = uploads.content.put_files

    async def spy(store, paths):
        read.extend(path.name for path in paths)
        return await put_files(store, paths)

    monkeypatch.setattr(uploads.content, "put_files", spy)
    batch = await ledger.open_batch(draft("1" * 26, run_key="k", now=earlier.created_at))
    options = {"uploads": ledger, "blobs": blobs, "progress": read.count, "stop": asyncio.Event()}
    assert await upload_files(batch.no, list(scan([folder])), earlier=earlier, **options)
    assert sorted(read) == ["1.jpg", "2.jpg"]
    again = {one.path: one for one in await ledger.list_uploads(batch.no, limit=100)}
    assert again["0.jpg"] == first["0.jpg"]
    await blobs.delete(first["0.jpg"].key)
    read.clear()
    batch = await ledger.open_batch(draft("2" * 26, run_key="k", now=earlier.created_at))
    await upload_files(batch.no, list(scan([folder])), earlier=earlier, **options)
    assert "0.jpg" in read, "its bytes are gone from the store"


async def test_a_stop_leaves_notes_of_what_is_safe(ledger, folder, tmp_path):
    stop = asyncio.Event()
    stop.set()
    whole, noted, _, _ = await taken(ledger, LocalBlobs(tmp_path / "blobs"), folder, stop=stop)
    assert (whole, noted) == (False, {})
