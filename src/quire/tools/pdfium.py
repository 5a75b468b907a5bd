"""PDFium: draws the pages of a PDF and reads their text.

Promises: sizes are known before anything is drawn; a page is drawn upright, on white, in plain sRGB; nothing
in the document is executed (no form environment is made, and the library comes without a JavaScript engine).
`tools.qpdf` decides whether a document is locked or damaged: PDFium does not tell them apart reliably. Fonts
that are not in the document are the machine's. Pages are counted from 1.
"""

import ctypes
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from io import BytesIO
from math import ceil
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from quire.model.errors import Misconfigured
from quire.model.probe import Probe
from quire.tools import refusals

POINTS_PER_INCH = 72
_ADVICE = "pip install pypdfium2"
_BANDS = 3
_DEEPEST_FORM = 6
_SMALLEST_SIDE = 32  # pixels: below are dots, rules and shadows
_MOST_FRAMED = 100
_MOST_LINKS = 1000
_MOST_PLACED = 100_000  # characters
_LONGEST_ADDRESS = 2000
_MOST_PICTURES = 1000  # a page of tiles has more, and each of them is small


class PageBitmap(NamedTuple):
    """Rows from the top, 8 bits a sample, sRGB."""

    data: memoryview
    width: int
    height: int
    bands: int


def probe() -> Probe:
    try:
        library = _pdfium()
    except Misconfigured:
        return Probe(name="PDFium", ok=False, advice=_ADVICE)
    return Probe(name="PDFium", ok=True, detail=str(library.PDFIUM_INFO.version))


class PlacedWord(NamedTuple):
    """A word and its place in pixels, from the top left corner."""

    text: str
    left: int
    top: int
    right: int
    bottom: int


class PdfPage:
    """A loaded page: its content has been parsed."""

    def __init__(self, raw: Any, number: int) -> None:
        self._raw = raw
        self._number = number
        self._letters: Any = None

    def close(self) -> None:
        if self._letters is not None:
            self._letters.close()
        self._raw.close()

    def _text_page(self) -> Any:
        """Loaded once: it takes as long as everything else on a page."""
        if self._letters is None:
            self._letters = self._raw.get_textpage()
        return self._letters

    def text(self) -> str:
        """The text layer in the order of the content; empty for a mere picture of a page."""
        with _translate_errors(self._number):
            found: str = self._text_page().get_text_bounded()
        return found

    def placed_lines(self, width: int, height: int) -> list[list[PlacedWord]]:
        """The lines of the text layer, each as words with their places, in pixels of the page drawn upright
        with this width and height; of the first hundred thousand characters.
        """
        raw = _raw_pdfium()
        lines: list[list[PlacedWord]] = [[]]
        letters: list[str] = []
        corners: list[tuple[int, int]] = []

        def end_word() -> None:
            if letters and corners:
                across, down = zip(*corners, strict=True)
                lines[-1].append(PlacedWord("".join(letters), min(across), min(down), max(across), max(down)))
            letters.clear()
            corners.clear()

        with _translate_errors(self._number):
            text = self._text_page()
            for at in range(min(text.count_chars(), _MOST_PLACED)):
                letter = chr(min(raw.FPDFText_GetUnicode(text.raw, at), 0x10FFFF))
                if letter.isspace():
                    end_word()
                    if letter in "\r\n" and lines[-1]:
                        lines.append([])
                    continue
                letters.append(letter)
                corners += self._find_corners(text, at, width, height)
            end_word()
        return [line for line in lines if line]

    def _find_corners(self, text: Any, at: int, width: int, height: int) -> Iterator[tuple[int, int]]:
        raw = _raw_pdfium()
        left, bottom, right, top = text.get_charbox(at, loose=True)
        x, y = ctypes.c_int(), ctypes.c_int()
        for across, up in ((left, bottom), (right, top)):
            if raw.FPDF_PageToDevice(self._raw.raw, 0, 0, width, height, 0, across, up, x, y):
                yield min(max(x.value, 0), width), min(max(y.value, 0), height)

    def lines(self) -> list[tuple[str, float]]:
        """The lines of the text layer with the size of their letters in points; 0 where it is not known."""
        with _translate_errors(self._number):
            text = self._text_page()
            shown: str = text.get_text_bounded()
            sizes: dict[str, float] = {}
            at = 0
            # Sizes are asked for by place in the whole text, of which a part may lie outside the page.
            for line in text.get_text_range().splitlines(keepends=True):
                if words := line.strip():
                    inside = at + line.index(words[0])
                    if words not in sizes:
                        sizes[words] = _letter_height(text, inside)
                at += len(line)
        lines = (line.strip() for line in shown.splitlines())
        return [(line, sizes.get(line, 0.0)) for line in lines if line]

    def links(self) -> list[tuple[str, str]]:
        """The words under each link to an address, and the address; the first thousand."""
        raw = _raw_pdfium()
        found: list[tuple[str, str]] = []
        with _translate_errors(self._number):
            at, link = ctypes.c_int(0), raw.FPDF_LINK()
            rects: list[tuple[Any, str]] = []
            for _ in range(_MOST_LINKS):
                if not raw.FPDFLink_Enumerate(self._raw.raw, at, link):
                    break
                rect, uri = raw.FS_RECTF(), self._address(link)
                if uri and raw.FPDFLink_GetAnnotRect(link, rect):
                    rects.append((rect, uri))
            if rects:
                text = self._text_page()
                for rect, uri in rects:
                    words = text.get_text_bounded(rect.left, rect.bottom, rect.right, rect.top)
                    found.append((" ".join(words.split()), uri))
        return found

    def _address(self, link: Any) -> str:
        raw = _raw_pdfium()
        action = raw.FPDFLink_GetAction(link)
        if not action or raw.FPDFAction_GetType(action) != raw.PDFACTION_URI:
            return ""
        document = self._raw.pdf.raw
        size = raw.FPDFAction_GetURIPath(document, action, None, 0)
        if not 1 < size <= _LONGEST_ADDRESS:
            return ""
        buffer = ctypes.create_string_buffer(size)
        raw.FPDFAction_GetURIPath(document, action, buffer, size)
        return buffer.value.decode("utf-8", "replace")

    def picture_share(self) -> float | None:
        """How much of the page is covered by its largest picture; None for a page with nothing on it."""
        with _translate_errors(self._number):
            if not _raw_pdfium().FPDFPage_CountObjects(self._raw.raw):
                return None
            width, height = self._raw.get_size()
            largest = 0.0
            kinds = (_raw_pdfium().FPDF_PAGEOBJ_IMAGE,)
            for count, one in enumerate(self._raw.get_objects(filter=kinds, max_depth=_DEEPEST_FORM)):
                left, bottom, right, top = one.get_bounds()
                largest = max(largest, (right - left) * (top - bottom))
                if count > _MOST_PICTURES:
                    break
        return min(1.0, largest / (width * height)) if width and height else 0.0

    def form_pictures(self) -> list[bytes]:
        """The pictures within forms, as JPEG or PNG, without the smallest; the first hundred."""
        found: list[bytes] = []
        with _translate_errors(self._number):
            kinds = (_raw_pdfium().FPDF_PAGEOBJ_IMAGE,)
            for one in self._raw.get_objects(filter=kinds, max_depth=_DEEPEST_FORM):
                if one.level > 0 and min(one.get_px_size()) >= _SMALLEST_SIDE and len(found) < _MOST_FRAMED:
                    found.append(_picture_bytes(one))
        return found

    def draw(self, dpi: int) -> PageBitmap:
        """Raises MemoryError when there is no room for the picture."""
        with _translate_errors(self._number):
            bitmap = self._raw.render(scale=dpi / POINTS_PER_INCH, rev_byteorder=True)
            return PageBitmap(memoryview(bitmap.buffer), bitmap.width, bitmap.height, _BANDS)


class PdfRenderer:
    """A document open for drawing; a context manager."""

    def __init__(self, path: Path) -> None:
        with _translate_errors():
            self._document = _pdfium().PdfDocument(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._document.close()

    def __len__(self) -> int:
        return len(self._document)

    def points(self, number: int) -> tuple[float, float]:
        """Width and height, upright. The page's content is not parsed."""
        with _translate_errors(number):
            width, height = self._document.get_page_size(number - 1)
        return float(width), float(height)

    def pixels(self, number: int, dpi: int) -> tuple[int, int]:
        """The size in pixels that `draw` would produce."""
        width, height = self.points(number)
        return ceil(width * dpi / POINTS_PER_INCH), ceil(height * dpi / POINTS_PER_INCH)

    @contextmanager
    def page(self, number: int) -> Iterator[PdfPage]:
        with _translate_errors(number):
            raw = self._document[number - 1]
        with closing(PdfPage(raw, number)) as page:
            yield page


@cache
def _pdfium() -> Any:
    try:
        import pypdfium2
    except (ImportError, OSError) as error:
        raise Misconfigured(f"PDFium cannot be loaded ({error}): {_ADVICE}", code="missing_tool") from error
    return pypdfium2


def _picture_bytes(picture: Any) -> bytes:
    """The stored bytes when they are a JPEG; otherwise the decoded picture."""
    if picture.get_filters() == ["DCTDecode"]:
        return bytes(picture.get_data())
    with closing(picture.get_bitmap()) as bitmap:
        out = BytesIO()
        bitmap.to_pil().save(out, "PNG")
    return out.getvalue()


def _letter_height(text: Any, at: int) -> float:
    """As drawn: the size of the font alone says nothing where the page is scaled."""
    raw = _raw_pdfium()
    box = raw.FS_RECTF()
    return abs(box.top - box.bottom) if raw.FPDFText_GetLooseCharBox(text.raw, at, box) else 0.0


@cache
def _raw_pdfium() -> Any:
    import pypdfium2.raw

    return pypdfium2.raw


@contextmanager
def _translate_errors(number: int = 0) -> Iterator[None]:
    try:
        yield
    except _pdfium().PdfiumError as error:
        where = f"page {number}: " if number else ""
        raise refusals.corrupt(f"{where}{error}", "PDF") from error
