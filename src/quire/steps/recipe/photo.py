"""Makes a photo ready to be read: upright, no larger than readers need, with sides that fit their grid.

Promises: limits are checked before a pixel is decoded; half a picture is an error; the result is a JPEG
without metadata.
"""

import math
from pathlib import Path

from quire.steps import image_input
from quire.tools import pillow, refusals, sniff, vips
from quire.tools.refusals import PixelLimits

GRID = 28
MAX_PIXELS = 1280 * GRID * GRID
QUALITY = 90
MAX_DECODED_PIXELS = 100_000_000
_BY_PILLOW = frozenset({"image/gif", "image/bmp"})


def prepare_photo(source: Path, target: Path, *, max_decoded: int = MAX_DECODED_PIXELS) -> tuple[int, int]:
    """Write the JPEG; its width and height. Raises Reject with the codes of `tools.refusals`."""
    limits = PixelLimits(max_pixels=max_decoded, max_total_pixels=max_decoded)
    with source.open("rb") as stream:
        kind = sniff.signature(stream.read(sniff.HEAD_BYTES))
    if kind in _BY_PILLOW and kind is not None:
        return _write(vips.from_pixels(*pillow.decode(source, kind, None, limits)), target)
    kind = image_input.content_type(source, "a picture")
    page = image_input.pages(source, kind, limits, all_pages=False)[0]
    try:
        with vips.decoded(source, kind, page) as picture:
            return _write(picture, target)
    except refusals.Unsupported as first:
        return _write(image_input.second_opinion(source, kind, page, limits, first), target)


def fit_grid(width: int, height: int) -> tuple[int, int]:
    """The nearest size with sides on the grid and no more pixels than allowed."""
    fitted = max(GRID, round(width / GRID) * GRID), max(GRID, round(height / GRID) * GRID)
    if fitted[0] * fitted[1] <= MAX_PIXELS:
        return fitted
    shrink = math.sqrt(width * height / MAX_PIXELS)
    wide = max(GRID, int(width / shrink / GRID) * GRID)
    high = max(GRID, int(height / shrink / GRID) * GRID)
    # A strip: its short side was rounded up to the grid.
    if wide * high <= MAX_PIXELS:
        return wide, high
    if wide < high:
        return wide, MAX_PIXELS // wide // GRID * GRID
    return MAX_PIXELS // high // GRID * GRID, high


def _write(picture: vips.VipsImage, target: Path) -> tuple[int, int]:
    width, height = fit_grid(picture.width, picture.height)
    vips.save_jpeg(vips.resized(picture, width, height), target, QUALITY)
    return width, height
