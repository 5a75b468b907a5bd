"""Takes lines apart that an engine has read across two columns of text, and puts the columns in order.

Tesseract joins what stands side by side when the lines of both columns are at the same height, as on cards
with ingredients on the left and steps on the right. Promises: no word is lost or added; rows of tables, of
receipts and of forms, where a side has a word or a number, stay rows.
"""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from msgspec import Struct

from quire.model.page_text import TextLine, TextParagraph, TextWord
from quire.tools.page_geometry import surround

_WIDE = 2.0  # heights of a line, from which on a gap may be one between columns
_LEAST_LINES = 4
_LEAST_WORDS = 2.5  # on each side, on average: fewer are cells of a table
_BELONGS = 2.0  # distances of lines, up to which a line of one side goes on with its column
_NEW_PARAGRAPH = 1.25  # of the usual distance
_MOST_COLUMNS = 4


class _Gap(Struct, frozen=True):
    line: int
    place: int  # of the word behind it
    left: int
    right: int


def part_columns(paragraphs: Sequence[TextParagraph]) -> tuple[TextParagraph, ...]:
    """The same paragraphs where no columns were joined."""
    return _part(tuple(paragraphs), _MOST_COLUMNS - 1)


def _part(paragraphs: tuple[TextParagraph, ...], depth: int) -> tuple[TextParagraph, ...]:
    lines = [line for paragraph in paragraphs for line in paragraph.lines]
    gaps = [gap for number, line in enumerate(lines) for gap in _wide_gaps(number, line)]
    if depth == 0 or len(gaps) < _LEAST_LINES:
        return paragraphs
    gutter = _find_gutter(gaps)
    parted = {gap.line: gap.place for gap in gaps if gap.left <= gutter < gap.right}
    for members in _find_runs(lines, gutter, parted):
        left, right = _part_run(lines, members, gutter, parted)
        joined = [number for number in members if number in parted]
        if len(joined) < _LEAST_LINES or not (_is_prose(left) and _is_prose(right)):
            continue
        taken = frozenset(members)
        first = min(taken)
        before, after = _without(paragraphs, taken, first)
        columns = [*_part(_group(left), depth - 1), *_part(_group(right), depth - 1)]
        return (*before, *columns, *_part(tuple(after), depth - 1))
    return paragraphs


def _wide_gaps(number: int, line: TextLine) -> list[_Gap]:
    height = median(word.box.bottom - word.box.top for word in line.words)
    return [
        _Gap(number, place, before.box.right, word.box.left)
        for place, (before, word) in enumerate(pairwise(line.words), start=1)
        if word.box.left - before.box.right >= _WIDE * height
    ]


def _find_gutter(gaps: Sequence[_Gap]) -> int:
    """The place that most gaps have in common."""
    events = sorted([(gap.left, 1) for gap in gaps] + [(gap.right, -1) for gap in gaps])
    best, most, open_gaps = 0, 0, 0
    for number, (place, change) in enumerate(events):
        open_gaps += change
        if open_gaps > most and number + 1 < len(events):
            best, most = (place + events[number + 1][0]) // 2, open_gaps
    return best


def _find_runs(lines: Sequence[TextLine], gutter: int, parted: dict[int, int]) -> list[list[int]]:
    """Lines from above to below that no line across the gutter interrupts, from the first to the last that
    is to be parted, and with what goes on in one column above and below.
    """
    order = sorted(range(len(lines)), key=lambda number: (lines[number].baseline, number))
    runs: list[list[int]] = [[]]
    for number in order:
        box = lines[number].box
        if number not in parted and box.left < gutter < box.right:
            runs.append([])
        else:
            runs[-1].append(number)
    return [_cut_ends(run, lines, parted) for run in runs if any(number in parted for number in run)]


def _cut_ends(run: list[int], lines: Sequence[TextLine], parted: dict[int, int]) -> list[int]:
    places = [place for place, number in enumerate(run) if number in parted]
    first, last = places[0], places[-1]
    tops = [lines[run[place]].baseline for place in places]
    usual = median([below - above for above, below in pairwise(tops)] or [0.0])
    while first > 0 and lines[run[first]].baseline - lines[run[first - 1]].baseline <= _BELONGS * usual:
        first -= 1
    while last + 1 < len(run) and (
        lines[run[last + 1]].baseline - lines[run[last]].baseline <= _BELONGS * usual
    ):
        last += 1
    return run[first : last + 1]


def _part_run(
    lines: Sequence[TextLine], members: Sequence[int], gutter: int, parted: dict[int, int]
) -> tuple[list[TextLine], list[TextLine]]:
    left: list[TextLine] = []
    right: list[TextLine] = []
    for number in members:
        line = lines[number]
        if number in parted:
            left.append(_cut(line, line.words[: parted[number]]))
            right.append(_cut(line, line.words[parted[number] :]))
        else:
            (left if line.box.right <= gutter else right).append(line)
    return left, right


def _is_prose(lines: Sequence[TextLine]) -> bool:
    words = [word.text for line in lines for word in line.words]
    with_letters = sum(1 for word in words if any(letter.isalpha() for letter in word))
    return len(words) >= _LEAST_WORDS * len(lines) and 2 * with_letters >= len(words)


def _cut(line: TextLine, words: tuple[TextWord, ...]) -> TextLine:
    box = surround([word.box for word in words])
    baseline = round(line.baseline + line.slope * (box.left - line.box.left), 2)
    return TextLine(words, box, baseline, line.slope, line.ascent)


def _group(lines: Sequence[TextLine]) -> tuple[TextParagraph, ...]:
    """Paragraphs by the distances of lines."""
    steps = [below.baseline - above.baseline for above, below in pairwise(lines)]
    usual = median(steps or [0.0])
    groups: list[list[TextLine]] = [[lines[0]]]
    for step, line in zip(steps, lines[1:], strict=True):
        if step > _NEW_PARAGRAPH * usual:
            groups.append([])
        groups[-1].append(line)
    return tuple(TextParagraph(tuple(group), surround([line.box for line in group])) for group in groups)


def _without(
    paragraphs: Sequence[TextParagraph], taken: frozenset[int], first: int
) -> tuple[list[TextParagraph], list[TextParagraph]]:
    """What stands before the first of the lines that are taken, and what is left behind it."""
    before: list[TextParagraph] = []
    after: list[TextParagraph] = []
    number = 0
    for paragraph in paragraphs:
        early: list[TextLine] = []
        late: list[TextLine] = []
        for line in paragraph.lines:
            if number not in taken:
                (early if number < first else late).append(line)
            number += 1
        for side, kept in ((before, early), (after, late)):
            if kept:
                side.append(TextParagraph(tuple(kept), surround([line.box for line in kept])))
    return before, after
