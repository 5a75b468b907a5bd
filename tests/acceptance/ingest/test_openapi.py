"""The API described: validly, completely and truly; nothing that fits it, or does not, breaks the server."""

import json
import re
import subprocess
import sys
from pathlib import Path

import httpx
import jsonschema_rs
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR
from tests.acceptance.ingest.described import Described
from tests.acceptance.ingest.sender import Sender, bytes_of

from quire.api.app import ROUTES

MIB = 1 << 20
# Never ends while its batch is open, which here no batch leaves; test_follow reads it to its end.
ENDLESS = "batchEvents"
PATIENT = "parsePage"  # waits for an engine, which this server does not run
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "allow_header_conformance",
)


@pytest.fixture(scope="module")
def document(api_only):
    return httpx.get(f"{api_only.url}/openapi.json").raise_for_status().json()


@pytest.fixture
def described(document):
    return Described(document)


@pytest.fixture
def checked(api_only, described):
    with api_only.client(event_hooks={"response": [described]}) as client:
        yield client


def _refs(value):
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _refs(one)


def test_it_is_valid_openapi(document):
    assert document["openapi"].startswith("3.1.")
    OPENAPI_31_VALIDATOR.validate(document)


def test_every_reference_leads_somewhere(document):
    refs = set(_refs(document))
    assert refs
    for ref in refs:
        kind, place, name = re.fullmatch(r"#/(components)/(schemas)/(.+)", ref).groups()
        assert name in document[kind][place]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_route_is_described(document, route):
    path = re.sub(r"\{([a-z_]+):[a-z]+\}", r"{\1}", route.path)
    described = document["paths"][path][route.method.lower()]
    assert described["operationId"] == route.name
    assert described["summary"]
    assert str(route.status) in described["responses"]
    named = {one["name"] for one in described.get("parameters", ()) if one["in"] == "path"}
    assert named == set(re.findall(r"\{([a-z_]+)\}", path))
    if route.scope is None:
        assert described["security"] == []
    if route.body is not None and route.body is not bytes:
        content = described["requestBody"]["content"]["application/json"]
        schema = {**content["schema"], "components": document["components"]}
        jsonschema_rs.validator_for(schema).validate(content["example"])
    for status, answer in described["responses"].items():
        for kind, content in answer.get("content", {}).items():
            assert not status.startswith("4") or kind.endswith("json")
            if "example" in content:
                schema = {**content["schema"], "components": document["components"]}
                jsonschema_rs.validator_for(schema).validate(content["example"])


def test_nothing_is_described_that_is_not_there(document):
    named = {one["operationId"] for path in document["paths"].values() for one in path.values()}
    assert named == {route.name for route in ROUTES}
    assert len(named) == len(ROUTES), "a name is used twice"


def test_what_is_answered_is_what_is_described(checked, described):
    """Everything that can be asked where no work is done; the rest is in test_follow."""
    batch = Sender(checked, metadata={"é": [None]}, custom_prompts={"general": "x"}, file_count=2)
    batch.send("/a é.txt", b"12345")
    data = bytes_of(1, 6 * MIB)
    ticket = batch.start("/b.bin", len(data)).json()
    etag = checked.put(ticket["presigned_urls"][0]["url"], content=data).headers["etag"]
    parts = [{"part_number": 1, "etag": etag}]
    assert batch.complete("/b.bin", upload_id=ticket["upload_id"], parts=parts).status_code == 200
    batch.start("/c.txt")
    assert batch.withdraw(batch.key("/c.txt")).json() == {"success": True}
    checked.put(batch.url("/d.txt"), content=b"12345")
    batch.withdraw(batch.key("/d.txt"))
    batch.status()
    assert batch.finalize().status_code == 200
    for path in (
        f"{batch.at}/status?files=false",
        f"/status/{batch.id}?include_raw=true",
        f"/logs/{batch.id}",
    ):
        checked.get(path).raise_for_status()
    for path in ("/", "/health", "/docs", "/openapi.json", "/asyncapi.json"):
        checked.get(path).raise_for_status()
    for path in ("/api/batches", "/api/queues", "/api/audit"):
        checked.get(path).raise_for_status()
    for path in (f"{batch.at}/files", "/api/queues/arke-batch-jobs/dead", "/api/cleaning", "/api/keys"):
        checked.get(path).raise_for_status()
    for act in ("pause", "resume", "cancel", "retry", "reset"):
        checked.post(f"/admin/{act}/{batch.id}", json={"reason": "a test"}).raise_for_status()
    made = checked.post("/api/keys", json={"scope": "read"}).raise_for_status().json()
    checked.post(f"/api/keys/{made['key']['id']}/rotate").raise_for_status()
    checked.delete(f"/api/keys/{made['key']['id']}").raise_for_status()
    for word in ("replay", "discard"):
        checked.post(f"/api/queues/arke-batch-jobs/dead/{word}", json={"all": True}).raise_for_status()
    assert described.given >= {
        route.name
        for route in ROUTES
        if route.group in {"Upload", "Control", "Queues", "Administration", "Service"}
    } - {"enqueueProcessed"}


def _config(batches) -> str:
    """Schemathesis knows no batch; with these it comes past the door."""
    keys = [f"staging/{one}/fonds/{name}" for one in batches for name in ("a.txt", "b.bin")]
    dictionaries = {
        "batches": batches,
        "queues": ["arke-preprocess-jobs", "arke-batch-jobs"],
        "paths": ["/fonds/a.txt", "/fonds/b.bin"],
        "keys": keys,
        "hooks": ["https://hooks.invalid/"],  # a name that leads nowhere: nobody is called
    }
    bound = {
        "path.batch_id": ("batches", 0.8),
        "path.queue": ("queues", 0.8),
        "query.path": ("paths", 0.5),
        "query.r2_key": ("keys", 0.5),
        "body.r2_key": ("keys", 0.7),
        "body.url": ("hooks", 1.0),
    }
    lines = ["[dictionaries]"]
    lines += [f"{name} = {{ values = {json.dumps(values)} }}" for name, values in dictionaries.items()]
    lines += ["[parameters]"]
    lines += [
        f'"{place}" = {{ dictionary = "{name}", probability = {chance} }}'
        for place, (name, chance) in bound.items()
    ]
    # Other methods on every path are in test_bad_input.
    lines += ["[phases.coverage]", 'unexpected-methods = ["OPTIONS"]']
    return "\n".join(lines)


def _batches(client) -> list[str]:
    """One that is open, one that is closed, one that has ended."""
    made = []
    for number in range(3):
        batch = Sender(client)
        batch.send("/fonds/a.txt", b"12345")
        if number == 0:
            batch.start("/fonds/b.bin", 6 * MIB).raise_for_status()
        else:
            batch.finalize().raise_for_status()
        if number == 2:
            client.post(f"/admin/cancel/{batch.id}").raise_for_status()
        made.append(batch.id)
    return made


@pytest.mark.slow
def test_schemathesis_finds_nothing(api_only, api, tmp_path):
    """Examples, the edges of every schema, and chance with a fixed seed, on a live server."""
    config = tmp_path / "schemathesis.toml"
    config.write_text(_config(_batches(api)), encoding="utf-8")
    # One thread: Python 3.11 loses count in `ast` when several parse at once, as Hypothesis does.
    command = [Path(sys.executable).with_name("schemathesis"), "--no-color", "--config-file", config, "run"]
    options = [
        *("--phases", "examples,coverage,fuzzing", "--max-examples", "6", "--seed", "1"),
        *("--checks", ",".join(CHECKS), "--exclude-operation-id", ENDLESS, "--request-timeout", "20"),
        *("--exclude-operation-id", PATIENT),
        *("--generation-database", "none", "--warnings", "off"),
    ]
    ran = subprocess.run(
        [*command, *options, f"{api_only.url}/openapi.json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert api.get("/health").json()["status"] == "ok"
