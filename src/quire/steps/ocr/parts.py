"""The share of a document that one task reads, so that a book is read by all cores at once and a crash loses
only what was in work.

Pages are dealt out like cards: difficult ones often stand together. Promise: every page is in exactly one
part, and the parts are the same for the same document.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

from quire.steps.ocr.document_pages import PageSource, read_pages
from quire.steps.ocr.options import ReadingOptions
from quire.steps.ocr.read_pages import PackedPages, ReadPage, pack
from quire.steps.ocr.reader import PictureReader


def list_pages(part: int, parts: int, pages: int) -> range:
    """The pages of one of `parts` parts, counted from 0; pages are counted from 1."""
    return range(part + 1, pages + 1, parts)


def read_part(
    document: PageSource,
    numbers: Sequence[int],
    reading: ReadingOptions,
    progress: Callable[[int, int], None],
) -> PackedPages:
    """Raises Reject when the document has one page, and that cannot be decoded."""
    progress(0, len(numbers))
    reader = _open_reader(reading)
    return pack(_list_read(document, numbers, reader, progress))


def _list_read(
    document: PageSource, numbers: Sequence[int], reader: PictureReader, progress: Callable[[int, int], None]
) -> list[ReadPage]:
    return list(read_pages(document, numbers, reader, lambda done: progress(done, len(numbers))))


@lru_cache(maxsize=1)
def _open_reader(options: ReadingOptions) -> PictureReader:
    """Open as long as the process lives: an engine starts as slowly as it reads a page."""
    return PictureReader(options)
