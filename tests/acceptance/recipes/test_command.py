"""`quire recipe import` on the command line."""

import json

import pytest
from tests.acceptance.conftest import Quire
from tests.situations.recipe_pages import page_bytes
from tests.situations.recipe_photos import card_photo
from tests.situations.recipe_texts import recipe_texts

pytestmark = pytest.mark.slow

MODEL = """
import json


async def answer(prompt, system, schema):
    made = {
        "title": "From the model",
        "ingredients": [{"name": "flour"}, {"name": "milk"}, {"name": "eggs"}],
        "steps": ["Mix.", "Fry."],
    }
    return json.dumps(made)
"""
SLOW_MODEL = """
async def answer(prompt, system, schema):
    raise TimeoutError
"""
# Enough text for the quality gate, and no list of ingredients that rules could find.
PROSE = """My dear Emma,
you asked how we make the pancakes at home. You
take flour and milk and a few eggs and some sugar.
Then you mix everything in a large bowl and bake it
until it is golden and serve it with butter.
We add salt and cook them in the old black pan.
Yours as ever, Grandmother
"""


@pytest.fixture
def quire(tmp_path):
    return Quire(tmp_path)


def test_the_recipe_on_a_photo_is_printed(quire):
    (quire.folder / "card.png").write_bytes(card_photo())
    done = quire("recipe", "import", "card.png")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Grandma's Pancakes\n")
    assert "- 2 eggs\n" in done.stdout
    assert "Reading the photos" in done.stderr
    linked = quire("recipe", "import", "card.png", "--format", "jsonld", "--title", "Pancakes")
    assert json.loads(linked.stdout)["@type"] == "Recipe"
    assert len(json.loads(linked.stdout)["recipeIngredient"]) == 4

    assert json.loads(quire("clean", "--json").stdout)["recipe_imports"] == 0  # they are not old
    at_once = {"QUIRE_CLEANING_RECIPE_DAYS": "0.000001"}
    listed = json.loads(quire("clean", "--dry-run", "--json", **at_once).stdout)
    assert [(one["kind"], one["files"]) for one in listed] == [("recipe_import", 2)] * 2
    photos = quire.home / "blobs" / "recipe-images"
    assert len([*photos.rglob("*.jpg")]) == 2
    assert json.loads(quire("clean", "--json", **at_once).stdout)["recipe_imports"] == 2
    assert [*photos.rglob("*.jpg")] == []


def test_a_photo_without_a_recipe_ends_with_a_reason(quire):
    (quire.folder / "empty.png").write_bytes(card_photo(""))
    done = quire("recipe", "import", "empty.png")
    assert done.returncode == 3
    assert done.stdout == ""
    assert "photograph the page flat" in done.stderr
    said = quire("recipe", "import", "empty.png", "--json")
    assert said.returncode == 3
    assert json.loads(said.stdout)["error_code"] == "ocr_no_text"


def test_the_recipe_of_a_page_is_printed_where_private_addresses_are_permitted(quire, web):
    body, kind = page_bytes("microdata", recipe_texts()["oatmeal-pancakes"])
    web.pages["/command"] = (200, {"content-type": kind}, body)
    refused = quire("recipe", "import", f"{web.url}/command")
    assert refused.returncode == 1
    assert "recipes.allow_private" in refused.stderr
    done = quire(
        "recipe", "import", f"{web.url}/command", "--format", "json", QUIRE_RECIPES_ALLOW_PRIVATE="true"
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["source"]["source_url"] == f"{web.url}/command"


def test_what_is_no_photo_is_refused(quire):
    (quire.folder / "text.jpg").write_text("no picture")
    assert quire("recipe", "import", "text.jpg").returncode == 1
    assert quire("recipe", "import", "missing.jpg").returncode == 2
    assert quire("recipe", "import", *["text.jpg"] * 9).returncode == 2
    assert quire("recipe", "import", "https://example.org/", "text.jpg").returncode == 2


def test_a_model_is_asked_where_rules_find_nothing_and_only_where_that_is_permitted(quire):
    (quire.folder / "letter.png").write_bytes(card_photo(PROSE))
    (quire.folder / "model.py").write_text(MODEL)
    asked = quire("recipe", "import", "letter.png", "--json", QUIRE_MODEL="model.py:answer")
    assert asked.returncode == 0, (asked.stdout, asked.stderr)
    result = json.loads(asked.stdout)["result"]
    assert result["recipe_draft"]["title"] == "From the model"
    assert result["pipeline"]["used_llm"] is True
    alone = quire(
        "recipe", "import", "letter.png", QUIRE_MODEL="model.py:answer", QUIRE_RECIPES_USE_MODEL="false"
    )
    assert alone.returncode == 3


def test_a_model_that_is_too_slow_each_time_is_named_as_such(quire):
    (quire.folder / "letter.png").write_bytes(card_photo(PROSE))
    (quire.folder / "model.py").write_text(SLOW_MODEL)
    failed = quire("recipe", "import", "letter.png", "--json", QUIRE_MODEL="model.py:answer")
    assert failed.returncode == 3, failed.stderr
    assert json.loads(failed.stdout)["error_code"] == "llm_timeout"
