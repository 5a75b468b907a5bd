"""Estimates the memory that a step needs for a file, by its header, before a pixel is decoded.

Runs in a worker process, needs what the steps need. Promise: nothing is refused here. A file that cannot be
estimated counts as light, and the step itself reports what is wrong with it. Numbers per pixel are measured
(docs/operations.md); what is decoded line by line costs its width, not its height.
"""

from collections.abc import Callable
from functools import wraps
from pathlib import Path

from quire.model.errors import QuireError
from quire.model.step import MemoryEstimate, StepInput
from quire.steps import image_input
from quire.steps import image_variants as variants
from quire.steps import pdf_split as pdf
from quire.steps import tiff_to_jpeg as tiffs
from quire.steps.page_choice import read_choice
from quire.tools import tiff, vips
from quire.tools.pdfium import PdfRenderer
from quire.tools.qpdf import PdfFile
from quire.tools.vips import Header

LIGHT = MemoryEstimate()
WORK = 64 << 20  # pipelines, caches of lines, the smaller copies, the encoder
_LINES = 256  # that are in work at the same time when a picture is read as a stream
_COEFFICIENT = 2  # bytes for each sample of a progressive JPEG
_PILLOW = (16, 4)  # bytes for a pixel: what was measured, and what cannot be less
_DRAWN = 3  # bytes for a pixel of a page
_EMBEDDED = 6  # for a pixel of a picture in a PDF, when it is progressive and has all its colours

Weigh = Callable[[StepInput], MemoryEstimate]


def _carefully(weigh: Weigh) -> Weigh:
    @wraps(weigh)
    def judged(step_input: StepInput) -> MemoryEstimate:
        try:
            return weigh(step_input)
        except QuireError:
            return LIGHT

    return judged


@_carefully
def image_variants(step_input: StepInput) -> MemoryEstimate:
    options = image_input.options_of(step_input, variants.ImageVariantsOptions)
    kind = image_input.content_type(step_input.source, "a picture")
    known = vips.header(step_input.source, kind)
    return LIGHT if known.width * known.height > options.max_pixels else of_thumbnail(known, kind)


@_carefully
def tiff_to_jpeg(step_input: StepInput) -> MemoryEstimate:
    options = image_input.options_of(step_input, tiffs.TiffToJpegOptions)
    kind = image_input.content_type(step_input.source, "a TIFF")
    if kind == "image/tiff":
        found = tiff.pages(step_input.source)
        pages = found if options.all_pages else found[:1]
        judged = [of_page(page) for page in pages if page.width * page.height <= options.max_pixels]
        return max(judged, key=lambda weight: (weight.least, weight.likely), default=LIGHT)
    known = vips.header(step_input.source, kind)
    return LIGHT if known.width * known.height > options.max_pixels else of_picture(known, kind)


@_carefully
def pdf_split(step_input: StepInput) -> MemoryEstimate:
    options = image_input.options_of(step_input, pdf.PdfSplitOptions)
    if read_choice(step_input.file.processing_config, options.pages) not in {"images", "both"}:
        return LIGHT
    return of_pages(*_drawn_and_embedded(step_input.source, options))


def of_thumbnail(known: Header, kind: str) -> MemoryEstimate:
    """Shrunk while it is read, turned when it is small."""
    least = _in_one_piece(known, kind)
    if kind == "image/webp":
        return MemoryEstimate(_lines(known) + 4 * _pixels(known), least)  # one without loss is decoded whole
    return MemoryEstimate(least + _lines(known), least)


def of_picture(known: Header, kind: str) -> MemoryEstimate:
    """Decoded in its full size. What must be turned is laid down whole, on the disk when it is large."""
    least = _in_one_piece(known, kind)
    if kind == "image/webp":
        return MemoryEstimate(_lines(known) + 8 * _pixels(known), 4 * _pixels(known))
    turned = int(_pixels(known) * known.sample_bytes) if known.turned else 0
    return MemoryEstimate(least + turned + _lines(known), least)


def of_page(page: tiff.TiffPage) -> MemoryEstimate:
    pixels = page.width * page.height
    if page.odd:
        likely, least = _PILLOW
        return MemoryEstimate(WORK + likely * pixels, least * pixels)
    pixel = page.samples * max(1, page.bits // 8)
    lines = 2 * max(_LINES, min(page.rows, page.height)) * page.width * pixel
    # What is turned, or has to be looked through for its darkest and lightest value, is laid down whole.
    down = 0 if page.whole_numbers and not page.turned else pixels * pixel
    return MemoryEstimate(WORK + lines + down, 0)


def of_pages(drawn: int, embedded: int) -> MemoryEstimate:
    """Of the pixels of the largest page and of the largest picture in the document."""
    return MemoryEstimate(WORK + _DRAWN * drawn + _EMBEDDED * embedded, _DRAWN * drawn)


def _in_one_piece(known: Header, kind: str) -> int:
    if not known.whole:
        return 0
    pixel = _COEFFICIENT * known.stored_samples if kind == "image/jpeg" else known.sample_bytes
    return int(_pixels(known) * pixel)


def _lines(known: Header) -> int:
    return WORK + int(2 * _LINES * max(known.width, known.height) * known.sample_bytes)


def _pixels(known: Header) -> int:
    return known.width * known.height


def _drawn_and_embedded(source: Path, options: pdf.PdfSplitOptions) -> tuple[int, int]:
    with PdfFile(source) as document:
        embedded = document.largest_picture()
        pages = min(document.pages, options.max_pages)
    with PdfRenderer(source) as drawing:
        sizes = [drawing.pixels(number, options.dpi) for number in range(1, min(pages, len(drawing)) + 1)]
    drawn = [width * height for width, height in sizes if width * height <= options.max_pixels]
    return max(drawn, default=0), embedded
