"""Lines that were read across two columns are taken apart; rows of tables stay rows."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from quire.model.page_text import Box, TextLine, TextParagraph, TextWord
from quire.tools.merged_columns import part_columns
from quire.tools.page_geometry import join_text, surround

LEFT = ["1 cup plain flour", "3 tbsp white sugar", "2 large eggs", "50 g soft butter"]
RIGHT = ["Whisk the flour and the sugar", "in a large bowl and", "stir in the eggs and", "bake until golden"]


def _words(text, left, top):
    words = []
    for word in text.split():
        words.append(TextWord(word, Box(left, top, left + 10 * len(word), top + 20), 0.9))
        left += 10 * len(word) + 8
    return words


def _line(top, *parts):
    """`parts`: where a text begins, and the text."""
    words = tuple(word for left, text in parts for word in _words(text, left, top))
    return TextLine(words, surround([word.box for word in words]), top + 20.0)


def _paragraph(*lines):
    return TextParagraph(tuple(lines), surround([line.box for line in lines]))


def _rows(left, right, top=100):
    return [
        _line(top + 30 * row, (0, one), (400, other))
        for row, (one, other) in enumerate(zip(left, right, strict=True))
    ]


def _read(*lines):
    return join_text(part_columns([_paragraph(*lines)])).split("\n")


def test_joined_columns_are_read_one_after_the_other():
    assert _read(*_rows(LEFT, RIGHT)) == [*LEFT, "", *RIGHT]


def test_what_spans_both_columns_stays_above_and_below():
    above = _line(40, (0, "This is the headline that stands above both of the two columns"))
    below = _line(260, (0, "Here is a last line that stands below both of the two columns"))

    read = _read(above, *_rows(LEFT, RIGHT), below)

    assert [line for line in read if line] == [
        "This is the headline that stands above both of the two columns",
        *LEFT,
        *RIGHT,
        "Here is a last line that stands below both of the two columns",
    ]


def test_a_column_that_goes_on_alone_keeps_its_last_lines():
    read = _read(*_rows(LEFT, RIGHT), _line(220, (0, "1 pinch of nutmeg")))

    assert [line for line in read if line] == [*LEFT, "1 pinch of nutmeg", *RIGHT]


def test_a_larger_distance_begins_a_paragraph():
    rows = [*_rows(LEFT[:2], RIGHT[:2], 100), *_rows(LEFT[2:], RIGHT[2:], 180)]

    assert _read(*rows) == [*LEFT[:2], "", *LEFT[2:], "", *RIGHT[:2], "", *RIGHT[2:]]


def test_two_groups_of_columns_are_both_taken_apart():
    between = _line(240, (0, "This is a headline that stands between both pairs of columns"))
    read = _read(*_rows(LEFT, RIGHT), between, *_rows(RIGHT, LEFT, 290))

    assert [line for line in read if line] == [*LEFT, *RIGHT, *_read(between), *RIGHT, *LEFT]


def test_three_columns():
    lines = [
        _line(30 * row, (0, "one two three"), (400, "four five six"), (800, "x y z")) for row in range(4)
    ]

    assert [line for line in _read(*lines) if line] == (
        ["one two three"] * 4 + ["four five six"] * 4 + ["x y z"] * 4
    )


def test_prices_and_forms_and_numbers_stay_rows():
    prices = _rows(LEFT, ["1.29", "2.49", "3.19", "12.90"])
    form = _rows(["Name", "Town", "Street", "Country"], RIGHT)
    numbers = _rows(["1 2 3"] * 4, ["4 5 6"] * 4)
    for lines in (prices, form, numbers):
        paragraphs = (_paragraph(*lines),)
        assert part_columns(paragraphs) == paragraphs


def test_a_few_rows_are_no_columns():
    paragraphs = (_paragraph(*_rows(LEFT[:3], RIGHT[:3])),)

    assert part_columns(paragraphs) == paragraphs


def test_a_page_without_text():
    assert part_columns([]) == ()


_TEXTS = st.lists(st.sampled_from(["a", "flour", "12", "und"]), min_size=1, max_size=4).map(" ".join)
_PARTS = st.lists(st.tuples(st.integers(0, 900), _TEXTS), min_size=1, max_size=3)


@given(st.lists(st.lists(st.tuples(st.integers(0, 400), _PARTS), min_size=1, max_size=8), max_size=4))
def test_no_word_is_lost_or_added(pages):
    paragraphs = [_paragraph(*(_line(top, *parts) for top, parts in lines)) for lines in pages]

    read = part_columns(paragraphs)

    def count(found):
        return Counter(word for paragraph in found for line in paragraph.lines for word in line.words)

    assert count(read) == count(paragraphs)
    assert all(paragraph.box == surround([line.box for line in paragraph.lines]) for paragraph in read)
