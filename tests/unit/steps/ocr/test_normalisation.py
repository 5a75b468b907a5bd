from hypothesis import given
from hypothesis import strategies as st

from quire.steps.ocr.normalisation import normalise_text


def test_text_gets_plain_line_ends_single_blanks_and_one_empty_line():
    given_text = "  Pan\0cakes \r\n\r\n\r\n\n2\t\u00a0 eggs\rflour  "
    assert normalise_text(given_text) == "Pancakes\n\n2 eggs\nflour"


@given(st.text(alphabet=st.sampled_from("a \t\n\r\0\u00a0\u2003|")))
def test_doing_it_twice_changes_nothing(text):
    once = normalise_text(text)
    assert normalise_text(once) == once
    assert not set("\0\r\t").intersection(once)
    assert "\n\n\n" not in once
    assert "  " not in once
    assert once == once.strip()
