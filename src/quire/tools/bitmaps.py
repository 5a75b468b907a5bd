"""Pixels in memory: turned, made smaller, straightened, written as a JPEG. By way of libvips.

Promises: nothing is written to a disk; the number of bands stays. Must not know: what is seen in
them.
"""

from typing import Any

from quire.tools import vips
from quire.tools.pdfium import PageBitmap


def turn(bitmap: PageBitmap, degrees: int) -> PageBitmap:
    """Clockwise; `degrees` is a multiple of 90."""
    quarters = degrees // 90 % 4
    if not quarters:
        return bitmap
    picture: Any = vips.from_pixels(*bitmap)
    return vips.to_bitmap((picture.rot90, picture.rot180, picture.rot270)[quarters - 1]())


def turned_size(bitmap: PageBitmap, degrees: int) -> tuple[int, int]:
    return (bitmap.height, bitmap.width) if degrees % 180 else (bitmap.width, bitmap.height)


def shrink(bitmap: PageBitmap, factor: float) -> PageBitmap:
    """Smaller by the factor (2: half as wide), with a filter that keeps thin strokes."""
    if factor <= 1:
        return bitmap
    picture: Any = vips.from_pixels(*bitmap)
    return vips.to_bitmap(picture.resize(1 / factor, kernel="lanczos3"))


def straighten(bitmap: PageBitmap, degrees: float) -> PageBitmap:
    """Turned clockwise about its middle by a small angle, on white; larger, so that no corner is lost."""
    picture: Any = vips.from_pixels(*bitmap)
    return vips.to_bitmap(picture.rotate(degrees, background=[255] * bitmap.bands))


def to_jpeg(bitmap: PageBitmap, *, longest_side: int, quality: int) -> bytes:
    """As a JPEG, made smaller where a side is longer."""
    smaller = shrink(bitmap, max(bitmap.width, bitmap.height) / longest_side)
    picture: Any = vips.from_pixels(*smaller)
    data: bytes = picture.jpegsave_buffer(Q=quality, keep="none")
    return data
