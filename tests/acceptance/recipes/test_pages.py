"""Pages in, recipes out: from a web server on this machine, and what an app has taken from a page."""

import json

import pytest
from tests.acceptance.ingest.conftest import serving
from tests.acceptance.recipes.conftest import ENVIRONMENT, Kitchen
from tests.situations.recipe_pages import PAGES, STRATEGIES, page_bytes
from tests.situations.recipe_texts import read_truth, recipe_texts

pytestmark = pytest.mark.slow
NAME, MARKDOWN = "oatmeal-pancakes", recipe_texts()["oatmeal-pancakes"]
TRUTH = read_truth(MARKDOWN)


def put_page(web, name, body, status=200, content_type="text/html; charset=utf-8", **headers):
    web.pages[f"/{name}"] = (status, {"content-type": content_type, **headers}, body)
    return f"{web.url}/{name}"


def test_twenty_shapes_of_pages_become_the_recipe_that_is_on_them(kitchen, web):
    jobs = {}
    for shape in PAGES:
        body, content_type = page_bytes(shape, MARKDOWN)
        url = put_page(web, shape, body, content_type=content_type)
        accepted = kitchen.client.post("/recipes/parse-url/async", json={"url": url})
        assert accepted.status_code == 202
        assert accepted.json()["status"] == "PENDING"
        assert accepted.json()["next_action"] is None
        jobs[shape] = accepted.json()["id"]
    assert len(jobs) >= 20
    for shape, job_id in jobs.items():
        job = kitchen.ended(job_id)
        assert job["status"] == "COMPLETE", (shape, job)
        assert job["result"]["pipeline"]["parser_strategy"] == STRATEGIES[shape]
        draft = job["result"]["recipe_draft"]
        assert draft["title"].casefold() == TRUTH.title.casefold(), shape
        assert len(draft["ingredients"]) == len(TRUTH.lines), shape
        assert job["result"]["recipe"]["ingredients"], shape
    alias = kitchen.client.get(f"/recipes/parse-url/status/{jobs['microdata']}").json()
    assert alias["status"] == "COMPLETE"


def test_a_page_is_parsed_while_the_caller_waits_and_saved(kitchen, web):
    url = put_page(web, "now", page_bytes("microdata", MARKDOWN)[0])
    answer = kitchen.client.post("/recipes/parse-url", json={"url": url, "save": True})
    assert answer.status_code == 200
    assert answer.json()["status"] == "COMMITTED"
    assert answer.json()["recipe_id"]


def test_a_redirect_is_followed_and_the_final_address_is_the_source(kitchen, web):
    url = put_page(web, "final", page_bytes("microdata", MARKDOWN)[0])
    web.pages["/moved"] = (302, {"location": "/final"}, b"")
    job = kitchen.client.post("/recipes/parse-url", json={"url": f"{web.url}/moved"}).json()
    assert job["result"]["pipeline"]["source_url"] == url


@pytest.mark.parametrize(
    ("name", "page", "code", "next_action"),
    [
        (
            "no-recipe",
            (200, "text/html", b"<html><body><h1>News</h1><p>Nothing.</p></body></html>"),
            "parse_failed",
            None,
        ),
        ("refused", (403, "text/html", b"<html>no</html>"), None, "webview_extract"),
        ("pdf", (200, "application/pdf", b"%PDF-1.7"), "unsupported_content_type", None),
        ("large", (200, "text/html", b"<html>" + b"x" * (6 << 20)), "fetch_failed", "webview_extract"),
    ],
)
def test_a_page_without_a_readable_recipe_fails_with_its_code(kitchen, web, name, page, code, next_action):
    status, content_type, body = page
    url = put_page(web, name, body, status=status, content_type=content_type)
    job = kitchen.client.post("/recipes/parse-url", json={"url": url}).json()
    assert job["status"] == "ERROR"
    assert job["error_message"]
    if code is not None:
        assert job["error_code"] == code
    if next_action is not None:
        assert job["next_action"] == next_action
        assert job["next_action_reason"]


def test_what_an_app_has_taken_from_a_page_becomes_a_recipe(kitchen):
    block = json.dumps(
        {
            "@context": "https://schema.org",
            "@type": ["Recipe"],
            "name": TRUTH.title,
            "recipeIngredient": TRUTH.lines,
            "recipeInstructions": TRUTH.steps,
        }
    )
    body = {
        "input": {
            "source_type": "client_webview",
            "source_url": "https://kitchen.example/pancakes",
            "jsonld_blocks": ["{broken", block],
            "html_snippet": None,
            "extracted_at": "2026-01-10T12:00:00Z",
            "client": {"app": "1.0"},
        }
    }
    accepted = kitchen.client.post("/recipes/parse-payload/async", json=body)
    assert accepted.status_code == 202
    job = kitchen.ended(accepted.json()["id"])
    assert job["result"]["pipeline"]["parser_strategy"] == "client_json_ld"
    assert job["result"]["recipe_draft"]["title"] == TRUTH.title
    (listed,) = kitchen.client.get("/recipes/jobs").json()["jobs"]
    assert listed["preview"]["source_host"] == "kitchen.example"


@pytest.mark.parametrize(
    "given",
    [{}, {"jsonld_blocks": ["x"] * 11}, {"jsonld_blocks": ["x" * 200_001]}, {"html_snippet": "x" * 400_001}],
    ids=["nothing", "too many blocks", "a large block", "a large piece of HTML"],
)
def test_a_payload_beyond_the_limits_is_refused(kitchen, given):
    refused = kitchen.client.post("/recipes/parse-payload/async", json={"input": given})
    assert refused.status_code == 400
    assert "invalid_payload" in refused.json()["type"]


def test_a_recipe_that_a_person_has_written_is_saved(kitchen):
    recipe = {
        "title": "Toast",
        "ingredients": [{"text": "2 slices bread"}, "butter", {"name": "salt", "quantity": 1}],
        "steps": ["Toast the bread.", {"text": "Butter it."}],
        "servings": 1,
    }
    accepted = kitchen.client.post("/imports", json={"recipe": recipe})
    assert accepted.status_code == 202
    job = kitchen.ended(accepted.json()["id"])
    assert job["status"] == "COMPLETE", job
    assert job["result"]["recipe_draft"]["servings"] == "1"


def test_an_import_of_anything_takes_pages_too(kitchen, web):
    url = put_page(web, "anything", page_bytes("microdata", MARKDOWN)[0])
    accepted = kitchen.client.post("/imports", json={"url": url})
    assert kitchen.ended(accepted.json()["id"])["status"] == "COMPLETE"


def test_fields_that_do_not_fit_are_named(kitchen):
    for path, body, field in (
        ("/recipes", {"ingredients": []}, "title"),
        ("/recipes", {"title": "T", "ingredients": [{"name": 5}]}, "ingredients.0.name"),
        ("/recipes", {"title": "T", "ingredients": [{"quantity": "2"}]}, "ingredients.0.name"),
        ("/recipes", {"title": " ", "steps": ["a", ""]}, "title"),
        ("/recipes/parse-url/async", {"url": 5}, "url"),
        ("/recipes/parse-url", {}, "url"),
        ("/recipes/parse-payload/async", {"input": {"jsonld_blocks": "x"}}, "input.jsonld_blocks"),
        ("/recipes", [], "body"),
    ):
        refused = kitchen.client.post(path, json=body)
        assert refused.status_code == 422, (path, body)
        said = refused.json()
        assert set(said) == {"error_code", "message", "details", "job_id"}
        assert said["error_code"] == "validation_error"
        assert said["details"][0]["field"] == field
        assert said["details"][0]["message"]


def test_pages_on_internal_addresses_are_not_fetched_nor_redirects_to_them(tmp_path, web):
    environment = ENVIRONMENT | {"QUIRE_RECIPES_ALLOW_PRIVATE": "false"}
    with serving(tmp_path, environment) as server, Kitchen(server) as kitchen:
        for url in (
            f"{web.url}/now",
            "http://localhost/",
            "http://[::1]/",
            "http://169.254.169.254/latest/meta-data/",
            "http://10.0.0.1/",
            "file:///etc/passwd",
            "ftp://example.org/x",
            "gopher://example.org/",
            "//example.org/x",
            "javascript:alert(1)",
            "not a url",
            "http://user:pass@127.0.0.1/",
            "",
        ):
            refused = kitchen.client.post("/recipes/parse-url/async", json={"url": url})
            assert refused.status_code == 400, url
            assert "invalid_url" in refused.json()["type"]
        assert kitchen.client.get("/recipes/jobs", params={"status": "ERROR"}).json() == {"jobs": []}
        # A name that resolves to this machine is refused when it is fetched.
        named = kitchen.client.post("/recipes/parse-url", json={"url": "http://0x7f000001/"}).json()
        assert (named["status"], named["error_code"]) == ("ERROR", "invalid_url")
        assert named["next_action"] is None
