"""The pages of a document that comes to be read: how many there are, and what is on one of them.

Runs in a worker process. A document is what its bytes are, whatever its name says: a picture, a TIFF of many
pages, or a PDF. Promises: limits are checked before a pixel is decoded; of a PDF, pages that have text keep
it and are not read; a page that cannot be decoded is doubtful with the reason, and `damaged`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct, structs

from quire.model.errors import Reject
from quire.model.page_text import Box, PageText, TextLine, TextParagraph, TextWord
from quire.steps import image_input, pdf_input
from quire.steps.ocr.characters import clean_text
from quire.steps.ocr.pictures import decode_picture
from quire.steps.ocr.read_pages import DocumentKind, LookedAt, ReadPage, describe_kind, surround
from quire.steps.ocr.reader import PictureReader
from quire.steps.page_recognition import PageClassifier
from quire.tools import refusals, sniff, tiff, vips
from quire.tools.emptiness import is_empty
from quire.tools.pdfium import POINTS_PER_INCH, PageBitmap, PdfPage, PdfRenderer
from quire.tools.qpdf import PdfFile

_READING_DPI = 300
_LOWEST_DPI = 72
_PDF = "application/pdf"
_ONE_PICTURE = frozenset({"image/gif", "image/bmp"})  # the first, of a kind that has no pages
_DAMAGE = frozenset({"corrupt", "truncated", "too_many_pixels", "unsupported_format", "unsupported_media"})

Report = Callable[[int], None]


def look_at(source: Path, *, max_pages: int, max_pixels: int) -> LookedAt:
    """Decodes nothing. Raises Reject for what can never be read."""
    found = _sniff(source)
    if found == _PDF:
        with PdfFile(source) as document:
            _check_count(document.pages, max_pages)
            return LookedAt(kind="pdf", pages=document.pages)
    if found in _ONE_PICTURE:
        return LookedAt(kind="picture", pages=1)
    kind = image_input.content_type(source, "a picture or a PDF")
    if kind != "image/tiff":
        known = vips.header(source, kind)
        _check_pixels(1, known.width, known.height, max_pixels)
        return LookedAt(kind="picture", pages=1)
    pages = tiff.pages(source)
    _check_count(len(pages), max_pages)
    for number, page in enumerate(pages, 1):
        _check_pixels(number, page.width, page.height, max_pixels)
    tiff.check_complete(source, pages)
    return LookedAt(kind="picture", pages=len(pages))


class PageSource(Struct, frozen=True, kw_only=True):
    """A document and how it is read. With `force`, pages that have text are read all the same; `alone`: it
    has one page, and when that cannot be decoded there is nothing to go on with.
    """

    source: Path
    folder: Path
    kind: DocumentKind
    language: str = ""
    max_pixels: int = 100 * refusals.MEGAPIXEL
    force: bool = False
    alone: bool = False


def read_pages(
    document: PageSource, numbers: Sequence[int], reader: PictureReader, report: Report
) -> Iterator[ReadPage]:
    """These pages, in this order; they are counted from 1. `report` is told how many are done."""
    with _open(document) as read:
        for done, number in enumerate(numbers, 1):
            try:
                yield read(number, reader)
            except Reject as flaw:
                if document.alone or flaw.code not in _DAMAGE:
                    raise
                yield ReadPage(
                    number=number,
                    kind="doubtful",
                    page=PageText(width=0, height=0),
                    reason=str(flaw),
                    damaged=True,
                )
            report(done)


@contextmanager
def _open(document: PageSource) -> Iterator[Callable[[int, PictureReader], ReadPage]]:
    if document.kind == "picture":
        yield lambda number, reader: _read_picture(document, number, reader)
        return
    with (
        PdfFile(document.source) as pdf,
        pdf_input.open_drawing(pdf, document.source, document.folder) as drawing,
    ):
        classifier = PageClassifier(document.source)
        yield lambda number, reader: _read_pdf_page(document, pdf, drawing, classifier, number, reader)


def _read_picture(document: PageSource, number: int, reader: PictureReader) -> ReadPage:
    picture = decode_picture(document.source, page=number - 1, max_pixels=document.max_pixels)
    return _read_bitmap(document, picture.bitmap, picture.dpi, number, reader)


def _read_bitmap(
    document: PageSource, bitmap: PageBitmap, dpi: int, number: int, reader: PictureReader
) -> ReadPage:
    if is_empty(bitmap):  # engines look long for what is not there
        page = PageText(width=bitmap.width, height=bitmap.height, dpi=dpi)
        return ReadPage(number=number, kind="blank", page=page)
    page = reader.read_bitmap(bitmap, dpi, document.language)
    kind, reason = describe_kind(page)
    return ReadPage(number=number, kind=kind, page=page, reason=reason)


def _read_pdf_page(
    document: PageSource,
    pdf: PdfFile,
    drawing: PdfRenderer,
    classifier: PageClassifier,
    number: int,
    reader: PictureReader,
) -> ReadPage:
    points = drawing.points(number)
    dpi = _fit_dpi(points, document.max_pixels)
    width, height = drawing.pixels(number, max(dpi, 1))
    with drawing.page(number) as page:
        text = page.text().strip()
        kind = classifier.kind(page, number, text)
        if kind == "text" and not document.force:
            had = PageText(
                width=width,
                height=height,
                dpi=dpi,
                paragraphs=_list_paragraphs(page, width, height),
                text=clean_text(text),
                confidence=1.0,
                is_valid=True,
            )
            return ReadPage(number=number, kind="text", page=had)
        if kind == "blank":
            return ReadPage(number=number, kind="blank", page=PageText(width=width, height=height, dpi=dpi))
        if dpi < _LOWEST_DPI:
            raise refusals.too_many_pixels(f"page {number} is too large to be drawn for reading")
        pdf.check_page(number, vips.check_jpeg)
        found = _read_bitmap(document, page.draw(dpi), dpi, number, reader)
    return structs.replace(found, had_text=kind == "text")


def _list_paragraphs(page: PdfPage, width: int, height: int) -> tuple[TextParagraph, ...]:
    """What the PDF has as text, as one paragraph; its lines say no more."""
    lines = []
    for placed in page.placed_lines(width, height):
        words = tuple(
            TextWord(one.text, Box(one.left, one.top, one.right, one.bottom), 1.0) for one in placed
        )
        box = surround([word.box for word in words])
        lines.append(TextLine(words, box, float(box.bottom)))
    return (TextParagraph(tuple(lines), surround([one.box for one in lines])),) if lines else ()


def _fit_dpi(points: tuple[float, float], max_pixels: int) -> int:
    """The resolution for reading, or the highest one below with which the page stays within the limit."""
    inches = max(points[0], 1) * max(points[1], 1) / POINTS_PER_INCH**2
    return min(_READING_DPI, int((max_pixels / inches) ** 0.5))


def _sniff(source: Path) -> str:
    with source.open("rb") as stream:
        head = stream.read(1024)
    if not head:
        raise refusals.empty_file()
    # Readers of PDFs look for the beginning this far.
    return _PDF if b"%PDF-" in head else sniff.signature(head[: sniff.HEAD_BYTES]) or ""


def _check_count(pages: int, limit: int) -> None:
    if pages > limit:
        advice = "Raise the limit (setting ocr.max_pages), or cut the document into parts."
        raise Reject(f"the document has {pages} pages, the limit is {limit}. {advice}", code="too_many_pages")


def _check_pixels(number: int, width: int, height: int, limit: int) -> None:
    if width * height > limit:
        found, most = width * height / refusals.MEGAPIXEL, limit / refusals.MEGAPIXEL
        mega = f"{found:.0f} megapixels, the limit is {most:.0f}"
        advice = "If the file is genuine, raise the limit (setting ocr.max_megapixels)."
        raise Reject(f"page {number} of {width} x {height} pixels: {mega}. {advice}", code="too_many_pixels")
