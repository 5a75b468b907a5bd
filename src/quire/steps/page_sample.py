"""Chooses the pages that PDFium reads, too, for a converter that returns the text it read.

Such a converter's Markdown is compared with its own text on every page, which finds what the layout lost.
That text is compared with PDFium's on a sample: all pages of a short document; of a long one the first pages,
every 17th, the last, and each that looks odd. When one of them disagrees, all pages are compared. Promises:
the same document gives the same sample; without odd pages it is at most `most(pages)`. Knows no files and
reads nothing.
"""

from quire.steps import markdown_guard
from quire.steps.page_recognition import is_garbled
from quire.tools.markdown_page import MarkdownPage

_SHORT = 20  # pages, which are all compared
_FIRST = 5
_EVERY = 17  # odd and prime: left and right pages take turns, and so do those of any pattern
_FEW_CHARACTERS = 200  # a title page, a scan, or a page whose text was not found
_SPARSE = 0.25  # of the characters that pages have on average so far


def most(pages: int) -> int:
    """The largest sample of a document that has no odd pages."""
    return pages if pages <= _SHORT else _FIRST + pages // _EVERY + 1


class Sampling:
    def __init__(self, pages: int) -> None:
        self.everything = pages <= _SHORT
        self._last = pages
        self._seen = 0
        self._characters = 0

    def wants(self, found: MarkdownPage) -> bool:
        """Whether to compare this page. Call once per page, in order."""
        if found.text is None:
            return True
        size = len(found.text)
        sparse = size < _SPARSE * self._characters / (self._seen or 1)
        self._seen += 1
        self._characters += size
        return (
            self.everything
            or found.number <= _FIRST
            or found.number % _EVERY == 0
            or found.number == self._last
            or bool(found.fault)
            or found.odd
            or sparse
            or size < _FEW_CHARACTERS
            or is_garbled(found.text)
            or markdown_guard.is_doubtful(found.markdown, found.text)
        )

    def compare(self, found: MarkdownPage, text: str) -> None:
        """Compare a page with PDFium's `text`; if they disagree, all pages are compared."""
        if found.text is not None and not self.everything:
            self.everything = bool(markdown_guard.find_fault(found.text, text))
