import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.model.errors import Reject
from quire.tools import languages


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("eng", ("en",)),
        ("en", ("en",)),
        ("en-GB", ("en",)),
        ("EN_us", ("en",)),
        ("eng+deu", ("en", "de")),
        ("en, de;fr", ("en", "de", "fr")),
        ("eng+en", ("en",)),
        ("chi_tra", ("zh",)),
        ("zh-Hant", ("zh",)),
        ("ger", ("de",)),
        ("grc", ("grc",)),
        ("", ()),
    ],
)
def test_names_of_both_kinds_are_understood(text, short):
    assert languages.parse_languages(text) == short


@pytest.mark.parametrize(
    "text",
    ["../eng", "en/../../x", "e", "english language!", "en\0", "e" * 50, "+".join(["en", "de"] * 2000)],
)
def test_what_cannot_be_a_language_is_refused_or_harmless(text):
    try:
        found = languages.parse_languages(text)
    except Reject as refusal:
        assert refusal.code == "bad_request"  # noqa: PT017 - both ends are right
    else:
        assert found == ("en", "de")


@given(st.text(max_size=40))
def test_no_name_of_a_language_leads_out_of_a_folder(text):
    try:
        found = languages.parse_languages(text)
    except Reject:
        return
    for name in map(languages.long_name, found):
        assert name.replace("_", "").isalpha()
        assert name.isascii()


def test_every_short_name_has_a_long_one_and_back():
    for short in ("en", "de", "he", "zh", "el"):
        assert languages.parse_languages(languages.long_name(short)) == (short,)


def test_a_language_is_detected_and_garbage_is_none():
    first = languages.detect_languages("Das ist ein kleines Haus auf dem Berg")[0]
    assert (first.name, first.score > 0.9) == ("de", True)
    assert languages.detect_languages("12 — 34") == []
    assert languages.detect_languages("uanobio aq SN ea ey ybnoys")[0].score < 0.6


def test_words_are_known_by_language():
    assert languages.is_known("kitchen", ["en"])
    assert not languages.is_known("cupboard", ["de"])
    assert languages.is_known("küche", ["en", "de"])
    assert not languages.is_known("tbe", ["en"])
    assert not languages.is_known("gallia", ["la"])
    assert (languages.has_word_list("no"), languages.has_word_list("la")) == (True, False)
