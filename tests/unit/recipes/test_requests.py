"""Ids, addresses and bodies of requests."""

import uuid

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.assembly.components import open_components
from quire.assembly.member_pipelines import choose_recipe_pipeline
from quire.assembly.recipes import build_recipe_context
from quire.model.errors import Reject
from quire.recipes.bodies import InvalidRecipe, read_recipe
from quire.recipes.requests import (
    ClientPayload,
    Requester,
    check_key,
    check_url,
    digest,
    import_payload,
    import_pictures,
    new_uuid,
)
from quire.settings import OcrSettings, Secret, Settings
from quire.steps.recipe.import_values import ImportRequest
from quire.system import SystemIds

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.dictionaries(
    st.sampled_from(["title", "ingredients", "steps", "servings", "tags", "source", "parse_job_id"]), JSON
)


def test_ids_are_uuids_and_none_comes_twice():
    made = [new_uuid(SystemIds()) for _ in range(200)]
    assert len(set(made)) == 200
    assert {uuid.UUID(one).version for one in made} == {4}


def test_what_differs_has_another_fingerprint_wherever_its_parts_end():
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("a") == digest(b"a")


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb", "\x00"])
def test_a_key_that_cannot_be_one_is_refused(key):
    with pytest.raises(Reject):
        check_key(key)


@pytest.mark.parametrize("url", ["", "file:///etc/passwd", "http://", "javascript:x", "x" * 9000])
async def test_an_address_that_cannot_be_fetched_is_refused(context, url):
    with pytest.raises(Reject) as caught:
        check_url(context, url)
    assert caught.value.code == "invalid_url"


async def test_half_characters_in_a_payload_are_refused(context, requester):
    with pytest.raises(Reject):
        await import_payload(context, requester, ClientPayload(html_snippet="\ud800"))


async def test_the_address_of_a_payload_has_the_length_of_an_address(context, requester):
    with pytest.raises(Reject) as caught:
        await import_payload(
            context, requester, ClientPayload(html_snippet="<p>2 eggs", source_url="x" * 9000)
        )
    assert caught.value.code == "invalid_payload"


@given(FIELDS | JSON)
def test_whatever_is_sent_as_a_recipe_is_read_or_refused_by_its_fields(body):
    refused: InvalidRecipe | None = None
    try:
        draft, _ = read_recipe(body)
    except InvalidRecipe as error:
        refused = error
    if refused is not None:
        assert refused.problems
        assert all(one.field and one.message for one in refused.problems)
    else:
        assert draft.title
        assert all(one.name for one in draft.ingredients)


def test_lines_and_parts_of_ingredients_are_both_read():
    draft, job_id = read_recipe(
        {
            "title": " Toast ",
            "ingredients": ["2 slices bread", {"text": "butter"}, {"name": "salt", "quantity": 0.5}],
            "steps": [{"text": "Toast."}, "Eat."],
            "parse_job_id": "j",
        }
    )
    assert draft.title == "Toast"
    assert [(one.name, one.quantity) for one in draft.ingredients] == [
        ("2 slices bread", None),
        ("butter", None),
        ("salt", "0.5"),
    ]
    assert draft.steps == ("Toast.", "Eat.")
    assert job_id == "j"


async def test_how_pictures_are_read_here_is_stored_with_the_request_without_secrets(tmp_path):
    ocr = OcrSettings(
        tiers=("tesseract",),
        min_confidence=0.75,
        cloud_model_url="https://models.example.org/v1",
        cloud_model_key=Secret("sk-very-secret"),
        judge_model_url="https://models.example.org/v1",
        judge_model_key=Secret("sk-very-secret"),
    )
    settings = Settings(home=tmp_path, ocr=ocr)
    async with open_components(settings, pipelines=choose_recipe_pipeline(settings)) as components:
        context = build_recipe_context(settings, components)
        accepted = await import_pictures(context, Requester(user_id="7"), [b"jpeg"])
        job = await context.recipes.get_job(accepted.job_id)
        stored = await context.blobs.get(job.job_data["document"]["key"])
    assert b"sk-very-secret" not in stored
    reading = msgspec.json.decode(stored, type=ImportRequest).reading
    assert (reading.tiers, reading.min_confidence, reading.cloud_model) == (("tesseract",), 0.75, None)
