"""The AsyncAPI document is whole: references lead somewhere, examples are valid, nothing is left over."""

import jsonschema
import pytest

from quire.api.asyncapi import build_asyncapi
from quire.model.envelopes import OCR_QUEUE, RECIPE_QUEUE, JobType

DOCUMENT = build_asyncapi(version="1.2.3")
# Of published programs only: they are read, and nobody should write them.
FORMER = {JobType.URL, JobType.IMAGE, JobType.INGESTION}


def references(value):
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def find(reference):
    place = DOCUMENT
    for part in reference.removeprefix("#/").split("/"):
        place = place[part]
    return place


def test_it_is_asyncapi_3():
    assert DOCUMENT["asyncapi"] == "3.0.0"
    assert DOCUMENT["info"]["version"] == "1.2.3"
    assert {one["action"] for one in DOCUMENT["operations"].values()} == {"send", "receive"}


def test_every_reference_leads_somewhere_and_every_component_is_used():
    used = set(references(DOCUMENT))
    assert all(find(one) for one in used)
    components = {
        f"#/components/{kind}/{name}" for kind, all_ in DOCUMENT["components"].items() for name in all_
    }
    assert components <= used
    assert {f"#/channels/{name}" for name in DOCUMENT["channels"]} <= used


def test_both_queues_and_every_job_type_are_in_it():
    addresses = {one["address"] for one in DOCUMENT["channels"].values()}
    assert addresses == {OCR_QUEUE, RECIPE_QUEUE, None}
    names = {one["name"] for one in DOCUMENT["components"]["messages"].values()}
    assert names == set(JobType) - FORMER


@pytest.mark.parametrize("name", DOCUMENT["components"]["messages"])
def test_every_example_is_valid(name):
    message = DOCUMENT["components"]["messages"][name]
    schema = find(message["payload"]["$ref"])
    for example in message["examples"]:
        jsonschema.Draft202012Validator(schema).validate(example["payload"])
        assert example["payload"]["job_type"] == message["name"]
