"""The guard: what a converter lost or put in another order is noticed; markup and tables are no fault."""

from hypothesis import given
from hypothesis import strategies as st

from quire.steps import plain_markdown
from quire.steps.markdown_guard import find_fault

LEFT = [f"left{at} alder birch cedar" for at in range(20)]
RIGHT = [f"right{at} elder ferns gorse" for at in range(20)]
PAGE = "\r\n".join(LEFT + RIGHT)


def test_the_same_text_with_markup_is_fine():
    assert not find_fault("# " + " ".join(LEFT) + "\n\n**" + "** *".join(RIGHT) + "*", PAGE)


def test_a_page_without_text_is_fine():
    assert not find_fault("", "")


def test_lost_lines_are_noticed():
    assert "lost" in find_fault("\n".join(LEFT), PAGE)


def test_a_page_without_markdown_is_noticed():
    assert "lost 100%" in find_fault("", PAGE)


def test_columns_read_across_are_noticed():
    across = "\n".join(f"{left} {right}" for left, right in zip(LEFT, RIGHT, strict=True))

    assert "order" in find_fault(across, PAGE)


def test_a_table_may_be_read_in_its_own_order():
    rows = "\n".join(f"| {left} | {right} |" for left, right in zip(LEFT, RIGHT, strict=True))

    assert not find_fault(f"| a | b |\n|---|---|\n{rows}", PAGE)


def test_words_that_one_reader_joins_and_another_parts_are_no_loss():
    assert not find_fault("400.01 3\n\n600.01 5", "400.013\r\n600.015")


@given(
    st.lists(st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=12), min_size=1, max_size=200)
)
def test_the_plain_text_itself_is_never_at_fault(words):
    lines = [" ".join(words[at : at + 8]) for at in range(0, len(words), 8)]

    assert not find_fault(plain_markdown.from_lines([(line, 10.0) for line in lines]), "\n".join(lines))
