"""Converts one PDF to its result archive: Markdown page by page, the pictures, and facts about it.

Runs in a child process of a worker, one document at a time; needs pikepdf, pypdfium2 and the chosen
converter. Reads the source and writes the archive; no network, no settings. Pages stream through, so that
memory does not grow with their number. A page that the converter fails on, or loses text of, gets the text
that PDFium reads; a page without a text layer is recognised or kept as a picture; each such page is named in
`info.json` with its reason. Deterministic but for the facts handed in and `seconds`. Refuses with the codes
of `tools.refusals` before anything is converted.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from hashlib import file_digest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from msgspec import Struct

from quire.model.errors import Reject
from quire.steps import converters
from quire.steps.converters import Converter
from quire.steps.page_conversion import PageConversion
from quire.steps.page_recognition import ScanReader
from quire.steps.result_archive import ArchiveWriter
from quire.tools import refusals
from quire.tools.markdown_page import MarkdownPage
from quire.tools.pdfium import PdfRenderer
from quire.tools.qpdf import PdfFile
from quire.tools.refusals import MEGAPIXEL

Progress = Callable[[int, int, str], None]

CONVERTING = "converting"
PACKAGING = "packaging"
_LONGEST_SIDE = 14_400  # points, 200 inches: what the format's usual readers show


class PdfMarkdownOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    converter: str = converters.DEFAULT
    ocr: str = "auto"  # auto: when an engine is there; none; or the name of one, which must be there then
    ocr_language: str = "eng"
    ocr_dpi: int = 300
    tessdata: str = ""
    keep_scans: bool = False  # the picture of a page too whose text was recognised
    page_marks: bool = True  # `<!-- page 3 -->` before each page
    max_pages: int = 10_000
    max_pixels: int = 150 * MEGAPIXEL  # of a picture in a page, and of a page that is drawn
    max_asset_bytes: int = 2_000_000_000  # of all pictures together


class DocumentInfo(Struct, frozen=True, kw_only=True):
    """Facts for the archive that the conversion cannot know by itself."""

    original_filename: str
    worker_id: str
    converted_at: str
    tags: tuple[str, ...] = ()
    hash: str | None = None  # when known: a source with another one is refused


def ignore_progress(options: PdfMarkdownOptions) -> bool:
    """Whether there is no progress to tell of until all pages are converted."""
    return options.converter in converters.WHOLE


class ConversionFacts(Struct, frozen=True, kw_only=True):
    hash: str
    pages: int
    assets: int
    size_bytes: int  # of the archive
    failed_pages: int
    fallback_pages: int
    needs_ocr: int
    warnings: int
    seconds: float


def convert(
    source: Path,
    target_zip: Path,
    options: PdfMarkdownOptions,
    about: DocumentInfo,
    progress: Progress,
    *,
    converter: Converter | None = None,
    timer: Callable[[], float] = time.perf_counter,
) -> ConversionFacts:
    """Raises Reject for a document that will never work, Misconfigured for a missing tool; leaves no half
    archive.
    """
    began = timer()
    with source.open("rb") as stream:
        digest = file_digest(stream, "sha256").hexdigest()
    if about.hash not in {None, digest}:
        message = f"the file has the SHA-256 {digest}, not {about.hash}. Fetch it again from its source."
        raise Reject(message, code="wrong_hash")
    chosen = converter or converters.choose_converter(options.converter)
    version = chosen.version()
    reader = ScanReader(
        options.ocr,
        options.ocr_language,
        options.tessdata,
        dpi=options.ocr_dpi,
        max_pixels=options.max_pixels,
    )
    with TemporaryDirectory(dir=target_zip.parent, prefix=".convert-") as folder, closing(reader):
        scratch = Path(folder)
        with _examine(source, scratch, options) as document:
            pages = len(document.drawing)
            oversized = document.oversized
            with ArchiveWriter(target_zip, pages, options.max_asset_bytes) as archive:
                work = PageConversion(
                    document.path,
                    document.drawing,
                    archive,
                    reader,
                    chosen,
                    framed=document.framed if chosen.name in converters.BLIND_TO_FORMS else frozenset(),
                    page_marks=options.page_marks,
                    keep_scans=options.keep_scans,
                )
                progress(0, pages, CONVERTING)
                (scratch / "converter").mkdir()
                found = chosen.pages(document.path, pages, scratch / "converter", frozenset(oversized))
                for number, page in _align(found, pages, oversized, chosen):
                    if number in oversized:
                        work.add_oversized(number, oversized[number])
                    else:
                        work.add(number, page, scratch)
                    progress(number, pages, CONVERTING)
                if len(work.failed) == pages:
                    first = next(iter(work.failed.values()))
                    raise refusals.corrupt(f"none of its pages can be read: {first}", "PDF")
                work.settle()
                progress(pages, pages, PACKAGING)
                seconds = round(timer() - began, 3)
                info: dict[str, Any] = {
                    "hash": digest,
                    "converted_at": about.converted_at,
                    "worker_id": about.worker_id,
                    "original_filename": about.original_filename,
                    "tags": list(about.tags),
                    "size_bytes": source.stat().st_size,
                    "marker_meta": chosen.meta,
                    "converter": {"name": chosen.name, "version": version},
                    "pages": pages,
                    **work.facts(),
                    "damage": list(document.damage),
                    "seconds": seconds,
                }
                archive.finish(info)
                return ConversionFacts(
                    hash=digest,
                    pages=pages,
                    assets=archive.assets,
                    size_bytes=target_zip.stat().st_size,
                    failed_pages=len(work.failed),
                    fallback_pages=len(work.fallen_back),
                    needs_ocr=len(work.needs_ocr),
                    warnings=len(work.warnings),
                    seconds=seconds,
                )


class _Examined(NamedTuple):
    path: Path
    drawing: PdfRenderer
    oversized: dict[int, str]  # pages that are not for the converter, and why
    framed: frozenset[int]  # pages with pictures within forms
    damage: tuple[str, ...]


@contextmanager
def _examine(source: Path, scratch: Path, options: PdfMarkdownOptions) -> Iterator[_Examined]:
    """Check the document against the limits; repair and decrypt it if necessary."""
    with PdfFile(source) as document:
        if document.pages > options.max_pages:
            advice = "Raise the limit for pages, or cut the PDF into parts."
            message = f"the PDF has {document.pages} pages, the limit is {options.max_pages}. {advice}"
            raise Reject(message, code="too_many_pages")
        pages = document.pages
        large, framed = document.pictures(options.max_pixels)
        megapixels = options.max_pixels // MEGAPIXEL
        oversized = dict.fromkeys(large, f"a picture of more than {megapixels} megapixels")
        damage = document.damage
        drawing = None if damage or document.locked else _open(source, pages)
        path = source
        if drawing is None:
            path = scratch / "mended.pdf"
            document.write_whole(path)
            drawing = PdfRenderer(path)
    with closing(drawing):
        if len(drawing) != pages:
            raise refusals.corrupt(f"qpdf finds {pages} pages, PDFium {len(drawing)}", "PDF")
        for number in range(1, pages + 1):
            if max(drawing.points(number)) > _LONGEST_SIDE:
                oversized.setdefault(number, "its sides are longer than 200 inches")
        yield _Examined(path, drawing, oversized, framed, damage)


def _open(path: Path, pages: int) -> PdfRenderer | None:
    """None when PDFium cannot open it, or sees other pages than qpdf."""
    try:
        drawing = PdfRenderer(path)
    except Reject:
        return None
    if len(drawing) == pages:
        return drawing
    drawing.close()
    return None


def _align(
    found: Iterator[MarkdownPage], pages: int, oversized: dict[int, str], converter: Converter
) -> Iterator[tuple[int, MarkdownPage | None]]:
    """Every page once and in order, whatever the converter returns; None for pages that were left out."""
    asks = converter.name != converters.PLAIN
    waiting: MarkdownPage | None = None
    fault = "the converter left the page out"
    for number in range(1, pages + 1):
        if number in oversized or not asks:
            yield number, None
            continue
        while waiting is None or waiting.number < number:
            try:
                waiting = next(found, None)
            except Reject:
                raise
            except (ValueError, LookupError, TypeError, AttributeError, RuntimeError, OSError) as error:
                fault = f"the converter failed: {' '.join(str(error).split())[:200] or type(error).__name__}"
                waiting = None
            if waiting is None:
                found = iter(())
                break
        here = waiting is not None and waiting.number == number
        yield number, waiting if here else MarkdownPage(number, "", fault=fault)
