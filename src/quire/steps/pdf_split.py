"""The pages of a PDF: as JPEGs, as PDFs of one page with their text, or as both.

Runs in a worker process; needs pikepdf, pypdfium2 and pyvips installed. Reads the source file and, of its
record, `processing_config["pdf_pages"]`, which goes before the option `pages`. Writes one page after the
other into the scratch folder, so that memory does not grow with their number. Facts of a product: `page`,
`pages`, `has_text` (is there a text layer), `width` and `height`, of a JPEG in pixels and of a PDF in points.
A damaged document is repaired if possible; the facts of the result then say so. Deterministic: the same bytes
and options give the same pages. Refuses with the codes of `tools.refusals`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from quire.model.errors import Reject
from quire.model.step import OutputFile, StepInput, StepOutput
from quire.steps import image_input, pdf_input
from quire.steps.page_choice import IMAGE_ROLE, PDF_ROLE, Pages, find_choice_fault, read_choice
from quire.tools import refusals, vips
from quire.tools.ipfs import DEFAULT_PROFILE, file_cid
from quire.tools.pdfium import PdfPage, PdfRenderer
from quire.tools.qpdf import PdfFile
from quire.tools.refusals import MEGAPIXEL


class PdfSplitOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pages: Pages = "none"
    dpi: Annotated[int, Meta(ge=10, le=2400)] = 200
    quality: Annotated[int, Meta(ge=1, le=100)] = 95
    max_pages: int = 10_000
    max_pixels: int = 150 * MEGAPIXEL  # of one page: it is drawn in memory as a whole
    max_total_bytes: int = 10_000_000_000  # of all products
    cid_profile: str = DEFAULT_PROFILE


def run(step_input: StepInput) -> StepOutput:
    options = image_input.options_of(step_input, PdfSplitOptions)
    config = step_input.file.processing_config
    if (wrong := find_choice_fault(config)) is not None:
        raise Reject(
            f"processing_config: {wrong}. Correct it and send the file again.", code="bad_processing"
        )
    chosen = read_choice(config, options.pages)
    if chosen == "none":
        return StepOutput()
    with PdfFile(step_input.source) as document:
        refusals.check_pages(document.pages, options.max_pages)
        step_input.meter.progress(0, document.pages)  # the time limit follows it
        document.check_objects()
        if chosen in {"images", "both"}:
            document.check_shown(vips.check_jpeg)  # damage that it finds and repairs decides what is drawn
        with pdf_input.open_drawing(document, step_input.source, step_input.folder) as drawing:
            if chosen in {"images", "both"}:
                for number in range(1, document.pages + 1):
                    refusals.check_page_pixels(
                        number, *drawing.pixels(number, options.dpi), options.max_pixels
                    )
            made = list(_split(document, drawing, chosen, step_input, options))
        facts: dict[str, Any] = {"pages": document.pages, "cid_profile": options.cid_profile}
        if document.damage:
            facts |= {"repaired": True, "damage": list(document.damage)}
    return StepOutput(files=tuple(made), facts=facts)


def _split(
    document: PdfFile, drawing: PdfRenderer, chosen: str, step_input: StepInput, options: PdfSplitOptions
) -> Iterator[OutputFile]:
    written = 0
    for number in range(1, document.pages + 1):
        common = {"page": number, "pages": document.pages}
        with drawing.page(number) as page:
            common["has_text"] = bool(page.text().strip())
            one: list[OutputFile] = []
            if chosen in {"images", "both"}:
                target = step_input.folder / f"page-{number:05d}.jpg"
                one.append(_image(page, target, common, options))
        if chosen in {"pdfs", "both"}:
            target = step_input.folder / f"page-{number:05d}.pdf"
            document.write_page(number, target)
            width, height = drawing.points(number)
            facts = {**common, "width": round(width, 2), "height": round(height, 2)}
            one.append(_build_product(PDF_ROLE, target, "application/pdf", facts, options))
        written += sum(made.path.stat().st_size for made in one)
        refusals.check_total_bytes(written, number, document.pages, options.max_total_bytes)
        step_input.meter.progress(number, document.pages)
        yield from one


def _image(page: PdfPage, target: Path, common: Mapping[str, Any], options: PdfSplitOptions) -> OutputFile:
    drawn = page.draw(options.dpi)
    vips.save_jpeg(vips.from_pixels(*drawn), target, options.quality)
    facts = {**common, "width": drawn.width, "height": drawn.height}
    return _build_product(IMAGE_ROLE, target, "image/jpeg", facts, options)


def _build_product(
    role: str, target: Path, content_type: str, facts: dict[str, Any], options: PdfSplitOptions
) -> OutputFile:
    cid = file_cid(target, options.cid_profile)
    return OutputFile(role=role, path=target, content_type=content_type, facts={**facts, "cid": cid})
