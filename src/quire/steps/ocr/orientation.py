"""Finds how a page lies on which nothing sensible was read: turned by quarters, or tilted.

Costs nothing for pages that are read at once. Quarters are told by Tesseract's data for that; where they are
missing, by reading a reduced picture each way. A tilt is told by the sums of the rows: straight lines of text
leave empty rows between them.
"""

from collections.abc import Callable
from typing import Any

from quire.model.errors import Misconfigured, QuireError
from quire.model.page_text import PageText
from quire.tools import bitmaps, tesseract, vips
from quire.tools.pdfium import PageBitmap

_TRIAL_SIDE = 1200  # pixels, of the reduced picture
_SURER = 1.3  # times as much read as on the picture as it is
_TILT_SIDE = 700
_MOST_TILTED = 16  # degrees
_COARSE, _FINE = 2.0, 0.5
_CLEARER = 1.15  # times as uneven as the rows of the picture as it is
_LEAST_TILT = 1.0
_LEAST_SIDE, _LEAST_ROWS = 64, 32  # pixels: below there are no lines to make level


class OrientationGuide:
    """Finds rotations; keeps the engine for them open."""

    def __init__(self, tessdata: str) -> None:
        self._tessdata = tessdata
        self._finder: tesseract.OrientationFinder | None = None
        self._is_missing = False

    def close(self) -> None:
        if self._finder is not None:
            self._finder.close()
            self._finder = None

    def find_rotation(
        self, bitmap: PageBitmap, dpi: int, read: Callable[[PageBitmap], PageText] | None
    ) -> int:
        """By how many degrees clockwise to turn the picture; 0 where it cannot be told. `read` reads a
        picture, and is used where there are no data for orientations.
        """
        finder = self._open()
        if finder is not None:
            return finder.find_rotation(bitmap, dpi) or 0
        return 0 if read is None else _try_rotations(bitmap, read)

    def _open(self) -> tesseract.OrientationFinder | None:
        if self._finder is None and not self._is_missing:
            try:
                self._finder = tesseract.OrientationFinder(self._tessdata)
            except Misconfigured:
                self._is_missing = True
        return self._finder


def _try_rotations(bitmap: PageBitmap, read: Callable[[PageBitmap], PageText]) -> int:
    small = bitmaps.shrink(bitmap, max(bitmap.width, bitmap.height) / _TRIAL_SIDE)
    scores = {}
    for degrees in (0, 180, 90, 270):
        try:
            scores[degrees] = weigh_reading(read(bitmaps.turn(small, degrees)))
        except QuireError:
            scores[degrees] = 0.0
    best = max(scores, key=lambda degrees: scores[degrees])
    return best if scores[best] > _SURER * scores[0] else 0


def weigh_reading(found: PageText) -> float:
    """How much was read, and how surely: guesses count little."""
    return found.confidence**2 * sum(not character.isspace() for character in found.text)


def find_tilt(bitmap: PageBitmap) -> float:
    """The angle in degrees, clockwise, that makes the lines of the page level; 0 where none is clear."""
    if min(bitmap.width, bitmap.height) < _LEAST_SIDE:
        return 0.0
    small = bitmaps.shrink(bitmap, max(bitmap.width, bitmap.height) / _TILT_SIDE)
    if min(small.width, small.height) < _LEAST_ROWS:
        return 0.0
    picture: Any = vips.from_pixels(*small)
    grey = (picture if small.bands == 1 else picture.colourspace("b-w")).invert()
    inside = grey.gravity("centre", grey.width, grey.height)

    def unevenness(degrees: float) -> float:
        turned = inside.rotate(degrees, background=[0]) if degrees else inside
        _, rows = turned.project()
        return (
            float((rows.cast("float") - rows.cast("float").gaussblur(8)).deviate()) if turned.height else 0.0
        )

    steps = int(_MOST_TILTED / _COARSE)
    coarse = {step * _COARSE: unevenness(step * _COARSE) for step in range(-steps, steps + 1)}
    best = max(coarse, key=lambda degrees: coarse[degrees])
    fine = {best + step * _FINE: unevenness(best + step * _FINE) for step in range(-3, 4)}
    best = max(fine, key=lambda degrees: fine[degrees])
    return best if abs(best) >= _LEAST_TILT and fine[best] > _CLEARER * coarse[0.0] else 0.0
