"""Lines out of engines that give four corners and a text: the places of the words in between are worked out.

The corners go clockwise from the top left of the line as it is read.
"""

import re
from math import dist
from typing import Any

from msgspec import structs

from quire.model.page_text import Box, TextLine, TextWord

_ASCENT = 0.75  # of the height of a line's box, above the baseline
_PADDING = 0.1  # of it, above tall letters
_WORD = re.compile(r"\S+")

Quad = list[tuple[float, float]]


def extent(quad: Quad) -> tuple[float, float]:
    return dist(quad[0], quad[1]), dist(quad[1], quad[2])


def line_of_quad(quad: Quad, text: str, score: float, columns: Any = None) -> TextLine:
    """A line with its words, whose places follow from the columns in which the model saw their letters."""
    left = min(x for x, _ in quad)
    right = max(*(x for x, _ in quad), left + 1)
    top, bottom = min(y for _, y in quad), max(y for _, y in quad)
    (left_x, left_y), (right_x, right_y) = quad[3], quad[2]
    slope = (right_y - left_y) / (right_x - left_x) if right_x - left_x >= 1 else 0.0
    height = extent(quad)[1]
    centres, certainties = _letters(text, score, columns)
    words = []
    for found in _WORD.finditer(text):
        span = centres[found.start() : found.end()]
        half = (
            0.5 * (span[-1] - span[0]) / (len(span) - 1) if len(span) > 1 else 0.3 * height / (right - left)
        )
        start, end = max(0.0, span[0] - half), min(1.0, span[-1] + half)
        sunk = slope * (right - left)
        upper, lower = min(start * sunk, end * sunk), max(start * sunk, end * sunk)
        first = top if sunk >= 0 else top - sunk
        box = Box(
            round(left + start * (right - left)),
            round(first + upper),
            max(round(left + end * (right - left)), round(left + start * (right - left)) + 1),
            max(round(first + lower + height), round(first + upper) + 1),
        )
        certain = certainties[found.start() : found.end()]
        words.append(TextWord(found[0], box, round(sum(certain) / len(certain), 4)))
    around = Box(
        round(left), round(top), max(round(right), round(left) + 1), max(round(bottom), round(top) + 1)
    )
    baseline = left_y - (1 - _ASCENT - _PADDING) * height
    return TextLine(
        tuple(words), around, round(baseline, 2), round(slope, 5), round((_ASCENT - _PADDING) * height, 2)
    )


def _letters(text: str, score: float, columns: Any) -> tuple[list[float], list[float]]:
    """For each letter its middle, from 0 to 1 along the line, and how certain it is."""
    places = [column for word in getattr(columns, "word_cols", ()) for column in word]
    certainties = [float(one) for one in getattr(columns, "confs", ())]
    length = getattr(columns, "line_txt_len", 0)
    if not length or len(certainties) != len(text) or len(places) != sum(not one.isspace() for one in text):
        return [(at + 0.5) / len(text) for at in range(len(text))], [score] * len(text)
    following = iter(places)
    centres = [0.0 if one.isspace() else min(1.0, (next(following) + 0.5) / length) for one in text]
    return centres, certainties


def clip_line(line: TextLine, width: int, height: int) -> TextLine:
    """Within the picture: a box may reach into the margin that was put around it."""

    def within(box: Box) -> Box:
        left, top = min(max(box.left, 0), width - 1), min(max(box.top, 0), height - 1)
        right, bottom = min(box.right, width), min(box.bottom, height)
        return Box(left, top, max(right, left + 1), max(bottom, top + 1))

    words = tuple(TextWord(word.text, within(word.box), word.confidence) for word in line.words)
    return structs.replace(line, words=words, box=within(line.box))
