"""A recipe is found whole in every shape of page; pages without one fail with a reason."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.situations.recipe_pages import PAGES, STRATEGIES, page_bytes
from tests.situations.recipe_texts import read_truth, recipe_texts

from quire.model.recipe import ParsedPage, ParserStrategy, RecipeErrorCode
from quire.steps.recipe.page import MAX_PAGE_BYTES, parse_client_page, parse_page

TEXTS = recipe_texts()
URL = "https://kitchen.example/r/1"
SECTIONS = {"First part", "Second part"}


def read(name: str, recipe: str) -> ParsedPage:
    body, content_type = page_bytes(name, TEXTS[recipe])
    return parse_page(body, url=URL, content_type=content_type)


def test_there_are_twenty_shapes_and_thirty_recipes():
    assert len(PAGES) >= 20
    assert len(TEXTS) == 30


@pytest.mark.parametrize("name", sorted(PAGES))
def test_all_ingredients_and_steps_of_every_recipe_are_found(name: str):
    for recipe, text in TEXTS.items():
        truth = read_truth(text)
        page = read(name, recipe)
        assert page.recipe is not None, (recipe, page.error_message)
        groups = {line for line, is_group in truth.ingredients if is_group}
        lines = [part.text for part in page.recipe.ingredients if part.text not in groups]
        assert page.recipe.title == truth.title
        assert lines == truth.lines, recipe
        assert [step for step in page.recipe.steps if step not in SECTIONS] == truth.steps, recipe
        assert page.parser_strategy == STRATEGIES[name]


@pytest.mark.parametrize(
    "name", ["json_ld_object", "json_ld_graph", "microdata", "blog_headings", "line_breaks"]
)
def test_times_servings_and_tags_are_found(name: str):
    page = read(name, "breakfast-wrap")

    assert page.draft is not None
    assert page.recipe is not None
    assert (page.draft.prep_time_minutes, page.draft.cook_time_minutes) == (5, 10)
    assert page.draft.total_time_minutes == page.recipe.estimated_time_minutes == 15
    assert page.draft.servings == "1 (2 wraps)"
    assert page.recipe.servings == 1


@pytest.mark.parametrize("name", ["json_ld_object", "json_ld_graph", "microdata"])
def test_the_picture_is_found_and_its_address_is_whole(name: str):
    page = read(name, "shakshouka")

    assert page.recipe is not None
    assert page.recipe.image_url == "https://kitchen.example/pix/photo.jpg"
    assert page.recipe.source_url == URL


def test_tags_come_from_keywords_category_and_cuisine():
    recipe = {
        "@type": "Recipe",
        "name": "Soup",
        "keywords": "warm, winter",
        "recipeCategory": ["Soup", "Warm"],
        "recipeCuisine": "Irish",
        "recipeIngredient": ["1 leek", "2 potatoes", "salt"],
        "recipeInstructions": "Cut all. Boil it.",
    }
    page = parse_client_page([json.dumps(recipe)], None, source_url=URL)

    assert page.parser_strategy is ParserStrategy.CLIENT_JSON_LD
    assert page.recipe is not None
    assert page.recipe.tags == ("warm", "winter", "Soup", "Irish")
    assert page.recipe.steps == ("Cut all.", "Boil it.")


def test_groups_of_ingredients_become_notes_in_the_draft():
    page = read("blog_headings", "ravioli")

    assert page.draft is not None
    notes = {part.name: part.notes for part in page.draft.ingredients}
    assert notes["ricotta"] == "Cheese Filling"
    assert "Dough" not in notes


def test_a_snippet_of_an_app_is_read():
    html = PAGES["blog_headings"](TEXTS["scouse"])
    page = parse_client_page(["{broken", "[]"], html, source_url=URL)

    assert page.parser_strategy is ParserStrategy.CLIENT_HTML
    assert page.recipe is not None
    assert len(page.recipe.ingredients) == 11
    assert page.warnings


def test_nothing_of_an_app_is_no_recipe():
    assert parse_client_page([], None, source_url=URL).error_code is RecipeErrorCode.PARSE_FAILED


def test_a_page_without_a_recipe_fails_and_says_what_is_missing():
    story = "<p>It was a dark night, and nobody cooked a thing in the whole house.</p>" * 30
    page = parse_page(f"<html><body><h1>A story</h1>{story}</body></html>".encode(), url=URL)

    assert page.error_code is RecipeErrorCode.PARSE_FAILED
    assert "ingredients, steps missing" in (page.error_message or "")
    assert page.recipe is None
    assert page.draft is None
    assert page.next_action is None


def test_a_page_that_is_not_there_is_told_as_such():
    page = parse_page(b"<h1>Not found</h1>", url=URL, status=404, content_type="text/html")

    assert (page.error_message or "").startswith("the server of the page answered 404; check the address. ")


@pytest.mark.parametrize(
    ("html", "status", "reason"),
    [
        (b"Forbidden", 403, "http_403"),
        (b"<html><body><div id='root'></div><script src=a.js></script></body></html>", 200, "webview_required"),
        (b"<html><body><noscript>Please enable JavaScript</noscript></body></html>", 200, "webview_required"),
        (b"<html><title>Just a moment...</title><body><form class=captcha></form></body></html>", 200, "captcha"),
        (b"", 200, "webview_required"),
    ],
)  # fmt: skip
def test_a_page_that_only_a_browser_sees_asks_for_the_app(html: bytes, status: int, reason: str):
    page = parse_page(html, url=URL, status=status, content_type="text/html")

    assert page.error_code is RecipeErrorCode.PARSE_FAILED
    assert (page.next_action, page.next_action_reason) == ("webview_extract", reason)


@pytest.mark.parametrize("content_type", ["application/pdf", "image/jpeg", "video/mp4"])
def test_what_is_no_page_is_refused_by_its_type(content_type: str):
    page = parse_page(b"%PDF-1.7", url=URL, content_type=content_type)

    assert page.error_code is RecipeErrorCode.UNSUPPORTED_CONTENT_TYPE


def test_a_huge_page_is_refused():
    assert parse_page(b" " * (MAX_PAGE_BYTES + 1), url=URL).error_code is RecipeErrorCode.PARSE_FAILED


def test_bytes_that_are_no_text_are_an_encoding_error():
    body = random.Random(1).randbytes(20_000)
    page = parse_page(bytes(byte | 0x80 for byte in body), url=URL, content_type="text/html; charset=utf-16")

    assert page.recipe is None
    assert page.error_code in {RecipeErrorCode.ENCODING_ERROR, RecipeErrorCode.PARSE_FAILED}


PIECES = st.sampled_from(
    [
        *'<>"{}[]:,\\', "<div itemscope itemtype='http://schema.org/Recipe'>", "<p itemprop='recipeIngredient'>", "1 cup a", "</div>",
        '<script type="application/ld+json">', "</script>", '{"@type":"Recipe"', '"recipeIngredient":["a"]', '"name":', "Ingredients",
        "<h2>", "<li>", "<ul>", "Directions", "Mix.", "<br>", "\x00", "&amp;", "é", "<table><tr><td>", "null", "itemref='a' id='a'",
    ]
)  # fmt: skip


@settings(max_examples=150)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_no_page_makes_the_parser_raise(html: str):
    page = parse_page(html.encode("utf-8", "replace"), url=URL)

    assert (page.recipe is None) == (page.error_code is not None)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "@type",
                        "@id",
                        "name",
                        "text",
                        "itemListElement",
                        "recipeIngredient",
                        "recipeInstructions",
                        "image",
                        "url",
                        "recipeYield",
                        "totalTime",
                        "keywords",
                        "value",
                        "item",
                    ]
                ),
                inner,
            )
        ),
        max_leaves=20,
    )
)
@settings(max_examples=150)
def test_any_shape_of_json_ld_is_taken(fields: object):
    node = {
        "@type": "Recipe",
        "recipeIngredient": fields,
        "recipeInstructions": fields,
        "name": fields,
        "image": fields,
        "recipeYield": fields,
        "totalTime": fields,
        "keywords": fields,
    }
    page = parse_client_page([json.dumps(node), json.dumps([fields, node])], None, source_url=URL)

    assert (page.recipe is None) == (page.error_code is not None)


@pytest.mark.parametrize(
    "piece",
    ["<div>", "<p><b>", "<ul><li>", "<li>x ", "<table><tr><td>", "(", "<", "&amp;", "<h2>Ingredients</h2><p>1 cup x</p>", "x<br>",
     '<div itemscope itemtype="http://schema.org/Recipe" itemref="a b"></div>', '<script type="application/ld+json">', "{", '"', "<!--",
     '<p class="ingredient">1 cup', "<dt>Ingredients<dd>1 cup"],
)  # fmt: skip
def test_a_hostile_page_comes_to_an_end(piece: str):
    page = parse_page((piece * (400_000 // len(piece))).encode(), url=URL)

    assert page.error_code is not None or page.recipe is not None
