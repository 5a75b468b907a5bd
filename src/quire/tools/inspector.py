"""pdf-inspector: finds the pages of a PDF that need OCR in milliseconds, without drawing them.

Promise: a document that it cannot read gives no page instead of an error, because it is only a second
opinion. Blank pages are among its pages; the caller knows them better.
"""

from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from quire.model.probe import Probe

_ADVICE = "pip install 'quire[library]'"


def probe() -> Probe:
    if _library() is None:
        return Probe(name="pdf-inspector", ok=False, advice=_ADVICE)
    return Probe(name="pdf-inspector", ok=True, detail=metadata.version("pdf-inspector"))


def find_pages_needing_ocr(path: Path) -> frozenset[int]:
    library = _library()
    if library is None:
        return frozenset()
    try:
        return frozenset(library.detect_pdf(str(path)).pages_needing_ocr)
    except (ValueError, RuntimeError, OSError):
        return frozenset()


@cache
def _library() -> Any | None:
    try:
        import pdf_inspector
    except (ImportError, OSError):
        return None
    return pdf_inspector
