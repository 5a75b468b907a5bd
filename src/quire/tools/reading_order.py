"""Puts lines that an engine found anywhere on a page into the order in which they are read, as paragraphs.

Columns of prose are read one after the other; parts of one row are joined; rows of a table stay rows. Pure
functions of boxes: they work for every engine that tells places and no order.
"""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from msgspec import structs

from quire.model.page_text import TextLine, TextParagraph
from quire.tools.page_geometry import surround

_PROSE = 12  # letters of a line in a column; the cells of tables have fewer
_FEWEST_ROWS = 3  # of a column
_GUTTER = 0.8  # of a line's height, between columns
_BREAK = 0.75  # of a line's height, between paragraphs, more than between lines
_SAME_SIZE = 1.4

_Band = list[TextLine]  # lines beside each other, from the left


def arrange_lines(lines: Sequence[TextLine]) -> tuple[TextParagraph, ...]:
    """All lines, in reading order."""
    if not lines:
        return ()
    height = median(_height(line) for line in lines)
    return tuple(paragraph for block in _blocks(_bands(lines), height) for paragraph in _paragraphs(block))


def _bands(lines: Sequence[TextLine]) -> list[_Band]:
    """Rows from the top: lines whose middles lie within each other's heights."""
    bands: list[_Band] = []
    for line in sorted(lines, key=_middle):
        if bands and any(_beside(line, one) for one in bands[-1]):
            bands[-1].append(line)
        else:
            bands.append([line])
    return [sorted(band, key=lambda line: line.box.left) for band in bands]


def _beside(one: TextLine, other: TextLine) -> bool:
    near = abs(_middle(one) - _middle(other)) < 0.5 * min(_height(one), _height(other))
    apart = one.box.left >= other.box.right - 5 or other.box.left >= one.box.right - 5
    return near and apart


def _blocks(bands: list[_Band], height: float) -> list[list[TextLine]]:
    """Runs of lines that belong together: each column, and what stands between rows of columns."""
    found = _find_columns(bands, height)
    if found is None:
        return [[_join(band) for band in bands]] if bands else []
    start, end, cut = found
    inside = [line for band in bands[start:end] for line in band]
    left = [line for line in inside if line.box.right <= cut]
    right = [line for line in inside if line.box.right > cut]
    return [
        *_blocks(bands[:start], height),
        *_blocks(_bands(left), height),
        *_blocks(_bands(right), height),
        *_blocks(bands[end:], height),
    ]


def _find_columns(bands: list[_Band], height: float) -> tuple[int, int, float] | None:
    """The longest run of rows with one gutter through all of them: first row, row after it, the gutter."""
    best: tuple[int, int, float] | None = None
    for start, first in enumerate(bands):
        if best is not None and len(bands) - start <= best[1] - best[0]:
            break
        gaps = _gaps(first, height)
        for end in range(start + 1, len(bands) + 1):
            rows = bands[start:end]
            for left, right in gaps:
                if (best is None or end - start > best[1] - best[0]) and _is_gutter(rows, left, right):
                    best = start, end, (left + right) / 2
            if end < len(bands):
                gaps = _narrow(gaps, _gaps(bands[end], height), height)
            if not gaps:
                break
    return best


def _gaps(band: _Band, height: float) -> list[tuple[float, float]]:
    """Where a row has no letters, page's edges included."""
    edges = [
        float("-inf"),
        *(edge for line in band for edge in (line.box.left, line.box.right)),
        float("inf"),
    ]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return [(left, right) for left, right in pairs if right - left >= _GUTTER * height]


def _narrow(
    some: list[tuple[float, float]], others: list[tuple[float, float]], height: float
) -> list[tuple[float, float]]:
    both = ((max(one[0], two[0]), min(one[1], two[1])) for one in some for two in others)
    return [(left, right) for left, right in both if right - left >= _GUTTER * height]


def _is_gutter(rows: list[_Band], left: float, right: float) -> bool:
    if left == float("-inf") or right == float("inf"):
        return False
    sides = (
        [line for band in rows for line in band if line.box.right <= left],
        [line for band in rows for line in band if line.box.left >= right],
    )
    if any(len(side) < _FEWEST_ROWS for side in sides):
        return False
    return all(median(_letters(line) for line in side) >= _PROSE for side in sides)


def _join(band: _Band) -> TextLine:
    """One line of the parts of a row."""
    if len(band) == 1:
        return band[0]
    return structs.replace(
        band[0],
        words=tuple(word for line in band for word in line.words),
        box=surround([line.box for line in band]),
    )


def _paragraphs(lines: list[TextLine]) -> list[TextParagraph]:
    gaps = [below.box.top - above.box.bottom for above, below in pairwise(lines)]
    usual = median(gaps) if gaps else 0.0
    groups = [lines[:1]]
    for above, below, gap in zip(lines, lines[1:], gaps, strict=False):
        small, large = sorted((_height(above), _height(below)))
        if gap - usual > _BREAK * small or large > _SAME_SIZE * small:
            groups.append([])
        groups[-1].append(below)
    return [TextParagraph(tuple(group), surround([line.box for line in group])) for group in groups]


def _letters(line: TextLine) -> int:
    return sum(len(word.text) for word in line.words)


def _height(line: TextLine) -> int:
    return max(1, line.box.bottom - line.box.top)


def _middle(line: TextLine) -> float:
    return (line.box.top + line.box.bottom) / 2
