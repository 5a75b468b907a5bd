"""The `ocr` pipeline: scans become text, hOCR, ALTO and searchable PDFs.

`letter.tif` → `letter.txt`, `letter.hocr`, `letter.alto.xml`, `letter.pdf`; of `book.pdf` the searchable PDF
is `book.ocr.pdf`. A first step looks how many pages a document has and deals them out to parts; the parts are
read side by side, each as a task of its own that is kept when it is done; then the results are written. What
could not be read reliably stands in `letter.doubtful.txt` and never among the text.
"""

from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from quire import Document, Output, Pipeline, Reject, Result
from quire.model.output_rules import DOUBTFUL_ROLE
from quire.model.step import Step
from quire.steps.ocr.options import ReadingOptions
from quire.steps.ocr.read_pages import LookedAt, PackedPages, join_parts

NAME = "ocr"
OUTPUTS = ("txt", "hocr", "alto", "pdf")
PARTS = tuple(f"{number:02d}" for number in range(1, 65))
PART_TAG = "ocr:part-"
PDF_TAG = "ocr:pdf"

SCANS = (
    *("image/*", "application/pdf", "*.pdf", "*.tif", "*.tiff", "*.jpg", "*.jpeg", "*.png", "*.webp"),
    *("*.heic", "*.heif", "!image/svg+xml"),
)
_RENAMES = (".tif", ".tiff", ".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".pdf")
_TEXTS = tuple(
    {"role": role, "name": name, "preferred": f"{{stem}}.{name}"}
    for role, name in (
        ("txt", "txt"),
        ("hocr", "hocr"),
        ("alto", "alto.xml"),
        (DOUBTFUL_ROLE, "doubtful.txt"),
    )
)
_PDFS = (
    {"role": "pdf", "name": "pdf", "preferred": "{stem}.pdf"},
    {"role": "ocr_pdf", "name": "ocr.pdf", "preferred": "{stem}.ocr.pdf"},
)
_MEGAPIXEL = 1_000_000
_WRITING = "write"
_WRITING_SECONDS = 300.0
_WRITING_PAGE_SECONDS = 20.0


def look(document: Document, outputs: tuple[str, ...], max_pages: int, max_pixels: int) -> Result[LookedAt]:
    from quire.steps.ocr.document_pages import look_at

    found = look_at(document.path_on_disk, max_pages=max_pages, max_pixels=max_pixels)
    parts = PARTS[: found.pages]
    tags = [f"{PART_TAG}{part}" for part in parts] + ([PDF_TAG] if "pdf" in outputs else [])
    return Result(found, tags=tuple(tags))


def read(
    document: Document,
    part: str,
    look: LookedAt,
    reading: ReadingOptions,
    force: bool,
    max_pixels: int,
    tessdata: str,
) -> PackedPages:
    from quire.steps.ocr.document_pages import PageSource
    from quire.steps.ocr.parts import list_pages, read_part

    source = PageSource(
        source=document.path_on_disk,
        folder=document.scratch,
        kind=look.kind,
        language=reading.language,
        max_pixels=max_pixels,
        force=force,
        alone=look.pages == 1,
    )
    numbers = list_pages(PARTS.index(part), min(look.pages, len(PARTS)), look.pages)
    chosen = structs.replace(reading, tessdata=tessdata, max_pixels=max_pixels)
    return read_part(source, numbers, chosen, document.progress)


def write_text(
    document: Document, look: LookedAt, outputs: tuple[str, ...], read: dict[str, PackedPages] | None = None
) -> list[Output]:
    from quire.steps.ocr.alto import write_alto
    from quire.steps.ocr.hocr import write_hocr
    from quire.steps.ocr.plain_text import write_doubtful_text, write_plain_text

    if read is None:  # reading failed, as the report says
        return []
    pages = join_parts(read, look.pages)
    doubtful = [one.number for one in pages if one.kind == "doubtful"]
    facts = {"pages": look.pages, "doubtful_pages": doubtful}
    made = []
    if "txt" in outputs:
        made.append(Output.text("txt", write_plain_text(pages), role="txt", facts=facts))
    if "hocr" in outputs:
        made.append(
            Output.text("hocr", write_hocr(pages, name=document.name), role="hocr", content_type="text/html")
        )
    if "alto" in outputs:
        made.append(Output.text("alto.xml", write_alto(pages, name=document.name), role="alto"))
    if doubtful:
        made.append(Output.text("doubtful.txt", write_doubtful_text(pages), role=DOUBTFUL_ROLE, facts=facts))
    return made


def write_pdf(
    document: Document,
    look: LookedAt,
    pdfa: bool,
    picture_quality: int,
    max_pixels: int,
    read: dict[str, PackedPages] | None = None,
) -> Output | None:
    from quire.steps.ocr.searchable_pdf import PdfOptions, write_searchable_pdf

    document.progress(0, look.pages)
    target: Path = document.scratch / "searchable.pdf"
    options = PdfOptions(archival=pdfa, quality=picture_quality, max_pixels=max_pixels)
    pages = join_parts(read or {}, look.pages)
    said = write_searchable_pdf(
        document.path_on_disk,
        look.kind,
        pages,
        target,
        options,
        lambda done: document.progress(done, look.pages),
    )
    if said is None:  # the report says why the document was not read
        return None
    role, name = ("ocr_pdf", "ocr.pdf") if look.kind == "pdf" else ("pdf", "pdf")
    return Output.file(target, name, role=role, facts={"pages": look.pages, "remarks": list(said)})


def check_pages(look: LookedAt, read: dict[str, PackedPages] | None = None) -> None:
    """Side by side with the writers: a document of which pages are damaged ends as failed, although the
    others are written.
    """
    damaged = [one for one in join_parts(read or {}, look.pages) if one.damaged]
    if damaged:
        first = damaged[0]
        others = f", and {len(damaged) - 1} more pages cannot be decoded" if len(damaged) > 1 else ""
        raise Reject(
            f"page {first.number}: {first.reason}{others}; the other pages were read", code="damaged_pages"
        )


def build_ocr(
    *,
    reading: ReadingOptions | None = None,
    outputs: Sequence[str] = OUTPUTS,
    pdfa: bool = False,
    picture_quality: int = 0,
    force: bool = False,
    max_pages: int = 10_000,
    max_pixels: int = 100 * _MEGAPIXEL,
    page_seconds: float = 300.0,
    memory_mb: int = 2048,
    retries: int = 2,
) -> Pipeline:
    """`reading` says how pages are read; models that are asked over the network take no part. `outputs` are
    some of OUTPUTS. `force` reads pages of PDFs that have text. `picture_quality`: pictures that are no JPEGs
    become JPEGs of this quality in the PDF; 0: they lose nothing.
    """
    chosen = reading or ReadingOptions()
    ocr = Pipeline(NAME, version=1, from_settings=True)
    ocr.step(
        accepts=SCANS,
        sandbox=True,
        timeout=page_seconds,
        on_failure="stop",
        options={"outputs": list(outputs), "max_pages": max_pages, "max_pixels": max_pixels},
        memory_mb=memory_mb,
        retries=retries,
    )(look)
    ocr.step(
        accepts=f"tag:{PART_TAG}{{part}}",
        each={"part": PARTS},
        sandbox=("tessdata",),
        timeout=page_seconds,
        page_timeout=page_seconds,
        stall=page_seconds,
        options={
            "reading": _describe(chosen),
            "tessdata": chosen.tessdata,
            "force": force,
            "max_pixels": max_pixels,
        },
        memory_mb=memory_mb,
        retries=retries,
    )(read)
    any_part = f"tag:{PART_TAG}{PARTS[0]}"
    ocr.step(
        accepts=any_part,
        renames=_RENAMES,
        outputs=_TEXTS,
        options={"outputs": list(outputs)},
        phase=_WRITING,
        timeout=_WRITING_SECONDS,
        page_timeout=_WRITING_PAGE_SECONDS,
        memory_mb=memory_mb,
        retries=retries,
    )(write_text)
    ocr.step(
        accepts=(any_part, f"tag:{PDF_TAG}"),
        renames=_RENAMES,
        outputs=_PDFS,
        sandbox=True,
        options={"pdfa": pdfa, "picture_quality": picture_quality, "max_pixels": max_pixels},
        phase=_WRITING,
        timeout=_WRITING_SECONDS,
        page_timeout=_WRITING_PAGE_SECONDS,
        memory_mb=memory_mb,
        retries=retries,
    )(write_pdf)
    ocr.step(
        accepts=any_part, phase=_WRITING, timeout=_WRITING_SECONDS, memory_mb=memory_mb, retries=retries
    )(check_pages)
    return ocr


def _describe(reading: ReadingOptions) -> dict[str, object]:
    """As plain data, which is stored with a batch: without models, whose keys are secrets."""
    return {
        "tiers": list(reading.tiers),
        "language": reading.language,
        "min_valid_characters": reading.min_valid_characters,
        "min_confidence": reading.min_confidence,
        "seconds": reading.seconds,
    }


# Made when a worker starts: in a sandbox the modules behind it could not read what they read when loaded.
STEPS: dict[str, Step] = build_ocr().steps()
