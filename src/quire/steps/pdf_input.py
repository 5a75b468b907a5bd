"""Opens a PDF for drawing beside its reading by qpdf, so that both see the same pages.

Runs in a worker process. A damaged document is drawn from a repaired copy in the scratch folder.
"""

from pathlib import Path

from quire.model.errors import Reject
from quire.tools import refusals
from quire.tools.pdfium import PdfRenderer
from quire.tools.qpdf import PdfFile


def open_drawing(document: PdfFile, source: Path, folder: Path) -> PdfRenderer:
    """The file, or a repaired copy when it is damaged or PDFium sees other pages than qpdf."""
    if not document.damage:
        try:
            drawing = PdfRenderer(source)
        except Reject:
            pass
        else:
            if len(drawing) == document.pages:
                return drawing
            drawing.close()
    mended = folder / "mended.pdf"
    document.write_whole(mended)
    drawing = PdfRenderer(mended)
    found = len(drawing)
    if found != document.pages:
        drawing.close()
        raise refusals.corrupt(f"one reader finds {document.pages} pages, another {found}", "PDF")
    return drawing
