"""The main recipe of a page is chosen, and halves are put together."""

import json

from quire.model.recipe import ParserStrategy
from quire.steps.recipe.candidates import choose, read_blocks, read_known_site, read_page
from quire.steps.recipe.found_recipe import FoundRecipe
from quire.steps.recipe.html_recipe import PageHead
from quire.tools.html_tree import parse_tree

URL = "https://kitchen.example/soup"
SOUP = FoundRecipe(title="Soup", ingredients=("1 leek",), steps=("Boil.",))
STEW = FoundRecipe(
    title="Stew",
    ingredients=("1 leek", "2 carrots", "salt"),
    steps=("Cut.", "Boil."),
    url="https://kitchen.example/stew",
)
HEAD = PageHead(parse_tree("<html><head><title>Soup | Kitchen</title></head><body>x</body></html>"), URL)


def test_the_recipe_named_as_the_page_wins_over_a_longer_one():
    assert choose([STEW, SOUP], HEAD, URL) == SOUP


def test_the_recipe_with_the_address_of_the_page_wins():
    assert choose([SOUP, STEW], None, "https://kitchen.example/stew/") == STEW


def test_a_whole_recipe_wins_over_a_teaser():
    assert choose([FoundRecipe(title="Soup"), STEW], HEAD, URL) == STEW
    assert choose([], HEAD, URL) is None


def test_two_halves_of_one_recipe_are_put_together():
    blocks = [
        json.dumps({"@type": "Recipe", "name": "Soup", "recipeIngredient": ["1 leek", "salt"]}),
        json.dumps({"@type": "Recipe", "name": "soup", "recipeInstructions": ["Cut.", "Boil."]}),
    ]
    found, _ = read_blocks(blocks, URL)

    assert found.is_whole


def test_json_ld_behind_what_the_parser_cuts_off_is_found():
    recipe = json.dumps(
        {"@type": "Recipe", "name": "Soup", "recipeIngredient": ["1 leek"], "recipeInstructions": ["Boil."]}
    )
    text = "<div>" * 400 + f'<script type="application/ld+json">{recipe}</script>'
    found, strategy, _ = read_page(parse_tree(text), text, URL)

    assert found.is_whole
    assert strategy is ParserStrategy.SCHEMA_ORG_JSON_LD


def test_an_unknown_site_changes_nothing():
    assert read_known_site("<html></html>", URL, SOUP, None) == (SOUP, None)
