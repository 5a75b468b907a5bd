"""Ids, addresses and bodies of requests."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.model.errors import Reject
from quire.recipes.bodies import InvalidRecipe, read_recipe
from quire.recipes.requests import ClientPayload, check_key, check_url, digest, import_payload, new_uuid
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
