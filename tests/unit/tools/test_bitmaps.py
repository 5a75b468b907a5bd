import pytest

from quire.tools import bitmaps
from quire.tools.pdfium import PageBitmap

GREY = PageBitmap(memoryview(bytes(range(6))), 3, 2, 1)


@pytest.mark.parametrize(
    ("degrees", "size", "pixels"),
    [
        (0, (3, 2), [0, 1, 2, 3, 4, 5]),
        (90, (2, 3), [3, 0, 4, 1, 5, 2]),
        (180, (3, 2), [5, 4, 3, 2, 1, 0]),
        (270, (2, 3), [2, 5, 1, 4, 0, 3]),
        (-90, (2, 3), [2, 5, 1, 4, 0, 3]),
    ],
)
def test_turned_clockwise(degrees, size, pixels):
    turned = bitmaps.turn(GREY, degrees)
    assert (turned.width, turned.height, list(turned.data)) == (*size, pixels)


def test_made_smaller_but_never_larger():
    grey = PageBitmap(memoryview(b"\x40" * 100 * 60), 100, 60, 1)
    small = bitmaps.shrink(grey, 2)
    assert (small.width, small.height, set(small.data)) == (50, 30, {0x40})
    assert bitmaps.shrink(grey, 0.5) is grey


def test_a_thin_picture_does_not_shrink_to_nothing():
    thin = bitmaps.shrink(PageBitmap(memoryview(b"\x40" * 5000), 5000, 1, 1), 10)
    assert (thin.width, thin.height) == (500, 1)


def test_made_level_on_white_without_losing_a_corner():
    colours = PageBitmap(memoryview(b"\x00" * 300 * 100), 100, 100, 3)
    level = bitmaps.straighten(colours, 10)
    assert (level.bands, level.width > 110, level.data[0]) == (3, True, 255)
    assert bytes(level.data).count(b"\0") >= 300 * 100 * 0.97
