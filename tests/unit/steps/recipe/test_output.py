"""Drafts are written as text, JSON and JSON-LD, and read again without loss."""

import json

import msgspec
import pytest
from tests.situations.recipe_pages import page_bytes
from tests.situations.recipe_texts import recipe_texts

from quire.model.recipe import RecipeDraft, RecipeSource
from quire.steps.recipe.output import write_json, write_json_ld, write_text
from quire.steps.recipe.page import parse_client_page, parse_page
from quire.steps.recipe.text_recipe import structure_text

TEXTS = recipe_texts()
URL = "https://kitchen.example/r/1"


def draft_of(name: str) -> RecipeDraft:
    body, content_type = page_bytes("json_ld_object", TEXTS[name])
    draft = parse_page(body, url=URL, content_type=content_type).draft
    assert draft is not None
    return draft


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_json_ld_gives_the_same_draft_again(name: str):
    draft = draft_of(name)
    again = parse_client_page([write_json_ld(draft)], None, source_url=URL)

    assert again.draft == draft


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_json_gives_the_same_draft_again(name: str):
    draft = draft_of(name)

    assert msgspec.json.decode(write_json(draft), type=RecipeDraft) == draft


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_plain_text_is_read_again(name: str):
    draft = draft_of(name)
    again = structure_text(write_text(draft), source=RecipeSource(type="text"))

    assert again.title == draft.title
    assert again.ingredients == draft.ingredients
    assert again.steps == draft.steps
    assert again.servings == draft.servings
    assert again.total_time_minutes == draft.total_time_minutes


def test_json_ld_may_stand_in_a_script_tag():
    draft = RecipeDraft(title="</script><b>", steps=("a <b", "c"), source=RecipeSource(type="text"))
    text = write_json_ld(draft)

    assert "<" not in text
    assert json.loads(text)["name"] == "</script><b>"
