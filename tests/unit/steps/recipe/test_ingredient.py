"""Ingredient lines are split into quantity, unit, name and notes, and no word of them is lost."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.situations.recipe_lines import ROWS
from tests.situations.recipe_texts import read_truth, recipe_texts

from quire.model.recipe import Ingredient
from quire.steps.recipe.ingredient import clean_line, is_heading, parse_ingredient, write_ingredient

WORDS = (
    "1", "2", "½", "1/2", "1 1/2", "2-3", "1,5", "400", "x", "a", "one", "half", "dozen", "about", "~", "cup", "cups", "tbsp", "T",
    "g", "kg", "oz", "can", "(14 oz)", "(", ")", ",", "of", "plus", "or", "butter", "garlic", "onion", "minced", "chopped",
    "finely", "fresh", "to taste", "optional", "-", "–", ";", ":", "%", "l", "salt,", "large", "skinless,", "de", "d'ail", "pinch",
)  # fmt: skip
CONNECTING = {"of", "the", "a", "an", "de", "d", "di", "von", "du", "des", "del", "della", "l", "i", "x"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_line_is_split_into_its_parts(row: tuple[str, ...]):
    line, quantity, unit, name, notes = row
    expected = Ingredient(name=name, quantity=quantity or None, unit=unit or None, notes=notes or None)
    assert parse_ingredient(line) == expected


def test_there_are_enough_lines():
    assert len(ROWS) >= 150


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_written_ingredient_is_read_again(row: tuple[str, ...]):
    parsed = parse_ingredient(row[0])
    assert parse_ingredient(write_ingredient(parsed)) == parsed


def words_of(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+|\d+", text.casefold())


def assert_covers(line: str) -> None:
    parsed = parse_ingredient(line)
    kept = words_of(
        " ".join(part for part in (parsed.quantity, parsed.unit, parsed.name, parsed.notes) if part)
    )
    lost = [word for word in set(words_of(line)) - set(kept) if word not in CONNECTING]
    # A misread `l` or `I` is written as the 1 that it is.
    assert lost == [], (line, parsed)


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join))
def test_no_word_of_a_line_is_lost(line: str):
    assert_covers(line)


@given(st.text(max_size=200))
def test_any_text_is_taken(line: str):
    parsed = parse_ingredient(line)
    assert parsed.name or not words_of(clean_line(line))


@pytest.mark.parametrize("name", sorted(recipe_texts()))
def test_the_lines_of_real_recipes_keep_their_words(name: str):
    for line in read_truth(recipe_texts()[name]).lines:
        assert_covers(line)


@pytest.mark.parametrize(
    "line", ["For the sauce:", "Spices:", "For the dough", "Für den Teig", "Pour la pâte :", "Dough:"]
)
def test_a_heading_is_told_from_an_ingredient(line: str):
    assert is_heading(line)


@pytest.mark.parametrize(
    "line",
    ["salt", "2 cups flour:", "1 onion", "", "butter for frying the onions and the garlic, and more:" * 3],
)
def test_an_ingredient_is_no_heading(line: str):
    assert not is_heading(line)


@pytest.mark.parametrize("sign", ["(", "1", "1/", "½", "1 to ", "a ", ",", "1 x ", "half a ", "- ", "about "])
def test_a_hostile_line_costs_no_more_than_a_long_one(sign: str):
    line = sign * 200_000
    assert parse_ingredient(line).name == clean_line(line)
    short = (sign * 2000)[:2000]
    assert parse_ingredient(short).name
