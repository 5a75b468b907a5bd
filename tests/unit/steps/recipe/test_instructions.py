"""Steps are read from every shape of recipeInstructions, and names of sections stay."""

import pytest

from quire.steps.recipe.instructions import find_steps

SHAPES = [
    ("Mix all.\nBake it.", ["Mix all.", "Bake it."]),
    ("1. Mix all. 2. Bake it.", ["Mix all.", "Bake it."]),
    ("Step 1: Mix all. Step 2: Bake it.", ["Mix all.", "Bake it."]),
    ("Mix all. Bake it for 5 min. at 350 degrees.", ["Mix all.", "Bake it for 5 min. at 350 degrees."]),
    ("<ol><li>Mix all.</li><li>Bake it.</li></ol>", ["Mix all.", "Bake it."]),
    ("<p>Mix &amp; knead.</p><p>Bake it.</p>", ["Mix & knead.", "Bake it."]),
    (["Mix all.", "Bake it."], ["Mix all.", "Bake it."]),
    (["1. Mix all.", "2. Bake it."], ["Mix all.", "Bake it."]),
    ([["Mix all.", "Bake it."]], ["Mix all.", "Bake it."]),
    ([{"@type": "HowToStep", "text": "Mix all."}, {"@type": "HowToStep", "name": "Bake it."}], ["Mix all.", "Bake it."]),
    ([{"text": "Mix all.", "name": "Mix all"}, {"text": "Bake it.", "name": "Step 2"}], ["Mix all.", "Bake it."]),
    ([{"name": "The dough", "text": "Mix all."}, {"text": "Bake it."}], ["The dough", "Mix all.", "Bake it."]),
    (
        [
            {"@type": "HowToSection", "name": "Dough", "itemListElement": [{"text": "Mix all."}]},
            {"@type": "HowToSection", "name": "Oven", "itemListElement": {"text": "Bake it."}},
        ],
        ["Dough", "Mix all.", "Oven", "Bake it."],
    ),
    ({"@type": "ItemList", "itemListElement": [{"@type": "ListItem", "item": {"text": "Mix all."}}, {"text": "Bake it."}]}, ["Mix all.", "Bake it."]),
    ([{"@type": "HowToStep", "itemListElement": [{"@type": "HowToDirection", "text": "Mix all."}]}, "Bake it."], ["Mix all.", "Bake it."]),
    ([{"@id": "#1"}, {"text": "Bake it."}], ["Mix all.", "Bake it."]),
]  # fmt: skip


@pytest.mark.parametrize(("given", "steps"), SHAPES, ids=range(len(SHAPES)))
def test_steps_have_many_shapes(given: object, steps: list[str]):
    assert find_steps(given, {"#1": {"@id": "#1", "text": "Mix all."}}) == steps


@pytest.mark.parametrize("given", [None, 3, True, "", [], {}, [[]], [{}], [None, 4]])
def test_no_steps_are_an_empty_list(given: object):
    assert find_steps(given) == []


def test_steps_that_hold_themselves_come_to_an_end():
    node: dict[str, object] = {"name": "x"}
    node["itemListElement"] = [node]

    assert find_steps([node])
