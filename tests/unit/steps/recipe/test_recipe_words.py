"""Units, lists in one string, notes, and text with HTML in it."""

import pytest

from quire.steps.recipe.ingredient_list import split_ingredients
from quire.steps.recipe.ingredient_notes import join_notes, split_notes
from quire.steps.recipe.rich_text import drop_numbers, read_line, read_lines, split_numbered, split_sentences
from quire.steps.recipe.units import count_unit_words, is_unit


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["cups", "x"], 1),
        (["fl", "oz", "x"], 2),
        (["heaped", "tbsp"], 2),
        (["cuillères", "à", "soupe"], 3),
        (["eggs"], 0),
        ([], 0),
    ],
)
def test_units_of_several_words_are_counted(words: list[str], count: int):
    assert count_unit_words(words) == count


def test_a_capital_t_is_a_tablespoon():
    assert is_unit("T")
    assert is_unit("t")
    assert is_unit("Tbsp.")
    assert not is_unit("tomato")


@pytest.mark.parametrize(
    ("text", "name", "notes"),
    [
        ("butter, melted", "butter", ["melted"]),
        ("skinless, boneless chicken, cut", "skinless, boneless chicken", ["cut"]),
        ("milk (warm) (whole)", "milk", ["warm", "whole"]),
        ("milk (warm", "milk (warm", []),
        ("salt to taste", "salt", ["to taste"]),
        ("finely chopped onion", "onion", ["finely chopped"]),
        ("chopped", "chopped", []),
    ],
)
def test_notes_are_taken_out_of_the_name(text: str, name: str, notes: list[str]):
    assert split_notes(text) == (name, notes)
    assert join_notes(notes) == (", ".join(notes) or None)


def test_a_list_in_one_string_is_taken_apart():
    assert split_ingredients(["1 egg, 2 cups flour, salt, 1 tsp sugar"]) == [
        "1 egg",
        "2 cups flour, salt",
        "1 tsp sugar",
    ]
    assert split_ingredients(["salt, oil, milk, eggs"]) == ["salt", "oil", "milk", "eggs"]
    assert split_ingredients(["1 egg • 2 cups flour • salt"]) == ["1 egg", "2 cups flour", "salt"]
    assert split_ingredients(["4 skinless, boneless chicken breasts"]) == [
        "4 skinless, boneless chicken breasts"
    ]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a<br>b", ["a", "b"]),
        ("<p>a &amp;amp; b</p>", ["a & b"]),
        ("<script>x</script>a<style>p{}</style>", ["a"]),
        ("1 < 2 and 3 > 2", ["1 < 2 and 3 > 2"]),
        ("a\u00a0b\u200b", ["a b"]),
        ("<script>" * 1000, []),
        ("<" * 100_000, ["<" * 100_000]),
    ],
)  # fmt: skip
def test_text_is_read_out_of_html(text: str, lines: list[str]):
    assert read_lines(text) == lines
    assert read_line(text) == " ".join(lines)


def test_numbers_are_dropped_from_numbered_lines_only():
    assert drop_numbers(["1. Mix", "2. Bake"]) == ["Mix", "Bake"]
    assert drop_numbers(["Step 1", "Mix", "Step 2", "Bake"]) == ["Mix", "Bake"]
    assert drop_numbers(["Mix 1. time", "2 eggs"]) == ["Mix 1. time", "2 eggs"]


def test_a_line_is_cut_at_numbers_and_sentences():
    assert split_numbered("1. Mix. 2. Bake 3) Eat") == ["1. Mix.", "2. Bake", "3) Eat"]
    assert split_numbered("Add 1. Then 3.") == ["Add 1. Then 3."]
    assert split_sentences("Mix 2 tbsp. Butter with oil. Bake it. Done") == [
        "Mix 2 tbsp. Butter with oil.",
        "Bake it.",
        "Done",
    ]
