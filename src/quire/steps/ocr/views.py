"""A picture as engines see it: turned by quarters and made level, with places told on the upright picture.

A page that lies wrong is noticed by what was read on it: nothing sensible, or lines that slope. Then other
views are tried, and one is kept only when more is read on it.
"""

from collections.abc import Callable
from math import atan, degrees
from statistics import median

from msgspec import Struct, structs

from quire.model.page_text import PageText
from quire.steps.ocr.orientation import OrientationGuide, find_tilt, weigh_reading
from quire.tools import bitmaps
from quire.tools.page_geometry import Tilt
from quire.tools.pdfium import PageBitmap

# From here on Tesseract leaves out lines without a word about it: at 4 degrees most of a page.
_STEEP = 0.03
_LONG_LINE = 12  # letters; the slope of short ones means nothing
_BETTER = 1.02  # times as much is read

ReadBitmap = Callable[[PageBitmap, int], PageText]


class PictureView(Struct, frozen=True):
    """`rotation` was applied to `bitmap`; `tilt` is applied when it is read."""

    bitmap: PageBitmap
    dpi: int
    rotation: int = 0
    tilt: float = 0.0

    def read(self, read: ReadBitmap) -> PageText:
        found = read(self.bitmap, self.dpi) if not self.tilt else self._read_level(read)
        return structs.replace(found, rotation=(self.rotation + found.rotation) % 360)

    def _read_level(self, read: ReadBitmap) -> PageText:
        level = bitmaps.straighten(self.bitmap, self.tilt)
        found = read(level, self.dpi)
        if found.rotation:  # it was no tilt: places cannot be told on the page as it lies
            return read(self.bitmap, self.dpi)
        size = level.width, level.height
        return Tilt(self.tilt, self.bitmap.width, self.bitmap.height, size).place_page(found)

    def turn(self, quarter: int) -> "PictureView":
        return PictureView(bitmaps.turn(self.bitmap, quarter), self.dpi, (self.rotation + quarter) % 360)


def find_better_view(
    view: PictureView, page: PageText, read: ReadBitmap, guide: OrientationGuide, *, is_sound: bool
) -> tuple[PictureView, PageText] | None:
    """Another view on which more is read, with what was read; None when this one is best."""
    best: tuple[PictureView, PageText] | None = None
    trial = (lambda bitmap: read(bitmap, 0)) if page.text else None
    if not is_sound and not view.rotation:
        quarter = guide.find_rotation(view.bitmap, view.dpi, trial)
        best = _keep_better(view.turn(quarter), read, page) if quarter else None
    view, page = best or (view, page)
    steep = _slope(page) if best or not page.rotation else 0.0
    if view.tilt or not (abs(steep) >= _STEEP or weigh_reading(page) == 0 or not (is_sound or best)):
        return best
    tilt = find_tilt(view.bitmap) or (-degrees(atan(steep)) if abs(steep) >= _STEEP else 0.0)
    if not tilt:
        return best
    level = structs.replace(view, tilt=tilt)
    best = _keep_better(level, read, page) or best
    if not is_sound and not level.rotation:
        # How a page lies is not told while it is tilted.
        quarter = guide.find_rotation(bitmaps.straighten(view.bitmap, tilt), view.dpi, None)
        turned = structs.replace(level.turn(quarter), tilt=tilt)
        best = (_keep_better(turned, read, best[1] if best else page) if quarter else None) or best
    return best


def _keep_better(view: PictureView, read: ReadBitmap, page: PageText) -> tuple[PictureView, PageText] | None:
    found = view.read(read)
    return (view, found) if weigh_reading(found) > _BETTER * weigh_reading(page) else None


def _slope(page: PageText) -> float:
    slopes = [
        line.slope
        for paragraph in page.paragraphs
        for line in paragraph.lines
        if sum(len(word.text) for word in line.words) >= _LONG_LINE
    ]
    return median(slopes) if slopes else 0.0
