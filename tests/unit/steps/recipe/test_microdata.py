"""Recipes in the attributes of tags are read, nested, referenced, and cut off."""

import pytest

from quire.steps.recipe.microdata import read_attributes
from quire.tools.html_tree import parse_tree

SCOPE = '<div itemscope itemtype="https://schema.org/Recipe">'


def read(html: str) -> list[dict[str, object]]:
    return read_attributes(parse_tree(html))


def test_values_come_from_the_attribute_that_holds_them():
    html = f"""{SCOPE}<meta itemprop="prepTime" content="PT5M"><time itemprop="cookTime" datetime="PT9M">nine</time>
    <img itemprop="image" src="/a.jpg"><span itemprop="totalTime" content="PT14M">14</span><h1 itemprop="name">Soup</h1></div>"""

    assert read(html) == [
        {
            "@type": "Recipe",
            "prepTime": "PT5M",
            "cookTime": "PT9M",
            "image": "/a.jpg",
            "totalTime": "PT14M",
            "name": "Soup",
        }
    ]


def test_names_of_nested_items_are_not_the_name_of_the_recipe():
    html = f'{SCOPE}<p itemprop="author" itemscope itemtype="http://schema.org/Person"><b itemprop="name">Ann</b></p><b itemprop="name">Soup</b></div>'

    assert read(html)[0]["name"] == "Soup"


def test_ingredients_outside_of_the_item_are_found():
    html = f'{SCOPE}<b itemprop="name">Soup</b></div><li itemprop="ingredients">1 leek</li><p itemprop="recipeInstructions">Boil.</p>'

    assert read(html) == [
        {"@type": "Recipe", "name": "Soup", "recipeIngredient": ["1 leek"], "recipeInstructions": ["Boil."]}
    ]


def test_other_items_are_no_recipes():
    assert read('<div itemscope itemtype="http://schema.org/Person"><b itemprop="name">Ann</b></div>') == []
    assert read("<p>Nothing</p>") == []


def section(name, refs):
    return (
        f'<div id={name} itemprop=recipeInstructions itemscope itemtype="http://schema.org/HowToSection" '
        f'itemref="{refs}"><p itemprop=name>{name}</p></div>'
    )


RECIPE = '<div itemscope itemtype="http://schema.org/Recipe" itemref="{}"></div>'


@pytest.mark.parametrize(
    "sections",
    [
        [("a0", "a0")],
        [("a0", "b"), ("b", "a0")],
        [(f"{side}{level}", f"a{level + 1} b{level + 1}") for level in range(100) for side in "ab"],
        [(f"a{level}", f"a{level + 1}") for level in range(3000)],
    ],
)
def test_references_of_items_to_each_other_come_to_an_end(sections):
    page = RECIPE.format("a0") + "".join(section(*one) for one in sections)
    (recipe,) = read_attributes(parse_tree(f"<html><body>{page}</body></html>"))
    assert recipe["recipeInstructions"][0]["name"] == "a0"
