"""The gate lets short cards through, and keeps gibberish and other texts out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.situations.recipe_cards import CARDS, add_noise
from tests.situations.recipe_texts import recipe_texts

from quire.steps.recipe.quality_gate import QualityLimits, check_quality

TEXTS = recipe_texts()


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_recipes_pass_even_when_noisy(name: str):
    card = CARDS["plain_card"](TEXTS[name])

    assert check_quality([card], [0.9]) == []
    assert check_quality([add_noise(card, share=0.02, seed=1)], [0.4]) == []


def test_a_short_card_passes():
    card = "Toast\n2 slices of bread\n1 tbsp butter\n1 pinch of salt\nToast the bread in the oven and spread the butter."

    assert check_quality([card], [0.8]) == []


@pytest.mark.parametrize(
    ("text", "confidence", "problem"),
    [
        ("Toast\nBread\nSalt\nMix", 0.9, "characters"),
        ("Mix two cups of flour with one cup of sugar and bake it for an hour in the oven until brown and dry.", 0.9, "lines"),
        ("#$%^ &*() 2@! ;;;; ====\n" * 12, 0.9, "letters"),
        ("xkcd qwrt zzzz bcdfg hjklm\n" * 12, 0.9, "vowels"),
        ("a b c d e f g h i o u\n" * 12, 0.9, "words"),
        ("The parliament has voted against the motion of the minister.\n" * 8, 0.2, "recipe"),
    ],
)  # fmt: skip
def test_poor_text_is_kept_out(text: str, confidence: float, problem: str):
    assert any(problem in found for found in check_quality([text], [confidence]))


def test_the_limits_can_be_set():
    card = CARDS["plain_card"](TEXTS["sand-tarts"])

    assert check_quality([card], [0.9], QualityLimits(min_characters=5000)) != []


@given(st.lists(st.text(max_size=300), max_size=3), st.lists(st.floats(0, 1), max_size=3))
def test_any_text_is_judged(texts: list[str], confidences: list[float]):
    assert isinstance(check_quality(texts, confidences), list)
