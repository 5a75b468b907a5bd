"""How a picture becomes a page of a PDF: which bytes are stored, how large the page is, how it is turned.

A JPEG is stored as it is; black and white becomes CCITT group 4; other pictures are stored without loss,
unless their source had lost something already or a quality is asked for. What is seen is upright, by the
picture's own tags and by the turn that the text needed. Promise: the pixel limit is checked before a pixel is
decoded; the same picture gives the same bytes.
"""

from pathlib import Path
from typing import NamedTuple

from quire.model.errors import Reject
from quire.steps import image_input
from quire.steps.ocr.pictures import decode_picture
from quire.tools import pillow, sniff, tiff, vips
from quire.tools.pdf_text import PagePicture
from quire.tools.pillow import JpegHead, Pixels
from quire.tools.refusals import PixelLimits

POINTS_PER_INCH = 72
_LOSSY_QUALITY = 95  # for pictures that were compressed with loss before
_LOSSY_TIFF = frozenset({6, 7, 34712, 50001})  # old and new JPEG, JPEG 2000, WebP
_PAPER_INCHES = 11.69  # the longer side of a page whose picture does not say how large it is: A4
_LOWEST_DPI, _HIGHEST_DPI = 73, 2400  # 72 is what programs write that do not know
_LONGEST_SIDE = 14_400  # points: what a page may have
_SHORTEST_SIDE = 3
# By orientation: where the unit square goes, as a matrix with the width and the height of the upright page.
_TURNS = {
    1: (1, 0, 0, 1, 0, 0),
    2: (-1, 0, 0, 1, 1, 0),
    3: (-1, 0, 0, -1, 1, 1),
    4: (1, 0, 0, -1, 0, 1),
    5: (0, -1, -1, 0, 1, 1),
    6: (0, -1, 1, 0, 0, 1),
    7: (0, 1, 1, 0, 0, 0),
    8: (0, 1, -1, 0, 1, 0),
}
_TURNED_BY = {0: 1, 90: 6, 180: 3, 270: 8}  # degrees clockwise, as an orientation


class PicturePage(NamedTuple):
    """`width` and `height` in points."""

    picture: PagePicture
    width: float
    height: float


def build_picture_page(
    source: Path, page: int, *, rotation: int, max_pixels: int, quality: int, archival: bool, known: bool
) -> PicturePage:
    """One page of a picture file; pages are counted from 0. `rotation`: by how many degrees clockwise it is
    turned beyond what its tags say. `quality` 0: without loss. `archival`: no colours that are a
    device's own. `known`: it has been decoded before, so that it is whole. Raises Reject when it is not.
    """
    limits = PixelLimits(max_pixels=max_pixels, max_total_pixels=max_pixels)
    with source.open("rb") as stream:
        kind = sniff.signature(stream.read(sniff.HEAD_BYTES)) or ""
    if kind == "image/jpeg":
        head = pillow.read_jpeg_head(source, limits)
        if not known:
            vips.verify(source, kind)
        if head is not None and not (archival and head.components == 4 and not head.profile):
            return _keep_jpeg(source, head, rotation)
    return _store_pixels(source, kind, page, rotation, max_pixels, quality)


def _keep_jpeg(source: Path, head: JpegHead, rotation: int) -> PicturePage:
    picture = PagePicture(
        "jpeg",
        source.read_bytes(),
        head.width,
        head.height,
        head.components,
        inverted=head.inverted and head.components == 4,
        profile=_check_profile(head.profile, head.components),
    )
    sideways = head.orientation >= 5
    dpi = (round(head.across_dpi), round(head.down_dpi))
    size = (head.height, head.width) if sideways else (head.width, head.height)
    return _place(picture, size, dpi[::-1] if sideways else dpi, head.orientation, rotation)


def _store_pixels(
    source: Path, kind: str, page: int, rotation: int, max_pixels: int, quality: int
) -> PicturePage:
    decoded = decode_picture(source, page=page, max_pixels=max_pixels)
    bitmap = decoded.bitmap
    plain = vips.from_pixels(*bitmap)
    if vips.is_black_and_white(plain):
        data = pillow.encode_fax(Pixels(bytes(bitmap.data), bitmap.width, bitmap.height, 1))
        picture = PagePicture("fax", data, bitmap.width, bitmap.height, 1)
    else:
        chosen = quality or (_LOSSY_QUALITY if _is_lossy(source, kind, page) else 0)
        data = vips.to_jpeg(plain, chosen) if chosen else vips.to_png(plain)
        picture = PagePicture("jpeg" if chosen else "png", data, bitmap.width, bitmap.height, bitmap.bands)
    dpi = _read_dpi(source, kind, page, (bitmap.width, bitmap.height))
    return _place(picture, (bitmap.width, bitmap.height), dpi, 1, rotation)


def _is_lossy(source: Path, kind: str, page: int) -> bool:
    if kind == "image/tiff":
        return tiff.known_pages(source)[page].parts.compression in _LOSSY_TIFF
    return kind in {"image/webp", "image/jpeg"}


def _read_dpi(source: Path, kind: str, page: int, upright: tuple[int, int]) -> tuple[int, int]:
    """Across and down, of the upright picture."""
    try:
        if kind != "image/tiff":
            image_input.content_type(source, "a picture")
            return vips.read_resolution(source, kind)
        stored = tiff.known_pages(source)[page]
        dpi = vips.read_resolution(source, kind, stored)
    except Reject:
        return (0, 0)  # of a kind that the first decoder does not know
    sideways = (stored.width, stored.height) != upright
    return dpi[::-1] if sideways else dpi


def _check_profile(profile: bytes, components: int) -> bytes:
    """A profile of the right number of colours; none otherwise."""
    colours = {b"GRAY": 1, b"RGB ": 3, b"CMYK": 4}.get(profile[16:20], 0)
    return profile if len(profile) > 128 and profile[36:40] == b"acsp" and colours == components else b""


def _place(
    picture: PagePicture, size: tuple[int, int], dpi: tuple[int, int], orientation: int, rotation: int
) -> PicturePage:
    """`size` in pixels and `dpi` are those of the picture as its own tags turn it."""
    across, down = _choose_dpi(size, dpi)
    width, height = size[0] / across * POINTS_PER_INCH, size[1] / down * POINTS_PER_INCH
    scale = min(1.0, _LONGEST_SIDE / max(width, height))
    width, height = max(width * scale, _SHORTEST_SIDE), max(height * scale, _SHORTEST_SIDE)
    if rotation % 180:
        width, height = height, width
    a, b, c, d, e, f = _multiply(_TURNS[orientation], _TURNS[_TURNED_BY[rotation % 360]])
    placed = (a * width, b * height, c * width, d * height, e * width, f * height)
    return PicturePage(picture._replace(placed=placed), width, height)


def _choose_dpi(size: tuple[int, int], dpi: tuple[int, int]) -> tuple[float, float]:
    """What the file says, where it can be meant; otherwise what makes the picture as long as a sheet."""
    if all(_LOWEST_DPI <= one <= _HIGHEST_DPI for one in dpi) and max(dpi) <= 4 * min(dpi):
        return float(dpi[0]), float(dpi[1])
    guess = max(max(size) / _PAPER_INCHES, float(POINTS_PER_INCH))
    return guess, guess


def _multiply(first: tuple[int, ...], then: tuple[int, ...]) -> tuple[int, ...]:
    """Matrices of the unit square, one after the other."""
    a, b, c, d, e, f = first
    g, h, i, j, k, m = then
    return (
        *(a * g + b * i, a * h + b * j, c * g + d * i, c * h + d * j),
        *(e * g + f * i + k, e * h + f * j + m),
    )
