"""Results beside their PDFs: whole, after their pictures, never over what is there unless asked."""

import asyncio
from pathlib import Path

import pytest
from tests.situations.bucket_folder import archive, hash_of

from quire.blobs.objects import BlobObjects
from quire.library.context import LibraryContext
from quire.library.hydration import LISTED_FROM, HydrationOutcome, HydrationSource, hydrate
from quire.library.protocol import layout
from quire.model.errors import Retry
from quire.testing.memory_blobs import MemoryBlobs
from quire.testing.time import CountingIds, FakeClock

A, B = hash_of("A"), hash_of("B")
BOOK = {"content.md": "![p](assets/p 1.png)", "assets/p 1.png": "png", "assets/deep/x": "x"}


class Counting(BlobObjects):
    def __init__(self, blobs, ids):
        super().__init__(blobs, ids)
        self.looks = self.listings = 0

    async def head(self, key):
        self.looks += 1
        return await super().head(key)

    async def pages(self, folder, *, after=""):
        self.listings += 1
        async for page in super().pages(folder, after=after):
            yield page


@pytest.fixture
def context():
    blobs, ids = MemoryBlobs(), CountingIds()
    return LibraryContext(objects=Counting(blobs, ids), blobs=blobs, clock=FakeClock(), ids=ids)


async def each(wanted):
    for one in wanted:
        yield one


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


async def test_text_and_pictures_come_to_lie_beside_the_pdf(context, tmp_path):
    await context.blobs.put(layout.out(A), archive(BOOK))
    told = []
    tally = await hydrate(context, each([HydrationSource(tmp_path / "My Book.pdf", A)]), on_each=told.append)
    assert tally.outcomes == {HydrationOutcome.WRITTEN: 1}
    assert told[0].assets == 2
    assert files(tmp_path) == ["My Book.assets/deep/x", "My Book.assets/p 1.png", "My Book.md"]
    assert (tmp_path / "My Book.md").read_text() == "![p](My%20Book.assets/p 1.png)"


async def test_what_is_there_stays_unless_it_is_asked_for(context, tmp_path):
    await context.blobs.put(layout.out(A), archive(BOOK))
    (tmp_path / "x.md").write_text("mine")
    (tmp_path / "x.assets").mkdir()
    (tmp_path / "x.assets/p 1.png").write_text("mine")
    want = [HydrationSource(tmp_path / "x.pdf", A)]
    assert (await hydrate(context, each(want))).outcomes == {HydrationOutcome.KEPT: 1}
    assert (tmp_path / "x.md").read_text() == "mine"
    (tmp_path / "x.md").unlink()
    assert (await hydrate(context, each(want))).outcomes == {HydrationOutcome.WRITTEN: 1}
    assert (tmp_path / "x.assets/p 1.png").read_text() == "mine"
    assert (await hydrate(context, each(want), force=True)).outcomes == {HydrationOutcome.WRITTEN: 1}
    assert (tmp_path / "x.assets/p 1.png").read_text() == "png"


async def test_a_missing_result_is_no_error_and_a_broken_one_stops_nobody(context, tmp_path):
    await context.blobs.put(layout.out(B), b"no zip")
    await context.blobs.put(layout.out(A), archive(BOOK))
    want = [HydrationSource(tmp_path / f"{n}.pdf", job) for n, job in enumerate([hash_of("none"), B, A])]
    told = []
    tally = await hydrate(context, each(want), on_each=told.append)
    assert tally.outcomes == {
        HydrationOutcome.MISSING: 1,
        HydrationOutcome.FAILED: 1,
        HydrationOutcome.WRITTEN: 1,
    }
    assert "Convert the document again" in next(
        one.error for one in told if one.outcome is HydrationOutcome.FAILED
    )
    assert [name for name in files(tmp_path) if name.endswith(".md")] == ["2.md"]


async def test_a_dry_run_writes_nothing(context, tmp_path):
    await context.blobs.put(layout.out(A), archive(BOOK))
    tally = await hydrate(context, each([HydrationSource(tmp_path / "x.pdf", A)]), dry_run=True)
    assert (tally.outcomes, files(tmp_path)) == ({HydrationOutcome.WRITTEN: 1}, [])


async def test_a_link_in_the_collection_leads_nothing_elsewhere(context, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    books = tmp_path / "books"
    books.mkdir()
    (books / "x.assets").symlink_to(elsewhere)
    await context.blobs.put(layout.out(A), archive(BOOK))
    told = []
    await hydrate(context, each([HydrationSource(books / "x.pdf", A)]), force=True, on_each=told.append)
    assert (told[0].outcome, "link" in told[0].error) == (HydrationOutcome.FAILED, True)
    assert list(elsewhere.iterdir()) == []


async def test_few_are_asked_for_and_many_are_listed_once(context, tmp_path):
    few = [HydrationSource(tmp_path / f"{n}.pdf", hash_of(str(n))) for n in range(5)]
    await hydrate(context, each(few))
    assert (context.objects.looks, context.objects.listings) == (5, 0)
    many = [HydrationSource(tmp_path / f"{n}.pdf", hash_of(str(n))) for n in range(2 * LISTED_FROM + 7)]
    await context.blobs.put(layout.out(hash_of("3")), archive(BOOK))
    tally = await hydrate(context, each(many))
    assert tally.outcomes == {HydrationOutcome.MISSING: 2 * LISTED_FROM + 6, HydrationOutcome.WRITTEN: 1}
    assert (context.objects.looks, context.objects.listings) == (5, 1)


@pytest.mark.parametrize("fault", [Retry("away"), OSError(28, "No space left"), asyncio.CancelledError()])
async def test_nothing_half_is_left_when_it_breaks_off(context, tmp_path, monkeypatch, fault):
    await context.blobs.put(layout.out(A), archive(BOOK))

    def broken(self, target):
        raise fault

    monkeypatch.setattr(Path, "replace", broken)
    try:
        tally = await hydrate(context, each([HydrationSource(tmp_path / "x.pdf", A)]))
    except asyncio.CancelledError:
        pass
    else:
        assert tally.outcomes == {HydrationOutcome.FAILED: 1}
    assert [name for name in files(tmp_path) if not name.startswith("x.assets")] == []
    assert not (tmp_path / "x.md").exists()
