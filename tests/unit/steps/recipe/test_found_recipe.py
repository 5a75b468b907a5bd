"""What was found becomes a draft and a parsed recipe."""

import pytest

from quire.model.recipe import RecipeSource
from quire.steps.recipe.found_recipe import (
    FoundRecipe,
    complete,
    count_servings,
    group_ingredients,
    make_draft,
    make_parsed,
)

FOUND = FoundRecipe(
    title="Soup", ingredients=("For the broth:", "2 cups water", "salt", "Top", "1 leek, cut"), groups=frozenset({"Top"}),
    steps=("Boil.",), prep_minutes=5, cook_minutes=20, servings="4 bowls",
)  # fmt: skip


def test_headings_become_notes_of_the_ingredients_below_them():
    parts = group_ingredients(FOUND.ingredients, FOUND.groups)

    assert [(part.name, part.notes) for part in parts] == [
        ("water", "For the broth"),
        ("salt", "For the broth"),
        ("leek", "cut, Top"),
    ]


def test_the_total_is_the_sum_where_none_is_given():
    assert make_draft(FOUND, RecipeSource(type="url")).total_time_minutes == 25
    parsed = make_parsed(FOUND, None)
    assert (parsed.estimated_time_minutes, parsed.servings) == (25, 4)
    assert [part.text for part in parsed.ingredients] == [
        "For the broth:",
        "2 cups water",
        "salt",
        "1 leek, cut",
    ]


def test_what_one_lacks_the_other_fills():
    filled = complete(FoundRecipe(title="Stew"), FOUND)

    assert (filled.title, filled.steps, filled.groups) == ("Stew", ("Boil.",), FOUND.groups)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("4", 4),
        ("4-6 servings", 4),
        ("2 dozen cookies", 24),
        ("varies", None),
        ("", None),
        ("0", None),
        ("99999", None),
    ],
)
def test_servings_are_counted(text: str, count: int | None):
    assert count_servings(text) == count
