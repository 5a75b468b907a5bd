"""Whether a TIFF in the store has several pages, told by a few small reads whatever it says of itself."""

import io
import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from quire.batches.remote import page_count
from quire.batches.remote.page_count import BLOCK_BYTES, count_pages, has_several_pages
from quire.model.errors import Missing, Reject
from quire.testing.memory_blobs import MemoryBlobs
from quire.tools import tiff


class Counted(MemoryBlobs):
    """Remembers what was read."""

    def __init__(self):
        super().__init__()
        self.read = []

    def stream(self, key, *, start=0, stop=None):
        self.read.append((start, stop))
        return super().stream(key, start=start, stop=stop)


def made(pages, **options):
    out = io.BytesIO()
    sheets = [Image.linear_gradient("L").resize((400, 300)) for _ in range(pages)]
    sheets[0].save(out, "TIFF", save_all=True, append_images=sheets[1:], **options)
    return out.getvalue()


def chained(kinds, *, gap=0, next_of_last=0):
    """A TIFF of directories that say nothing but what kind of picture they are of."""
    data = bytearray(struct.pack("<2sHI", b"II", 42, 8))
    for number, kind in enumerate(kinds):
        data += struct.pack("<H", 1) + struct.pack("<HHII", 254, 4, 1, kind)
        last = number == len(kinds) - 1
        data += struct.pack("<I", next_of_last if last else len(data) + 4 + gap)
        data += bytes(0 if last else gap)
    return bytes(data)


async def asked(data):
    blobs = Counted()
    await blobs.put("k", data)
    return await has_several_pages(blobs, "k"), blobs.read


@pytest.mark.parametrize("options", [{}, {"big_tiff": True}, {"compression": "tiff_lzw"}])
@pytest.mark.parametrize("pages", [1, 2, 3])
async def test_pages_are_counted_up_to_two(pages, options):
    found, _ = await asked(made(pages, **options))
    assert found is (pages > 1)


@pytest.mark.parametrize(("most", "found"), [(1, 1), (4, 4), (100, 7)])
async def test_pages_are_counted_as_far_as_is_asked(most, found):
    blobs = MemoryBlobs()
    await blobs.put("k", made(7))
    assert await count_pages(blobs, "k", most=most) == found


async def test_overviews_and_masks_are_no_pages():
    assert (await asked(chained([0, 1, 4, 1])))[0] is False
    assert (await asked(chained([0, 1, 0])))[0] is True
    assert (await asked(chained([1, 1])))[0] is False


@pytest.mark.parametrize(
    "data", [b"", b"plain words", b"\xff\xd8\xff a JPEG called scan.tif", b"II*\0 and no more"]
)
async def test_what_shows_no_page_has_not_several(data):
    assert (await asked(data))[0] is False


async def test_what_is_cut_off_after_a_page_is_refused():
    with pytest.raises(Reject) as caught:
        await asked(chained([0], next_of_last=5000))
    assert caught.value.code == "truncated"
    with pytest.raises(Reject) as caught:
        await asked(chained([0], next_of_last=8))
    assert caught.value.code == "corrupt"


async def test_little_is_read_of_a_large_file():
    page, again = made(1), chained([0, 0], gap=30_000_000)
    _, read = await asked(page + bytes(10_000_000))
    assert sum(min(stop, len(page) + 10_000_000) - start for start, stop in read) <= 3 * BLOCK_BYTES
    found, read = await asked(again)
    assert found
    assert sum(stop - start for start, stop in read) <= 4 * BLOCK_BYTES


async def test_values_outside_of_a_directory_are_never_read():
    """A directory may claim that its kind is a list as long as the file."""
    data = bytearray(chained([0, 0]))
    struct.pack_into("<I", data, 8 + 2 + 4, 2**31)
    assert (await asked(bytes(data)))[0] is True


async def test_directories_that_lie_far_apart_are_not_followed_for_ever(monkeypatch):
    monkeypatch.setattr(page_count, "MAX_READS", 5)
    with pytest.raises(Reject) as caught:
        await asked(chained([1] * 9, gap=BLOCK_BYTES))
    assert caught.value.code == "many_pages"


async def test_a_file_that_is_not_there_is_missing():
    with pytest.raises(Missing):
        await has_several_pages(MemoryBlobs(), "none")


@given(st.lists(st.sampled_from([0, 1, 2, 4]), min_size=1, max_size=6), st.integers(0, 200))
def test_the_glance_says_what_the_reader_of_the_step_says(kinds, cut):
    data = chained(kinds)
    data = data[: max(0, len(data) - cut)]

    def glance():
        return tiff.count_pages(io.BytesIO(data), len(data), most=2) > 1

    try:
        found = glance()
    except Reject:
        found = None
    whole = cut == 0
    wanted = sum(not kind & 0b101 for kind in kinds) > 1
    assert not whole or found is wanted
    assert found in {None, False} or wanted  # never more pages than there are


@given(st.binary(max_size=300))
def test_any_bytes_are_judged_or_refused(tail):
    data = b"II*\0" + tail
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x")
        path.write_bytes(data)
        try:
            several = tiff.count_pages(io.BytesIO(data), len(data), most=2) > 1
        except Reject:
            return
        try:
            pages = len(tiff.pages(path))
        except Reject:
            return
        assert several == (pages > 1)
