"""Pages without a text layer: distinguishes them from blank ones and reads them with an OCR engine.

Runs in a worker process. An engine is opened when the first page needs it and stays open; without one the
page is kept as a picture and listed, so that a person can read it. There is one engine; others have the same
shape.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from quire.model.errors import Misconfigured
from quire.tools import inspector, tesseract, vips
from quire.tools.markdown_page import PagePicture
from quire.tools.pdfium import POINTS_PER_INCH, PageBitmap, PdfPage
from quire.tools.tesseract import OcrText

Kind = Literal["text", "scan", "blank"]

FEWEST_CHARACTERS = 20  # a page number under a scan is no text layer
_LARGE = 0.3  # of the page, covered by one picture
_MOST_GARBLED = 0.3
_STRANGE = re.compile("[\ufffd\ue000-\uf8ff]")
_LOWEST_DPI = 72
_PICTURE_DPI = 150
_PICTURE_QUALITY = 85


class Recogniser(Protocol):
    name: str
    version: str

    def read(self, drawn: PageBitmap, dpi: int) -> OcrText:
        """The text of a drawn page, paragraphs separated by empty lines, and the engine's confidence."""
        ...

    def close(self) -> None: ...


class ScanText(NamedTuple):
    text: str
    confidence: int
    why_not: str = ""


class PageClassifier:
    """Classifies pages. pdf-inspector runs once, at the first page without text or picture."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._suspects: frozenset[int] | None = None

    def kind(self, page: PdfPage, number: int, text: str) -> Kind:
        if len(text) > 4 * FEWEST_CHARACTERS and not is_garbled(text):
            return "text"
        letters = sum(not letter.isspace() for letter in text)
        if letters >= FEWEST_CHARACTERS and not is_garbled(text):
            return "text"
        share = page.picture_share()
        if share is None:
            return "text" if letters else "blank"
        if share >= _LARGE or (letters and is_garbled(text)) or (not letters and self._is_suspected(number)):
            return "scan"
        return "text" if letters or share else "blank"

    def _is_suspected(self, number: int) -> bool:
        if self._suspects is None:
            self._suspects = inspector.find_pages_needing_ocr(self._path)
        return number in self._suspects


def is_garbled(text: str) -> bool:
    """Whether there are many characters that the font does not define: replacement and private ones."""
    if text.isascii():
        return False
    return len(_STRANGE.findall(text)) > _MOST_GARBLED * len(text)


class ScanReader:
    """Reads scanned pages with the chosen engine. End with `close`."""

    def __init__(self, engine: str, language: str, tessdata: str, *, dpi: int, max_pixels: int) -> None:
        self._dpi = dpi
        self._max_pixels = max_pixels
        self._make = _maker(engine, language, tessdata)
        self._strict = engine not in {"auto", "none"}
        self._engine: Recogniser | None = None
        self._why_not = "recognition is switched off" if engine == "none" else ""

    @property
    def engine(self) -> str:
        return f"{self._engine.name} {self._engine.version}" if self._engine else ""

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()

    def read(self, page: PdfPage, points: tuple[float, float]) -> ScanText:
        engine = self._open_recogniser()
        if engine is None:
            return ScanText("", 0, self._why_not)
        dpi = self._fit_dpi(self._dpi, points)
        if dpi < _LOWEST_DPI:
            return ScanText("", 0, "the page is too large to be drawn for recognition")
        found = engine.read(page.draw(dpi), dpi)
        return ScanText(found.text, found.confidence)

    def picture(self, page: PdfPage, points: tuple[float, float], target: Path) -> PagePicture | None:
        """The page as a JPEG; None when it is too large for that."""
        dpi = self._fit_dpi(_PICTURE_DPI, points)
        if dpi < 1:
            return None
        drawn = page.draw(dpi)
        picture = vips.from_pixels(drawn.data, drawn.width, drawn.height, drawn.bands)
        vips.save_jpeg(picture, target, _PICTURE_QUALITY)
        data = target.read_bytes()
        target.unlink()
        return PagePicture("page.jpg", data)

    def _open_recogniser(self) -> Recogniser | None:
        if self._engine is None and not self._why_not:
            try:
                self._engine = self._make()
            except Misconfigured as error:
                if self._strict:
                    raise
                self._why_not = str(error)
        return self._engine

    def _fit_dpi(self, dpi: int, points: tuple[float, float]) -> int:
        """The resolution, or the highest one below with which the page stays within the limit."""
        inches = max(points[0], 1) * max(points[1], 1) / POINTS_PER_INCH**2
        return min(dpi, int((self._max_pixels / inches) ** 0.5))


def _maker(engine: str, language: str, tessdata: str) -> Callable[[], Recogniser]:
    if engine not in {"auto", "none", tesseract.NAME}:
        known = f"auto, none, {tesseract.NAME}"
        message = f"Unknown OCR engine {engine!r}. Choose one of {known}."
        raise Misconfigured(message, code="wrong_option")
    return lambda: tesseract.Tesseract(language, tessdata)
