"""A searchable PDF of a document: what it shows, with the text that was read where it stands, unseen.

Runs in a worker process. Pictures become pages; of a PDF, the pages that were read get a layer, and nothing
else is changed. Promises: doubtful text is in no layer, but the picture stays; a signed PDF is copied as it
is, since every change would break the signature; the same input gives the same bytes.
"""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from quire.model.errors import Reject
from quire.model.page_text import PageText
from quire.steps.ocr.glyphless import ADVANCE, ASCENT, DESCENT, TALL, Glyphs, build_font
from quire.steps.ocr.page_pictures import build_picture_page
from quire.steps.ocr.read_pages import DocumentKind, ReadPage
from quire.steps.ocr.text_layer import Matrix, write_text_layer
from quire.tools import refusals
from quire.tools.pdf_text import PageFrame, TextFont
from quire.tools.qpdf import PdfFile, PictureBook

_EMPTY_PAGE = (595.0, 842.0)  # A4, for a picture that cannot be shown
_BELOW = 2  # decimals of points

Report = Callable[[int], None]


class PdfOptions(Struct, frozen=True, kw_only=True):
    """`archival`: as PDF/A-2b. `quality`: of JPEGs, for pictures that lose nothing otherwise (0)."""

    archival: bool = False
    quality: int = 0
    max_pixels: int = 100 * refusals.MEGAPIXEL


def write_searchable_pdf(
    source: Path,
    kind: DocumentKind,
    pages: Sequence[ReadPage],
    target: Path,
    options: PdfOptions,
    report: Report,
) -> tuple[str, ...] | None:
    """What should be known of the result, in words; None: no page can be decoded, and there is no result.
    Raises Reject `not_pdfa`. `report` is told how many pages are done.
    """
    if kind == "pdf":
        return _write_layers(source, pages, target, options, report)
    glyphs = Glyphs()
    book = PictureBook(target.parent)
    lost = []
    for read in pages:
        turned = read.page.rotation if read.kind == "read" else 0
        try:
            shown = build_picture_page(
                source,
                read.number - 1,
                rotation=turned,
                max_pixels=options.max_pixels,
                quality=options.quality,
                archival=options.archival,
                known=read.page.width > 0,
            )
        except Reject:
            # Said of the page already, when it was to be read.
            lost.append(read.number)
            book.add(None, _EMPTY_PAGE, b"")
        else:
            size = (round(shown.width, _BELOW), round(shown.height, _BELOW))
            book.add(shown.picture, size, _layer_of_picture(read, size, glyphs))
        report(read.number)
    if len(lost) == len(pages):
        return None
    book.write(target, _build_font(glyphs), archival=options.archival)
    return tuple(f"page {number} is empty: its picture cannot be decoded" for number in lost)


def _layer_of_picture(read: ReadPage, size: tuple[float, float], glyphs: Glyphs) -> bytes:
    page = read.page
    if read.kind != "read" or not page.width or not page.height:
        return b""
    width, height = size
    matrix = Matrix.from_corners((0, height), (width, height), (0, 0), width=page.width, height=page.height)
    return write_text_layer(page, matrix, glyphs)


def _write_layers(
    source: Path, pages: Sequence[ReadPage], target: Path, options: PdfOptions, report: Report
) -> tuple[str, ...]:
    glyphs = Glyphs()
    with PdfFile(source) as document:
        if document.signed and not options.archival:
            shutil.copyfile(source, target)
            return (
                "the PDF is signed, so it was copied as it is: a layer of text would break the signature",
            )
        layers: dict[int, bytes] = {}
        for read in pages:
            if read.kind == "read" and not read.had_text and read.page.width and read.page.height:
                matrix = _matrix_of(document.frame(read.number), read.page)
                if layer := write_text_layer(read.page, matrix, glyphs):
                    layers[read.number] = layer
            report(read.number)
        if not layers and not options.archival and not document.damage:
            shutil.copyfile(source, target)
            return ()
        said = ["the protection against changes is not in the result"] if document.locked else []
        document.write_with_layers(target, layers, _build_font(glyphs), archival=options.archival)
    return tuple(said)


def _matrix_of(frame: PageFrame, page: PageText) -> Matrix:
    """From the upright picture to the page, which is shown turned by its own tag, and may have been turned
    further for the text to be upright.
    """
    corners = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))
    places = [_to_page(frame, *_to_shown(page.rotation, x, y)) for x, y in corners]
    return Matrix.from_corners(*places, width=page.width, height=page.height)


def _to_shown(rotation: int, x: float, y: float) -> tuple[float, float]:
    """From shares of the upright picture to shares of the page as it is shown, both from the top left."""
    return {0: (x, y), 90: (y, 1 - x), 180: (1 - x, 1 - y), 270: (1 - y, x)}[rotation % 360]


def _to_page(frame: PageFrame, x: float, y: float) -> tuple[float, float]:
    """From shares of the shown page to its coordinates, which begin at the bottom left and are not turned."""
    across, up = {0: (x, 1 - y), 90: (y, x), 180: (1 - x, y), 270: (1 - y, 1 - x)}[frame.rotation]
    return frame.left + across * (frame.right - frame.left), frame.bottom + up * (frame.top - frame.bottom)


def _build_font(glyphs: Glyphs) -> TextFont:
    return TextFont(build_font(), glyphs.to_unicode(), glyphs.to_glyphs(), ADVANCE, ASCENT, DESCENT, TALL)
