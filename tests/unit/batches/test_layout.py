"""Results are laid out while a batch runs: whole files, each once, within bounds."""

import asyncio
import hashlib

import pytest

from quire.batches import layout as module
from quire.batches.layout import Layout
from quire.batches.placing import place_files, remove_file
from quire.ledger.intake import FinishedInput
from quire.ledger.port import InputRecord
from quire.model.batch import FileOutcome
from quire.model.errors import Misconfigured
from quire.model.files import File
from quire.testing.memory_blobs import MemoryBlobs
from quire.testing.time import FakeClock


def made(path, data=b"x"):
    digest = hashlib.sha256(data).hexdigest()
    return File(
        key=f"cas/{digest}", path=path, name=path, size=len(data), content_type="text/plain", digest=digest
    )


class Inputs:
    """As the ledger tells them: inputs with the numbers from 1 on."""

    def __init__(self, count):
        self.finished = {}
        self.count = count
        self.asked = []

    async def list_finished(self, _batch_no, *, after, numbers, limit):
        to = max(after, min(self.count, after + limit))
        asked = [*range(after + 1, to + 1), *numbers]
        self.asked.append(len(asked))
        files = [[("out", one)] if (one := self.finished.get(no)) else [] for no in asked]
        return [
            FinishedInput(no, f"{no}", no in self.finished, some)
            for no, some in zip(asked, files, strict=True)
        ], to


@pytest.fixture
async def blobs():
    store = MemoryBlobs()
    await store.put(made("a").key, b"x")
    return store


def layout_of(inputs, blobs, out, counted=None):
    progress = (counted if counted is not None else []).append
    return Layout(1, out, intake=inputs, blobs=blobs, clock=FakeClock(), progress=progress)


async def test_what_has_finished_is_laid_out_once(tmp_path, blobs):
    inputs, counted = Inputs(3), []
    layout = layout_of(inputs, blobs, tmp_path, counted)
    assert await layout.look() == 0
    inputs.finished[2] = made("sub/two.txt")
    assert await layout.look() == 1
    assert await layout.look() == 0
    assert (tmp_path / "sub" / "two.txt").read_bytes() == b"x"
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["two.txt"]
    record = InputRecord(
        path="2", outcome=FileOutcome.DONE, size=1, no=2, made=[("out", made("sub/two.txt"))]
    )
    assert layout.has(record)
    changed = InputRecord(path="2", outcome=FileOutcome.DONE, size=1, no=2, made=[("out", made("other"))])
    assert not layout.has(changed)
    assert sum(counted) == 1


async def test_a_look_does_not_grow_with_the_batch(tmp_path, blobs, monkeypatch):
    monkeypatch.setattr(module, "WINDOW", 20)
    monkeypatch.setattr(module, "FIRST_WINDOW", 20)
    monkeypatch.setattr(module, "WAITING", 40)
    inputs = Inputs(10_000)
    layout = layout_of(inputs, blobs, tmp_path)
    for _ in range(10):
        await layout.look()
    assert max(inputs.asked) <= 60
    inputs.finished = dict.fromkeys(range(1, 41))
    for _ in range(3):
        await layout.look()
    assert max(inputs.asked) <= 60


async def test_the_first_result_does_not_wait_for_the_next_look(tmp_path, blobs, monkeypatch):
    monkeypatch.setattr(module, "SHORTEST_PAUSE_SECONDS", 3600.0)
    monkeypatch.setattr(module, "LONGEST_PAUSE_SECONDS", 3600.0)
    inputs, laid_out = Inputs(3), asyncio.Event()
    layout = Layout(
        1, tmp_path, intake=inputs, blobs=blobs, clock=FakeClock(), progress=lambda _: laid_out.set()
    )
    running = asyncio.create_task(layout.run())
    while not inputs.asked:
        await asyncio.sleep(0)
    inputs.finished[2] = made("two.txt")
    layout.hurry()
    await asyncio.wait_for(laid_out.wait(), 20)
    looks = len(inputs.asked)
    layout.hurry()
    layout.finish()
    await asyncio.wait_for(running, 20)
    assert (tmp_path / "two.txt").exists()
    assert len(inputs.asked) == looks


async def test_nothing_is_begun_when_it_is_over(tmp_path, blobs):
    inputs = Inputs(3)
    inputs.finished = {no: made(f"{no}.txt") for no in (1, 2, 3)}
    layout = layout_of(inputs, blobs, tmp_path)
    layout.finish()
    await layout.look()
    await layout.run()
    assert list(tmp_path.iterdir()) == []


async def test_a_file_that_cannot_be_written_is_told_and_leaves_nothing(tmp_path, blobs):
    (tmp_path / "sub").write_text("a file where a folder should be")
    with pytest.raises(Misconfigured, match="cannot write"):
        await place_files([made("sub/a.txt")], tmp_path, blobs)
    assert [path.name for path in tmp_path.iterdir()] == ["sub"]


async def test_only_the_very_same_file_is_removed(tmp_path, blobs):
    await place_files([made("sub/a.txt"), made("sub/b.txt")], tmp_path, blobs)
    (tmp_path / "sub" / "b.txt").write_text("of somebody else")
    assert remove_file(made("sub/a.txt"), tmp_path)
    assert not remove_file(made("sub/b.txt"), tmp_path)
    assert not remove_file(made("sub/c.txt"), tmp_path)
    assert [path.name for path in (tmp_path / "sub").iterdir()] == ["b.txt"]
    (tmp_path / "sub" / "b.txt").write_bytes(b"x")
    assert remove_file(made("sub/b.txt"), tmp_path)
    assert list(tmp_path.iterdir()) == []
