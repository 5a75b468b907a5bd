"""The invisible text of a page: a content stream that puts each word where it stands in the picture.

Every word is one string with its space, stretched so that it fills its box, along the baseline and its slope;
its size follows from the height of tall letters, not of the box, which a slope makes higher. Promise: nothing
is drawn (text mode 3), and every number in the stream is finite. Pure.
"""

import math
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple, Self

from quire.model.page_text import PageText, TextLine, TextWord
from quire.steps.ocr.characters import clean_word
from quire.steps.ocr.glyphless import ADVANCE, TALL, UNITS, Glyphs
from quire.steps.ocr.read_pages import list_paragraphs

FONT = "QuireText"
_LEAST_SIZE = 0.5  # pixels, of a letter
_MOST_STRETCH = 100_000.0  # per cent
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
_LEFT_TO_RIGHT = frozenset({"L", "EN"})


class Matrix(NamedTuple):
    """From pixels of the upright picture to the page's own units: x' = a·x + c·y + e, y' = b·x + d·y + f."""

    a: float
    b: float
    c: float
    d: float
    e: float
    f: float

    def apply(self, x: float, y: float) -> tuple[float, float]:
        return self.a * x + self.c * y + self.e, self.b * x + self.d * y + self.f

    def turn(self, x: float, y: float) -> tuple[float, float]:
        """A direction: without the offset."""
        return self.a * x + self.c * y, self.b * x + self.d * y

    @classmethod
    def from_corners(
        cls,
        top_left: tuple[float, float],
        top_right: tuple[float, float],
        bottom_left: tuple[float, float],
        *,
        width: int,
        height: int,
    ) -> Self:
        """Where three corners of the picture lie on the page says where everything does."""
        return cls(
            (top_right[0] - top_left[0]) / width,
            (top_right[1] - top_left[1]) / width,
            (bottom_left[0] - top_left[0]) / height,
            (bottom_left[1] - top_left[1]) / height,
            *top_left,
        )


def write_text_layer(page: PageText, matrix: Matrix, glyphs: Glyphs) -> bytes:
    """Empty where there is no word to write."""
    lines = [
        placed
        for paragraph in list_paragraphs(page, spread=True)
        for line in paragraph.lines
        for placed in _place_line(line, page, matrix, glyphs)
    ]
    if not lines:
        return b""
    return b"\n".join([b"q", b"BT", b"3 Tr", *lines, b"ET", b"Q", b""])


def _place_line(line: TextLine, page: PageText, matrix: Matrix, glyphs: Glyphs) -> Iterator[bytes]:
    if not all(map(math.isfinite, (line.baseline, line.slope, line.ascent))):
        return
    slope = min(max(line.slope, -1.0), 1.0)
    ascent = _ascent(line, slope)
    length = math.hypot(1.0, slope)
    along, up = (1 / length, slope / length), (slope / length, -1 / length)
    size = ascent * UNITS / TALL
    unit = math.sqrt(abs(matrix.a * matrix.d - matrix.b * matrix.c))  # points of a pixel
    if not unit:
        return
    (across, rise), (lean, height) = matrix.turn(*along), matrix.turn(*up)
    for word in line.words:
        text = clean_word(word.text)
        left, right = _clip(word, page)
        if not text or right <= left:
            continue
        shown = glyphs.encode(_order(text))
        wide = len(shown) // 2 * ADVANCE / UNITS * size
        stretch = min(100 * (right - left) * length / wide, _MOST_STRETCH) if wide else 0
        if not stretch:
            continue
        x, y = matrix.apply(left, line.baseline + slope * (left - line.box.left))
        turned = " ".join(_number(one / unit) for one in (across, rise, lean, height))
        yield (
            f"/{FONT} {_number(size * unit)} Tf {_number(stretch)} Tz {turned} {_number(x)} {_number(y)} Tm "
            f"<{(shown + glyphs.encode(' ')).hex()}> Tj"
        ).encode("ascii")


def _ascent(line: TextLine, slope: float) -> float:
    """In pixels. Engines that do not tell it give boxes: what is left of theirs without the slope."""
    height = line.box.bottom - line.box.top - abs(slope) * (line.box.right - line.box.left)
    middle = line.baseline + slope * (line.box.right - line.box.left) / 2
    told = line.ascent or middle - (line.box.top + line.box.bottom - height) / 2
    return max(min(told, 2.0 * max(height, 1.0)), _LEAST_SIZE)


def _clip(word: TextWord, page: PageText) -> tuple[int, int]:
    return max(0, word.box.left), min(page.width, word.box.right)


def _order(text: str) -> str:
    """Letters in the order in which they stand from left to right. A word of a script that is written from
    right to left is turned round, its marks after their letters; programs that extract text turn it back.
    """
    kinds = [unicodedata.bidirectional(letter) for letter in text]
    if not any(kind in _RIGHT_TO_LEFT for kind in kinds) or any(kind in _LEFT_TO_RIGHT for kind in kinds):
        return text
    clusters: list[str] = []
    for letter in text:
        if clusters and unicodedata.combining(letter):
            clusters[-1] += letter
        else:
            clusters.append(letter)
    return "".join(reversed(clusters))


def _number(value: float) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".") or "0"
