import pytest

from quire.model.page_text import Box, TextWord
from quire.tools.tesseract_page import correct_bars


def _corrected(text):
    return " ".join(
        word.text for word in correct_bars([TextWord(one, Box(0, 0, 1, 1), 0.9) for one in text.split()])
    )


@pytest.mark.parametrize(
    ("read", "meant"),
    [
        ("“When | reached the lawn", "“When I reached the lawn"),
        ("and | felt faint when | faced it", "and I felt faint when I faced it"),
        ("all the time [ was saying", "all the time I was saying"),
        ("so did |, he said", "so did I, he said"),
        ("dread, 1 knew that 1 ran, at once", "dread, I knew that I ran, at once"),
        ("“| thought so", "“I thought so"),
    ],
)
def test_a_bar_in_prose_is_the_word_i(read, meant):
    assert _corrected(read) == meant


@pytest.mark.parametrize(
    "text",
    [
        "one | two | three | four",
        "| 12 | 14",
        "see [ the note ] below",
        "A | B",
        "no bars here",
        "1 can of beans and 1 cup",
    ],
)
def test_bars_of_tables_and_brackets_stay(text):
    assert _corrected(text) == text
