"""Converts one PDF to Markdown: the text page by page, its pictures, and facts about the conversion.

Runs in a worker process, one document at a time; needs pikepdf, pypdfium2 and the chosen converter. Reads the
source file and, of its record, name and mark: links to pictures lead to where they are laid out. Pages stream
through, so that memory does not grow with their number. A page that the converter fails on, or loses text of,
gets the text that PDFium reads; a page without a text layer is recognised or kept as a picture; the step's
value names each such page with its reason. Deterministic: the same bytes, name and options give the same
files. Refuses with the codes of `tools.refusals` before anything is converted.
"""

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from msgspec import Struct

from quire.model.errors import Reject
from quire.model.files import stem_and_extension
from quire.model.step import OutputFile, StepInput, StepOutput
from quire.steps import converters
from quire.steps.converters import MARKDOWN_ROLE, PICTURE_ROLE, Converter
from quire.steps.image_input import options_of
from quire.steps.markdown_writer import MarkdownWriter
from quire.steps.page_conversion import PageConversion
from quire.steps.page_recognition import ScanReader
from quire.tools import refusals
from quire.tools.markdown_page import MarkdownPage
from quire.tools.pdfium import PdfRenderer
from quire.tools.qpdf import PdfFile
from quire.tools.refusals import MEGAPIXEL

_LONGEST_SIDE = 14_400  # points, 200 inches: what the format's usual readers show


class PdfMarkdownOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    converter: str = converters.DEFAULT
    ocr: str = "auto"  # auto: when an engine is there; none; or the name of one, which must be there then
    ocr_language: str = "eng"
    ocr_dpi: int = 300
    tessdata: str = ""
    keep_scans: bool = False  # the picture of a page too whose text was recognised
    page_marks: bool = True  # `<!-- page 3 -->` before each page
    links: str = ""  # what stands before the name of a picture; empty: the document's name and a dot
    max_pages: int = 10_000
    max_pixels: int = 150 * MEGAPIXEL  # of a picture in a page, and of a page that is drawn
    max_asset_bytes: int = 2_000_000_000  # of all pictures together


def run(step_input: StepInput) -> StepOutput:
    """Raises Reject for a document that will never work, Misconfigured for a missing tool."""
    options = options_of(step_input, PdfMarkdownOptions)
    return convert(step_input, options, converters.choose_converter(options.converter))


def convert(step_input: StepInput, options: PdfMarkdownOptions, chosen: Converter) -> StepOutput:
    version = chosen.version()
    reader = ScanReader(
        options.ocr,
        options.ocr_language,
        options.tessdata,
        dpi=options.ocr_dpi,
        max_pixels=options.max_pixels,
    )
    links = options.links or quote(f"{step_input.file.name}.", safe="")
    scratch = step_input.folder / "scratch"
    (scratch / "converter").mkdir(parents=True)
    with closing(reader), _examine(step_input.source, scratch, options) as document:
        pages = len(document.drawing)
        writer = MarkdownWriter(
            step_input.folder,
            pages,
            links=links,
            max_picture_bytes=options.max_asset_bytes,
            marked="" if options.links else step_input.file.marked,
        )
        with writer:
            work = PageConversion(
                document.path,
                document.drawing,
                writer,
                reader,
                chosen,
                framed=document.framed if chosen.name in converters.BLIND_TO_FORMS else frozenset(),
                page_marks=options.page_marks,
                keep_scans=options.keep_scans,
            )
            step_input.meter.progress(0, pages)
            found = chosen.pages(document.path, pages, scratch / "converter", frozenset(document.oversized))
            for number, page in _align(found, pages, document.oversized, chosen):
                if number in document.oversized:
                    work.add_oversized(number, document.oversized[number])
                else:
                    work.add(number, page, scratch)
                step_input.meter.progress(number, pages)
            if len(work.failed) == pages:
                first = next(iter(work.failed.values()))
                raise refusals.corrupt(f"none of its pages can be read: {first}", "PDF")
            work.settle()
            markdown = writer.finish()
    value: dict[str, Any] = {
        "marker_meta": chosen.meta,
        "converter": {"name": chosen.name, "version": version},
        "pages": pages,
        **work.facts(),
        "damage": list(document.damage),
    }
    files = _outputs(step_input.file.name, markdown, writer)
    counted = ("failed_pages", "fallback_pages", "needs_ocr", "warnings")
    facts = {"pages": pages, "pictures": len(files) - 1, **{name: len(value[name]) for name in counted}}
    return StepOutput(files=files, facts=facts, value=value)


def _outputs(name: str, markdown: Path, writer: MarkdownWriter) -> tuple[OutputFile, ...]:
    whole = OutputFile(
        role=MARKDOWN_ROLE,
        path=markdown,
        content_type="text/markdown",
        name="md",
        preferred=f"{stem_and_extension(name)[0]}.md",
    )
    pictures = (
        OutputFile(role=PICTURE_ROLE, path=path, content_type=one.content_type, name=one.name)
        for path, one in writer.pictures()
    )
    return (whole, *pictures)


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
        document.check_objects()
        large, framed = document.pictures(options.max_pixels)
        megapixels = options.max_pixels // MEGAPIXEL
        oversized = dict.fromkeys(large, f"a picture of more than {megapixels} megapixels")
        damage = document.damage
        drawing = None if damage or document.locked else _open(source, pages)
        path = scratch / "document.pdf"  # files in a store have no extension, which converters ask for
        if drawing is None:
            document.write_whole(path)
            drawing = PdfRenderer(path)
        else:
            path = _name(path, source)
    with closing(drawing):
        if len(drawing) != pages:
            raise refusals.corrupt(f"qpdf finds {pages} pages, PDFium {len(drawing)}", "PDF")
        for number in range(1, pages + 1):
            if max(drawing.points(number)) > _LONGEST_SIDE:
                oversized.setdefault(number, "its sides are longer than 200 inches")
        yield _Examined(path, drawing, oversized, framed, damage)


def _name(path: Path, source: Path) -> Path:
    """A path of the same document with that name; the document itself where it is called so."""
    if source.name == path.name:
        return source
    try:
        path.symlink_to(source.resolve())
    except PermissionError:  # in a sandbox
        shutil.copyfile(source, path)
    return path


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
