from hypothesis import given
from hypothesis import strategies as st

from quire.model.page_text import Box, PageText, TextLine, TextParagraph, TextWord
from quire.tools.page_geometry import Tilt, surround, turn_box, weigh_confidence

WIDTH, HEIGHT = 400, 300
edges = st.tuples(
    st.integers(0, WIDTH - 2), st.integers(0, HEIGHT - 2), st.integers(1, 99), st.integers(1, 99)
)
boxes = edges.map(lambda one: Box(one[0], one[1], min(one[0] + one[2], WIDTH), min(one[1] + one[3], HEIGHT)))


def _page(box):
    line = TextLine((TextWord("word", box, 0.5),), box, baseline=float(box.bottom), ascent=9.0)
    return PageText(width=WIDTH, height=HEIGHT, paragraphs=(TextParagraph((line,), box),))


@given(boxes)
def test_four_quarters_lead_back(box):
    turned = turn_box(box, 90, WIDTH, HEIGHT)
    assert turn_box(turned, 90, HEIGHT, WIDTH) == turn_box(box, 180, WIDTH, HEIGHT)
    assert turn_box(turned, 270, HEIGHT, WIDTH) == box


def test_a_box_at_the_top_left_turns_to_the_top_right():
    assert turn_box(Box(0, 0, 10, 20), 90, WIDTH, HEIGHT) == Box(280, 0, 300, 10)


@given(boxes, st.floats(-15, 15))
def test_places_on_a_tilted_page_stay_on_it_and_keep_their_middle(box, degrees):
    found = Tilt(degrees, WIDTH, HEIGHT, (WIDTH, HEIGHT)).place_page(_page(box))
    word = found.paragraphs[0].lines[0].words[0].box
    assert 0 <= word.left < word.right <= WIDTH
    assert 0 <= word.top < word.bottom <= HEIGHT
    back = Tilt(-degrees, WIDTH, HEIGHT, (WIDTH, HEIGHT)).place_page(found).paragraphs[0].lines[0]
    if box.left > 120 and box.right < 280 and box.top > 110 and box.bottom < 190:
        assert abs(back.words[0].box.left + back.words[0].box.right - box.left - box.right) <= 4
        assert abs(back.words[0].box.top + back.words[0].box.bottom - box.top - box.bottom) <= 4
        assert abs(back.slope) < 1e-3


def test_a_page_turned_clockwise_to_be_level_rose_to_the_right():
    line = Tilt(5, WIDTH, HEIGHT, (WIDTH, HEIGHT)).place_page(_page(Box(100, 140, 300, 160)))
    assert -0.09 < line.paragraphs[0].lines[0].slope < -0.08


def test_confidence_counts_by_characters():
    box = Box(0, 0, 1, 1)
    words = (TextWord("abcd", box, 1.0), TextWord("e", box, 0.0))
    assert weigh_confidence([TextParagraph((TextLine(words, box, 1.0),), box)]) == 0.8
    assert weigh_confidence([]) == 0.0


def test_the_box_around_several():
    assert surround([Box(5, 6, 7, 8), Box(1, 7, 3, 20)]) == Box(1, 6, 7, 20)
