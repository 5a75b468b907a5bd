"""Lines of recognised text are mended and joined."""

import pytest

from quire.steps.recipe.text_blocks import join_ingredients, join_steps, part_mixed
from quire.steps.recipe.text_lines import mend_lines, part_interleaved


def test_hyphenation_is_undone_and_real_hyphens_stay():
    assert mend_lines("all ingre-\ndients\nuse all-\npurpose flour") == [
        "all ingredients",
        "use all-purpose flour",
    ]


def test_page_numbers_specks_and_running_headers_are_dropped():
    text = "My Book\n\n1 cup flour\n~ |\n12\n\nMy Book\n\n2 eggs\n\nPage 2 of 9\n"

    assert [line for line in mend_lines(text) if line] == ["My Book", "1 cup flour", "2 eggs"]


def test_two_columns_are_read_one_after_the_other():
    rows = [
        "2 cups flour        Heat the oven.",
        "1 egg               Mix all.",
        "salt                Bake it.",
        "oil",
    ]

    assert [line for line in mend_lines("\n".join(rows)) if line] == [
        "2 cups flour", "1 egg", "salt", "oil", "Heat the oven.", "Mix all.", "Bake it.",
    ]  # fmt: skip


def test_an_ingredient_and_a_step_in_one_line_are_parted():
    assert part_interleaved("2 cups flour Preheat the oven to 350.") == (
        "2 cups flour",
        "Preheat the oven to 350.",
    )
    assert part_interleaved("2 cups Dry mustard") is None


def test_wrapped_ingredients_are_joined():
    lines = [
        "2 cups of all-purpose flour, sifted and",
        "measured",
        "1 cup milk (or",
        "cream)",
        "salt",
        "Pepper",
    ]

    assert join_ingredients(lines) == [
        "2 cups of all-purpose flour, sifted and measured",
        "1 cup milk (or cream)",
        "salt",
        "Pepper",
    ]


@pytest.mark.parametrize(
    "lines",
    [
        ["1. Mix all", "in a bowl.", "2. Bake it."],
        ["• Mix all", "in a bowl.", "• Bake it."],
        ["Mix all", "in a bowl.", "", "Bake it."],
        ["1) Mix all", "in a bowl.", "", "2) Bake it."],
    ],
)
def test_steps_are_joined(lines: list[str]):
    assert join_steps(lines) == ["Mix all in a bowl.", "Bake it."]


def test_lines_without_headings_are_sorted_by_their_look():
    ingredients, steps = part_mixed(
        ["2 cups flour", "1 egg", "salt", "Mix all in a bowl.", "Bake it for an hour."]
    )

    assert ingredients == ["2 cups flour", "1 egg", "salt"]
    assert steps == ["Mix all in a bowl.", "Bake it for an hour."]
