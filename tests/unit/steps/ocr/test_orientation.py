"""Angles of pictures made for it; whole pages: tests/documents/test_ocr_reading.py."""

import pytest
from tests.situations.texts import picture_of

from quire.model.errors import Reject
from quire.steps.ocr.orientation import OrientationGuide, find_tilt
from quire.steps.ocr.reader import PictureReader, ReadingOptions
from quire.tools import bitmaps
from quire.tools.pdfium import PageBitmap

LINES = "\n".join(["Straight lines of text leave empty rows"] * 8)


@pytest.fixture(scope="module")
def reader():
    with PictureReader(ReadingOptions(tiers=("tesseract",))) as opened:
        yield opened


def _bitmap(picture):
    return PageBitmap(memoryview(picture.tobytes()), picture.width, picture.height, 1)


@pytest.mark.parametrize("degrees", [-9, -3, 0, 2, 12])
def test_the_tilt_is_the_angle_that_makes_the_lines_level(degrees):
    page = _bitmap(picture_of(LINES))
    tilted = bitmaps.straighten(page, degrees) if degrees else page
    assert abs(find_tilt(tilted) + degrees) <= 0.5


def test_a_picture_without_lines_has_none():
    assert find_tilt(PageBitmap(memoryview(b"\xff" * 90_000), 300, 300, 1)) == 0


@pytest.mark.parametrize("size", [(1, 1), (2, 9), (1, 60), (64, 3), (70, 70)])
@pytest.mark.parametrize("bands", [1, 3])
def test_pictures_of_any_shape_are_read_without_an_error(reader, size, bands):
    width, height = size
    data = memoryview((bytes(range(0, 250, 7)) * 500)[: width * height * bands])
    found = reader.read_bitmap(PageBitmap(data, width, height, bands), 0)
    assert {found.width, found.height} == {width, height}


def test_a_side_that_tesseract_cannot_count_is_refused(reader):
    thin = PageBitmap(memoryview(b"\xff" * 40_000), 40_000, 1, 1)
    with pytest.raises(Reject) as refusal:
        reader.read_bitmap(thin, 0)
    assert refusal.value.code == "ocr_engine_error"
    assert OrientationGuide("").find_rotation(thin, 0, None) == 0
