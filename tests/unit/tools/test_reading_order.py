from hypothesis import given
from hypothesis import strategies as st

from quire.model.page_text import Box, TextLine, TextWord
from quire.tools.page_geometry import join_text
from quire.tools.reading_order import arrange_lines


def _line(text, left, top, width=400, height=20):
    box = Box(left, top, left + width, top + height)
    return TextLine(tuple(TextWord(word, box, 0.9) for word in text.split()), box, float(box.bottom))


def _read(*lines):
    return join_text(arrange_lines(lines))


def _column(name, left, top, rows, width=400):
    return [_line(f"{name} is line number {row}", left, top + 30 * row, width) for row in range(rows)]


def test_columns_are_read_one_after_the_other_below_their_heading():
    text = _read(
        *_column("right", 500, 100, 4),
        _line("A heading over both of the columns", 0, 40, 900),
        *_column("left", 0, 100, 4),
        _line("A line below both of the columns", 0, 260, 900),
    )
    rows = [f"left is line number {row}" for row in range(4)] + [
        f"right is line number {row}" for row in range(4)
    ]
    assert [line for line in text.split("\n") if line] == [
        "A heading over both of the columns",
        *rows,
        "A line below both of the columns",
    ]


def test_three_columns():
    columns = [_column(name, left, 0, 5, 250) for name, left in (("one", 0), ("two", 300), ("three", 600))]
    text = _read(*columns[2], *columns[0], *columns[1])
    assert [line.split()[0] for line in text.split("\n") if line] == ["one"] * 5 + ["two"] * 5 + ["three"] * 5


def test_a_table_is_read_row_by_row():
    cells = [("flour", "2 cups"), ("sugar", "1 cup"), ("eggs", "3"), ("milk", "half a pint")]
    lines = [
        line
        for row, (name, amount) in enumerate(cells)
        for line in (_line(amount, 300, 30 * row, 100), _line(name, 0, 30 * row, 100))
    ]
    assert _read(*lines) == "flour 2 cups\nsugar 1 cup\neggs 3\nmilk half a pint"


def test_parts_of_one_line_are_joined_even_when_it_is_tilted_a_little():
    assert _read(_line("a test", 200, 4, 100), _line("This is", 0, 0, 150)) == "This is a test"


def test_paragraphs_are_parted_by_room_and_by_size():
    lines = [*_column("first", 0, 0, 3), *_column("second", 0, 130, 3), _line("Large", 0, 220, 400, 60)]
    assert [len(one.lines) for one in arrange_lines(lines)] == [3, 3, 1]


def test_nothing_gives_nothing():
    assert arrange_lines([]) == ()


places = st.tuples(st.integers(0, 900), st.integers(0, 900), st.integers(1, 500), st.integers(1, 60))


@given(st.lists(places, max_size=25))
def test_no_word_is_lost_or_doubled(found):
    lines = [_line(f"w{number}", *place) for number, place in enumerate(found)]
    arranged = arrange_lines(lines)
    words = [word.text for one in arranged for line in one.lines for word in line.words]
    assert sorted(words) == sorted(f"w{number}" for number in range(len(found)))
    for one in arranged:
        for line in one.lines:
            assert all(word.box.left >= line.box.left for word in line.words)
            assert all(word.box.bottom <= line.box.bottom for word in line.words)
