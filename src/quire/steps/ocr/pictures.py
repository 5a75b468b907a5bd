"""From a picture file to the pixels that engines read: upright by its own tags, plain, eight bits.

Promises: a file that is no picture, or of a kind that nothing here decodes, is refused as
`unsupported_media`; the pixel limit is checked before a pixel is decoded; half a picture is an error.
"""

from pathlib import Path
from typing import NamedTuple

from quire.model.errors import Reject
from quire.steps import image_input
from quire.tools import pillow, refusals, sniff, tiff, vips
from quire.tools.pdfium import PageBitmap
from quire.tools.refusals import PixelLimits, Unsupported

_BY_PILLOW = frozenset({"image/gif", "image/bmp"})
_UNSUPPORTED_CODES = frozenset({"not_an_image", "unsupported_format", "empty_file"})


class DecodedPicture(NamedTuple):
    """`dpi` is what the file says; 0 where it says nothing."""

    bitmap: PageBitmap
    dpi: int


def decode_picture(path: Path, *, page: int, max_pixels: int) -> DecodedPicture:
    """One page of a picture file; pages are counted from 0. Raises Reject."""
    limits = PixelLimits(max_pixels=max_pixels, max_total_pixels=max_pixels)
    try:
        kind = _content_type(path)
        if kind in _BY_PILLOW:
            _check_page(page, 1)
            return DecodedPicture(_by_pillow(path, kind, None, limits), 0)
        chosen = _choose_page(path, kind, page, limits)
        try:
            with vips.decoded(path, kind, chosen) as picture:
                return DecodedPicture(vips.to_bitmap(picture), vips.read_dpi(picture))
        except Unsupported:
            return DecodedPicture(_by_pillow(path, kind, chosen, limits), 0)
    except Reject as error:
        if error.code in _UNSUPPORTED_CODES:
            raise Reject(str(error), code="unsupported_media") from error
        raise


def _content_type(path: Path) -> str:
    with path.open("rb") as stream:
        found = sniff.signature(stream.read(sniff.HEAD_BYTES))
    if found in _BY_PILLOW and found is not None:
        return found
    return image_input.content_type(path, "a picture")


def _choose_page(path: Path, kind: str, page: int, limits: PixelLimits) -> tiff.TiffPage | None:
    if kind != "image/tiff":
        _check_page(page, 1)
        known = vips.header(path, kind)
        refusals.check_pixels([(known.width, known.height)], limits)
        return None
    found = tiff.known_pages(path)
    _check_page(page, len(found))
    chosen = found[page]
    refusals.check_pixels([(chosen.width, chosen.height)], limits)
    tiff.check_complete(path, [chosen])
    return chosen


def _check_page(page: int, pages: int) -> None:
    if not 0 <= page < pages:
        raise Reject(f"there is no page {page + 1}: the picture has {pages}", code="no_such_page")


def _by_pillow(path: Path, kind: str, page: tiff.TiffPage | None, limits: PixelLimits) -> PageBitmap:
    pixels = pillow.decode(path, kind, page, limits)
    return PageBitmap(memoryview(pixels.data), pixels.width, pixels.height, pixels.bands)
