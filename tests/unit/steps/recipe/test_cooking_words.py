"""Headings, ingredients and steps are told apart by their words."""

import pytest

from quire.steps.recipe.cooking_words import (
    Part,
    count_kitchen_words,
    ingredient_likeness,
    part_of_heading,
    step_likeness,
)

HEADINGS = {
    Part.INGREDIENTS: ["Ingredients", "INGREDIENTS:", "Ingredients (for 4)", "What you'll need", "Zutaten für 4 Personen", "Ingrédients", "Ingredienti", "* Ingredients *"],
    Part.STEPS: ["Directions", "Instructions:", "Method", "How to make it", "Zubereitung", "Préparation", "Steps", "Preparation", "Let's cook"],
    Part.NOTES: ["Notes", "Cook's notes", "Tips & tricks", "Closing remarks", "Recipe Notes:"],
    Part.OTHER: ["Nutrition", "Nutrition Facts", "12 Comments", "Leave a Reply", "You may also like", "Related recipes"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("part", "text"), [(part, text) for part, texts in HEADINGS.items() for text in texts]
)
def test_a_heading_names_its_part(part: Part, text: str):
    assert part_of_heading(text) is part


@pytest.mark.parametrize(
    "text",
    ["", "Preparation time: 10 min", "Mix all ingredients in a bowl.", "Banana Bread", "x" * 5000, "(" * 80],
)
def test_other_lines_are_no_headings(text: str):
    assert part_of_heading(text) is None


@pytest.mark.parametrize(
    "line",
    [
        "2 cups flour",
        "Pinch of salt",
        "1 onion",
        "• 3 eggs",
        "½ tsp salt",
        "Zest of 1 lemon",
        "Juice of 1½ lemons",
        "Finely grated zest and juice of an orange",
    ],
)
def test_an_ingredient_looks_like_one(line: str):
    assert ingredient_likeness(line) >= 0.7
    assert step_likeness(line) < 0.7


@pytest.mark.parametrize(
    "line",
    [
        "Preheat the oven to 350°F.",
        "1. Mix the flour with the water.",
        "In a large bowl, whisk the eggs until they are pale.",
    ],
)
def test_a_step_looks_like_one(line: str):
    assert step_likeness(line) >= 0.7
    assert ingredient_likeness(line) < 0.5


def test_words_of_the_kitchen_are_counted():
    assert count_kitchen_words("Whisk the eggs in a bowl") == 3
    assert count_kitchen_words("The parliament met on Monday") == 0
