"""recipe-scrapers is asked for known sites only, and its errors stay inside."""

import json

from quire.steps.recipe.page import parse_page
from quire.tools.recipe_scrapers_site import read_site

RECIPE = {
    "@context": "https://schema.org",
    "@type": "Recipe",
    "name": "Soup",
    "recipeIngredient": ["1 leek", "salt"],
    "recipeInstructions": [
        {"@type": "HowToStep", "text": "Cut it."},
        {"@type": "HowToStep", "text": "Boil it."},
    ],
}
HTML = f'<html><script type="application/ld+json">{json.dumps(RECIPE)}</script></html>'


def test_a_known_site_is_read():
    found = read_site(HTML, "https://www.allrecipes.com/recipe/1/")

    assert found is not None
    assert (found.title, found.ingredients, found.steps) == (
        "Soup",
        ("1 leek", "salt"),
        ("Cut it.", "Boil it."),
    )


def test_an_unknown_site_is_not_read():
    assert read_site(HTML, "https://kitchen.example/soup") is None


def test_a_page_that_the_scraper_cannot_read_gives_nothing_and_no_error():
    found = read_site("<html></html>", "https://www.allrecipes.com/recipe/1/")

    assert found is None or not found.ingredients
    page = parse_page(
        b"<html><p>no recipe</p></html>", url="https://www.allrecipes.com/recipe/1/", use_known_sites=True
    )
    assert page.recipe is None
