from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from quire.model.page_text import Box
from quire.tools.quad_lines import clip_line, line_of_quad

SQUARE = [(100.0, 50.0), (300.0, 50.0), (300.0, 70.0), (100.0, 70.0)]
WIDTH, HEIGHT = 320, 90


def test_words_are_placed_by_the_columns_in_which_their_letters_were_seen():
    columns = SimpleNamespace(
        word_cols=[[10, 12, 14], [30, 32]], confs=[1.0, 0.8, 0.6, 0.1, 0.5, 0.5], line_txt_len=40
    )
    line = line_of_quad(SQUARE, "abc de", 0.7, columns)
    first, second = line.words
    assert (first.text, second.text, first.confidence, second.confidence) == ("abc", "de", 0.8, 0.5)
    assert first.box.left < 100 + 200 * 10.5 / 40 < 100 + 200 * 14.5 / 40 < first.box.right
    assert first.box.right < second.box.left < 100 + 200 * 30.5 / 40
    assert (line.box, line.slope) == (Box(100, 50, 300, 70), 0)
    assert 60 < line.baseline < 70


def test_without_columns_words_share_the_line_by_their_letters():
    line = line_of_quad(SQUARE, "ab cd", 0.7)
    assert [word.box.left for word in line.words] == [100, 220]
    assert {word.confidence for word in line.words} == {0.7}


def test_a_sloping_line_has_words_that_sink_with_it():
    line = line_of_quad([(0.0, 0.0), (200.0, 20.0), (198.0, 40.0), (-2.0, 20.0)], "left right", 0.9)
    assert abs(line.slope - 0.1) < 0.01
    assert line.words[1].box.top > line.words[0].box.top + 5


coordinates = st.floats(-500, 500)
corners = st.lists(st.tuples(coordinates, coordinates), min_size=4, max_size=4)


@given(corners, st.text(min_size=1, max_size=30).filter(str.strip), st.floats(0, 1))
def test_whatever_an_engine_gives_stays_on_the_picture(quad, text, score):
    line = clip_line(line_of_quad(quad, text, score), WIDTH, HEIGHT)
    assert " ".join(word.text for word in line.words) == " ".join(text.split())
    for box in (line.box, *(word.box for word in line.words)):
        assert 0 <= box.left < box.right <= WIDTH
        assert 0 <= box.top < box.bottom <= HEIGHT
