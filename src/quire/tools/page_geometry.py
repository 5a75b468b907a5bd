"""Places of words on a page: around several, turned by quarters, tilted by a small angle. Pure functions."""

from collections.abc import Sequence
from math import atan, cos, radians, sin, tan

from msgspec import structs

from quire.model.page_text import Box, PageText, TextLine, TextParagraph, TextWord

Point = tuple[float, float]


def surround(boxes: Sequence[Box]) -> Box:
    """The smallest box around all of them."""
    return Box(
        min(box.left for box in boxes),
        min(box.top for box in boxes),
        max(box.right for box in boxes),
        max(box.bottom for box in boxes),
    )


def join_text(paragraphs: Sequence[TextParagraph]) -> str:
    return "\n\n".join(
        "\n".join(" ".join(word.text for word in line.words) for line in paragraph.lines)
        for paragraph in paragraphs
    )


def weigh_confidence(paragraphs: Sequence[TextParagraph]) -> float:
    """The confidence of the words, by their characters; 0 without any."""
    words = [word for paragraph in paragraphs for line in paragraph.lines for word in line.words]
    characters = sum(len(word.text) for word in words)
    weighted = sum(len(word.text) * word.confidence for word in words)
    return round(weighted / characters, 4) if characters else 0.0


def turn_point(point: Point, degrees: int, width: int, height: int) -> Point:
    """Where a point of a picture of this size comes to lie when the picture is turned clockwise."""
    x, y = point
    match degrees % 360:
        case 90:
            return height - y, x
        case 180:
            return width - x, height - y
        case 270:
            return y, width - x
        case _:
            return x, y


def turn_box(box: Box, degrees: int, width: int, height: int) -> Box:
    one = turn_point((box.left, box.top), degrees, width, height)
    other = turn_point((box.right, box.bottom), degrees, width, height)
    (left, right), (top, bottom) = sorted((one[0], other[0])), sorted((one[1], other[1]))
    return Box(int(left), int(top), int(right), int(bottom))


class Tilt:
    """Moves places from a picture that was straightened back onto the crooked one of the given size.

    `degrees` is the angle, clockwise, by which the crooked one was turned about its middle.
    """

    def __init__(self, degrees: float, width: int, height: int, straight: tuple[int, int]) -> None:
        self._angle = radians(-degrees)
        self._size = width, height
        self._middle = width / 2, height / 2
        self._straight = straight[0] / 2, straight[1] / 2

    def place_page(self, page: PageText) -> PageText:
        width, height = self._size
        paragraphs = tuple(
            TextParagraph(lines, surround([line.box for line in lines]))
            for lines in (tuple(map(self._line, paragraph.lines)) for paragraph in page.paragraphs)
        )
        return structs.replace(page, width=width, height=height, paragraphs=paragraphs)

    def _point(self, point: Point) -> Point:
        x, y = point[0] - self._straight[0], point[1] - self._straight[1]
        return (
            self._middle[0] + x * cos(self._angle) - y * sin(self._angle),
            self._middle[1] + x * sin(self._angle) + y * cos(self._angle),
        )

    def _box(self, box: Box) -> Box:
        corners = [self._point((x, y)) for x in (box.left, box.right) for y in (box.top, box.bottom)]
        width, height = self._size
        left, top = (round(max(0.0, min(one[axis] for one in corners))) for axis in (0, 1))
        left, top = min(left, width - 1), min(top, height - 1)
        right = min(width, round(max(x for x, _ in corners)))
        bottom = min(height, round(max(y for _, y in corners)))
        return Box(left, top, max(right, left + 1), max(bottom, top + 1))

    def _line(self, line: TextLine) -> TextLine:
        box = self._box(line.box)
        words = tuple(TextWord(word.text, self._box(word.box), word.confidence) for word in line.words)
        x, y = self._point((line.box.left, line.baseline))
        slope = tan(atan(line.slope) + self._angle)
        baseline = y + slope * (box.left - x)
        return TextLine(words, box, round(baseline, 2), round(slope, 5), line.ascent)
