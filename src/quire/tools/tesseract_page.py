"""Collects what Tesseract has recognised: words, lines and paragraphs, with their places on the upright page.

Tesseract reads blocks that lie on their side by itself, and tells places on the picture as it was given; here
they are turned with the page. In English the word I is often read as a bar or a one;
that is put right.
"""

import re
from collections import Counter
from functools import cache
from itertools import pairwise
from typing import Any

from msgspec import Struct

from quire.model.page_text import Box, TextLine, TextParagraph, TextWord
from quire.tools.page_geometry import Point, surround, turn_box, turn_point

_DOWNWARDS = 2  # a writing direction
_QUOTES = "'\"\u2018\u2019\u201c\u201d"
_BAR = re.compile(rf"(?P<before>[{_QUOTES}(]*)[|\[](?P<after>[.,;:!?{_QUOTES})]*)")
_SMALL_WORD = re.compile(r"[a-z][a-z'\u2019-]*[.,;:!?]?")
# After the word I, and hardly ever after the number: "1 can" and "1 may" are left alone.
_VERBS = frozenset(
    "am was had have will would could should did knew ran saw felt thought think said went came took found "
    "began looked stood heard tried know cannot shall must".split()
)
_MOST_BARS = 2  # of a line of prose; tables have more


class _RawLine(Struct):
    begins: bool  # a paragraph
    words: list[TextWord]
    turned: int  # clockwise, in degrees, by which its letters lie on the picture
    baseline: tuple[Point, Point] | None
    ascent: float


def collect_paragraphs(
    api: Any, width: int, height: int, *, english: bool
) -> tuple[tuple[TextParagraph, ...], int]:
    """The paragraphs, and by how many degrees clockwise the picture must be turned for them."""
    lines = _raw_lines(api)
    if english:
        for line in lines:
            line.words = correct_bars(line.words)
    votes: Counter[int] = Counter()
    for line in lines:
        votes[line.turned] += sum(len(word.text) for word in line.words)
    rotation = -votes.most_common(1)[0][0] % 360 if votes else 0
    groups: list[list[TextLine]] = []
    for line in lines:
        if line.begins or not groups:
            groups.append([])
        groups[-1].append(_upright(line, rotation, width, height))
    found = tuple(TextParagraph(tuple(group), surround([line.box for line in group])) for group in groups)
    return found, rotation


def correct_bars(words: list[TextWord]) -> list[TextWord]:
    """A bar or bracket that stands alone beside words in small letters is the word I; not in tables, and not
    where something is really in brackets. So is a one before a verb.
    """
    words = _correct_ones(words)
    bars = [at for at, word in enumerate(words) if _BAR.fullmatch(word.text)]
    if not bars or len(bars) > _MOST_BARS or any("]" in word.text for word in words):
        return words
    corrected = list(words)
    for at in bars:
        beside = [*words[at - 1 : at], *words[at + 1 : at + 2]]
        if any(_SMALL_WORD.fullmatch(word.text) for word in beside):
            found = _BAR.fullmatch(words[at].text)
            text = f"{found['before']}I{found['after']}" if found else words[at].text
            corrected[at] = TextWord(text, words[at].box, words[at].confidence)
    return corrected


def _correct_ones(words: list[TextWord]) -> list[TextWord]:
    corrected = list(words)
    for at, (word, following) in enumerate(pairwise(words)):
        if word.text == "1" and following.text.strip(",.;") in _VERBS:
            corrected[at] = TextWord("I", word.box, word.confidence)
    return corrected


def _raw_lines(api: Any) -> list[_RawLine]:
    """A line without words is left out."""
    levels = _levels()
    at = api.GetIterator()
    lines: list[_RawLine] = []
    words: list[TextWord] = []
    begins = False
    while at is not None:
        begins = begins or bool(at.IsAtBeginningOf(levels.PARA))
        if not at.Empty(levels.WORD):
            words += _word(at, levels)
        if words and at.IsAtFinalElement(levels.TEXTLINE, levels.WORD):
            heights = at.RowAttributes()
            ascent = heights["row_height"] + heights["descenders"] if heights else 0.0
            # Lines that run downwards are reported so, and not as turned.
            orientation, direction, *_ = at.Orientation()
            turned = 90 * (int(orientation) + (int(direction) == _DOWNWARDS)) % 360
            lines.append(_RawLine(begins, words, turned, at.Baseline(levels.TEXTLINE), max(ascent, 0.0)))
            words, begins = [], False
        if not at.Next(levels.WORD):
            break
    return lines


def _word(at: Any, levels: Any) -> list[TextWord]:
    """One word; none where a rule or a speck was taken for text."""
    text = at.GetUTF8Text(levels.WORD).strip()
    box = at.BoundingBox(levels.WORD)
    if not text or not box:
        return []
    return [TextWord(text, Box(*box), round(min(max(at.Confidence(levels.WORD) / 100, 0.0), 1.0), 4))]


def _upright(line: _RawLine, rotation: int, width: int, height: int) -> TextLine:
    words = tuple(
        TextWord(word.text, turn_box(word.box, rotation, width, height), word.confidence)
        for word in line.words
    )
    box = surround([word.box for word in words])
    baseline, slope = float(box.bottom), 0.0
    if line.baseline and (line.turned + rotation) % 360 == 0:
        first, last = (turn_point(point, rotation, width, height) for point in line.baseline)
        slope = (last[1] - first[1]) / (last[0] - first[0]) if last[0] > first[0] else 0.0
        baseline = first[1] + slope * (box.left - first[0])
    return TextLine(words, box, round(baseline, 2), round(slope, 5), round(line.ascent, 2))


@cache
def _levels() -> Any:
    import tesserocr

    return tesserocr.RIL
