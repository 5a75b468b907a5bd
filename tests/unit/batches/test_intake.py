"""Files are stored before they are taken; what cannot be read is refused alone, and nothing is read twice."""

import asyncio
import os
import time
from pathlib import Path

import pytest
from tests.situations.contexts import components_on

from quire.batches import uploads
from quire.batches.folder_run import open_flow
from quire.batches.intake import FIRST_FILES, Intake, can_continue
from quire.batches.uploads import FileReader, is_unchanged, load_trusted
from quire.blobs.local import LocalBlobs
from quire.database.sqlite import SqliteDatabase
from quire.ledger.sqlite import SqliteLedger
from quire.model.batch import Stage
from quire.model.plan import Accepts
from quire.system import SystemIds
from quire.testing.factories import phase, pipeline
from quire.testing.time import FakeClock
from quire.tools.folder_scan import scan, scan_folders

PLAN = pipeline(phase(accepts=Accepts(kinds=("*.jpg",))))


class Scene:
    """A folder of three pictures, and batches that it is brought into."""

    def __init__(self, ledger, folder: Path, blobs: LocalBlobs) -> None:
        self.ledger = ledger
        self.folder = folder
        self.blobs = blobs
        self.clock = FakeClock(time.time())
        self.context = components_on(
            ledger, blobs=blobs, clock=self.clock, ids=SystemIds(), pipelines={PLAN.name: PLAN}
        )
        self.stop = asyncio.Event()
        self.stored = []
        self.progress = None

    async def opened(self):
        return await open_flow(PLAN, self.context, "k")

    async def brought(self, batch, *, listings=None, earlier=None, takes=lambda _: True):
        """Whether all of it is in the batch."""
        intake = Intake(
            batch,
            PLAN,
            self.context,
            FileReader(self.blobs, await load_trusted(self.ledger, earlier)),
            changed=lambda: None,
            scanned=self._scanned,
            stored=self.stored.append,
            stop=self.stop,
        )
        return await intake.run(iter(self.listings() if listings is None else listings), takes)

    def _scanned(self, progress):
        self.progress = (progress.files, progress.passed_over, progress.whole)

    def listings(self):
        return list(scan_folders([self.folder]))

    async def noted(self, batch):
        return {one.path: one for one in await self.ledger.list_uploads(batch.no, limit=100)}

    async def is_unchanged(self, batch):
        return await is_unchanged(batch.no, list(scan([self.folder])), uploads=self.ledger)


@pytest.fixture
async def scene(tmp_path):
    database = SqliteDatabase(tmp_path / "quire.db")
    await database.open()
    ledger = SqliteLedger(database)
    await ledger.prepare()
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.jpg").write_bytes(b"\xff\xd8\xff" + bytes([number]) * 100)
    yield Scene(ledger, folder, LocalBlobs(tmp_path / "blobs"))
    await database.close()


@pytest.fixture
def read(monkeypatch):
    """The names of the files that are read."""
    names = []
    put_files = uploads.content.put_files

    async def spy(store, paths):
        names.extend(path.name for path in paths)
        return await put_files(store, paths)

    monkeypatch.setattr(uploads.content, "put_files", spy)
    return names


async def test_every_file_is_stored_under_its_content_and_noted(scene):
    batch = await scene.opened()
    assert await scene.brought(batch)
    noted = await scene.noted(batch)
    assert {one.state for one in noted.values()} == {"taken"}
    assert noted["0.jpg"].content_type == "image/jpeg"
    assert await scene.blobs.get(noted["1.jpg"].key) == (scene.folder / "1.jpg").read_bytes()
    assert (sum(scene.stored), scene.progress) == (3, (3, 0, True))


async def test_its_tasks_wait_and_the_intake_is_closed(scene):
    (scene.folder / "notes.txt").write_text("no step takes it")
    (scene.folder / "empty.jpg").touch()
    batch = await scene.opened()
    assert await scene.brought(batch)
    batch = await scene.ledger.get_batch(batch.id)
    assert (batch.position.stage, batch.flow.sources, batch.flow.open_tasks) == (Stage.FLOWING, 0, 3)
    assert (batch.total_files, batch.refused) == (4, 1)
    assert await scene.blobs.get(batch.manifest_key)
    assert scene.progress == (5, 1, True)


async def test_the_first_files_have_tasks_before_any_other_is_read(scene, read, monkeypatch):
    for number in range(3, 40):
        (scene.folder / f"{number}.jpg").write_bytes(b"\xff\xd8\xff" + bytes([number]) * 100)
    read_before = []
    take_files = scene.ledger.take_files

    async def spy(batch_no, files, *, now):
        read_before.append(len(read))
        await take_files(batch_no, files, now=now)
        read_before.append(len(read))

    monkeypatch.setattr(scene.ledger, "take_files", spy)
    batch = await scene.opened()
    assert await scene.brought(batch)
    assert read_before[:2] == [FIRST_FILES, FIRST_FILES]
    assert len(read) == len(set(read)) == 40
    assert (await scene.ledger.get_batch(batch.id)).flow.open_tasks == 40


async def test_names_of_files_that_are_not_taken_are_listed(scene):
    batch = await scene.opened()
    assert await scene.brought(batch, takes=lambda one: one.path == "1.jpg")
    assert set(await scene.noted(batch)) == {"1.jpg"}
    listed = await scene.ledger.list_names(batch.no, after=0, limit=9)
    assert {one.path: one.role for one in listed} == {"0.jpg": "name", "1.jpg": "input", "2.jpg": "name"}


async def test_an_intake_that_goes_on_reads_only_what_was_not_taken(scene, read, monkeypatch):
    """A file that could not be read the first time is tried again."""
    batch = await scene.opened()
    listings = scene.listings()
    (scene.folder / "1.jpg").rename(scene.folder / "hidden")

    async def die(*_arguments, **_options):
        raise ConnectionAbortedError("before the intake is closed")

    with monkeypatch.context() as patch:
        patch.setattr(scene.ledger, "close_intake", die)
        with pytest.raises(ConnectionAbortedError):
            await scene.brought(batch, listings=listings)
    assert (await scene.noted(batch))["1.jpg"].error_class == "vanished"
    (scene.folder / "hidden").rename(scene.folder / "1.jpg")
    read.clear()
    assert await can_continue(batch, scene.listings(), scene.context)
    assert await scene.brought(batch)
    assert read == ["1.jpg"]
    assert {one.state for one in (await scene.noted(batch)).values()} == {"taken"}


@pytest.mark.parametrize("change", ["written", "gone", "new", "new folder"])
async def test_a_folder_that_has_changed_is_not_continued(scene, change):
    batch = await scene.opened()
    assert await scene.brought(batch)
    assert await scene.is_unchanged(batch)
    assert await can_continue(batch, scene.listings(), scene.context)
    match change:
        case "written":
            (scene.folder / "1.jpg").write_bytes(b"\xff\xd8\xff changed")
        case "gone":
            (scene.folder / "2.jpg").unlink()
        case "new":
            (scene.folder / "3.jpg").write_bytes(b"\xff\xd8\xff new")
        case "new folder":
            (scene.folder / "below").mkdir()
            (scene.folder / "below" / "3.jpg").write_bytes(b"\xff\xd8\xff new")
    assert not await scene.is_unchanged(batch)
    assert not await can_continue(batch, scene.listings(), scene.context)


async def test_a_file_that_vanished_or_changed_since_the_scan_is_refused_alone(scene):
    found = scene.listings()
    (scene.folder / "0.jpg").unlink()
    (scene.folder / "1.jpg").write_bytes(b"\xff\xd8\xff longer than before " * 50)
    batch = await scene.opened()
    assert await scene.brought(batch, listings=found)
    assert [(one.state, one.error_class) for one in (await scene.noted(batch)).values()] == [
        ("failed", "vanished"),
        ("failed", "changed"),
        ("taken", ""),
    ]


async def test_a_file_written_to_while_it_is_read_is_refused(scene, monkeypatch):
    put_files = uploads.content.put_files

    async def meddle(store, paths: list[Path]):
        stored = await put_files(store, paths)
        for path in paths:
            if path.name == "1.jpg":
                with path.found.source.open("ab") as file:
                    file.write(b"the scanner is still writing")
        return stored

    monkeypatch.setattr(uploads.content, "put_files", meddle)
    batch = await scene.opened()
    assert await scene.brought(batch)
    noted = await scene.noted(batch)
    assert noted["1.jpg"].error_class == "changed"
    assert noted["2.jpg"].state == "taken"


async def test_what_an_earlier_batch_took_in_is_not_read_again(scene, read):
    long_ago = 10**9
    for path in scene.folder.iterdir():
        os.utime(path, ns=(long_ago, long_ago))
    os.utime(scene.folder / "2.jpg")  # not at rest when the first batch took it in
    earlier = await scene.opened()
    assert await scene.brought(earlier)
    first = await scene.noted(earlier)
    (scene.folder / "1.jpg").write_bytes(b"\xff\xd8\xff changed")
    read.clear()
    batch = await scene.opened()
    assert await scene.brought(batch, earlier=earlier)
    assert sorted(read) == ["1.jpg", "2.jpg"]
    assert (await scene.noted(batch))["0.jpg"] == first["0.jpg"]
    await scene.blobs.delete(first["0.jpg"].key)
    read.clear()
    assert await scene.brought(await scene.opened(), earlier=earlier)
    assert "0.jpg" in read, "its bytes are gone from the store"


async def test_a_stop_leaves_notes_of_what_is_safe(scene):
    scene.stop.set()
    batch = await scene.opened()
    assert not await scene.brought(batch)
    assert await scene.noted(batch) == {}
    assert (await scene.ledger.get_batch(batch.id)).flow.sources == 1, "it goes on with the next run"
