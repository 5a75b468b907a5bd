"""The plain text of a document: its pages in order, separated by form feeds.

Promise: only text that counts as content stands there. A page that could not be read reliably has a line
that says so instead, in square brackets; a blank page is empty. Pure.
"""

from collections.abc import Sequence

from quire.steps.ocr.characters import clean_text, clean_word
from quire.steps.ocr.read_pages import ReadPage

PAGE_BREAK = "\f"


def write_plain_text(pages: Sequence[ReadPage]) -> str:
    return PAGE_BREAK.join(_write_page(one) for one in pages)


def _write_page(page: ReadPage) -> str:
    if page.kind == "doubtful":
        return f"[Page {page.number} could not be read reliably: {clean_word(page.reason)}]\n"
    if page.kind == "blank":
        return "\n"
    return clean_text(page.page.text).strip("\n") + "\n"


def write_doubtful_text(pages: Sequence[ReadPage]) -> str:
    """What was read on the pages that could not be read reliably, each under a line that says so."""
    found = []
    for one in (page for page in pages if page.kind == "doubtful"):
        head = (
            f"[Page {one.number}, doubtful, confidence {one.page.confidence:.2f}: {clean_word(one.reason)}]"
        )
        found.append(f"{head}\n{clean_text(one.page.text).strip()}\n")
    return PAGE_BREAK.join(found)
