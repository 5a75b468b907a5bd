"""The OCR service of `quire serve`: read now, send a job and have a worker answer it, and who may."""

import base64
import json
import subprocess
import sys
import threading

import pytest
import redis
from tests.acceptance.ingest.conftest import serving
from tests.documents.drawn_words import draw_words, save_words
from tests.servers.redis import restartable_server

pytestmark = [pytest.mark.slow, pytest.mark.service]

WORDS = "Pancakes with flour"


def encoded(data):
    return {"content_type": "image/png", "base64": base64.b64encode(data).decode()}


def work(server, **environment):
    """A worker on the same home, until nothing is left."""
    ran = subprocess.run(
        [sys.executable, "-m", "quire.cli.main", "ocr", "worker", "--until-empty", "--json"],
        cwd=server.folder,
        env={**server.environment, "PATH": "/usr/bin:/bin", "QUIRE_HOME": str(server.home), **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    return [json.loads(line) for line in ran.stdout.splitlines()]


def wait_until_done(client, job_id):
    """Asks again until the answer is there: it comes by a queue, at any time."""
    pause = threading.Event()
    for _ in range(600):
        job = client.get(f"/v1/ocr/jobs/{job_id}").json()
        if job["status"] != "pending":
            return job
        pause.wait(0.05)
    raise AssertionError(job)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ocr-http")
    save_words(folder / "images" / "0.png", WORDS)
    with serving(folder, {"QUIRE_OCR_IMAGE_ROOT": str(folder / "images")}, "--workers", "0") as started:
        yield started


@pytest.fixture
def client(server):
    with server.client() as opened:
        yield opened


def test_pictures_are_read_while_the_caller_waits(client):
    images = [encoded(draw_words(WORDS)), encoded(b"%PDF-1.7 no picture"), encoded(draw_words("two eggs"))]
    answer = client.post("/v1/ocr/batch", json={"images": images, "options": {"language_hints": ["en"]}})
    assert answer.status_code == 200, answer.text
    first, second, third = answer.json()["results"]
    assert (first["text"], first["provider_used"], first["meta"]["is_valid"]) == (WORDS, "tesseract", True)
    assert (second["text"], second["error_code"]) == ("", "unsupported_media")
    assert third["text"] == "two eggs"
    (block,) = third["blocks"]
    left, top, width, height = block["bbox"]
    assert (block["text"], 0.5 < block["confidence"] <= 1) == ("two eggs", True)
    assert 20 < left < 40
    assert 20 < top < 60
    assert width > 3 * height > 60
    assert second["blocks"] == []
    for provider, name in (("tesseract", "tesseract"), ("rapidocr", "paddleocr")):
        chosen = {"image": encoded(draw_words(WORDS)), "provider": provider}
        (one,) = client.post("/v1/ocr/batch", json=chosen).json()["results"]
        assert (one["provider_used"], one["meta"]["is_valid"]) == (name, True)
    plain = {"image": encoded(draw_words(WORDS)), "options": {"return_boxes": False}}
    assert client.post("/v1/ocr/batch", json=plain).json()["results"][0]["blocks"] == []
    meta = answer.json()["meta"]
    assert (meta["total_images"], meta["valid_images"], meta["provider_used"]) == (3, 2, "tesseract")


def test_references_are_read_by_the_rules_of_the_service(client):
    refs = [{"kind": "local_path", "value": value} for value in ("0.png", "../home/quire.db", "/etc/passwd")]
    refs.append({"kind": "s3", "value": "http://127.0.0.1:1/0.png"})
    answer = client.post("/v1/ocr/batch", json={"image_refs": refs}).json()
    assert [one["error_code"] for one in answer["results"]] == [None, *["image_not_found"] * 3]


def test_a_job_is_answered_by_a_worker_on_quires_own_queues(client, server):
    body = {"images": [encoded(draw_words(WORDS)), encoded(draw_words("two eggs"))]}
    sent = client.post("/v1/ocr", json=body, headers={"X-Correlation-ID": "c-1"})
    assert sent.status_code == 202, sent.text
    job_id = sent.json()["job_id"]
    assert client.get(f"/v1/ocr/jobs/{job_id}").json()["status"] == "pending"
    assert client.get("/v1/queue/status").json()["queue_length"] == 1
    assert [one["event"] for one in work(server)] == ["started", "answered", "stopped"]
    job = wait_until_done(client, job_id)
    assert (job["status"], job["error"]) == ("completed", None)
    assert [one["text"] for one in job["results"]] == [WORDS, "two eggs"]
    assert (job["result"]["text"], job["result"]["provider_used"]) == (f"{WORDS}\n\ntwo eggs", "tesseract")
    assert list((server.home / "blobs").glob("ocr/incoming/*")) == []


def test_a_job_without_text_fails_with_its_code(client, server):
    body = {"image_refs": [{"kind": "local_path", "value": "none.png"}]}
    job_id = client.post("/v1/ocr", json=body).json()["job_id"]
    work(server)
    job = wait_until_done(client, job_id)
    assert (job["status"], job["error_code"], job["result"]) == ("failed", "image_not_found", None)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"images": []},
        {"image": {"content_type": "image/png"}},
        {"image": {"base64": "not base64!"}},
        {"image": {"base64": ""}},
        {"image": {"base64": "QUJD", "kind": "s3", "value": "s3://a/b"}},
        {"image": {"kind": "ftp", "value": "x"}},
        {"image": {"kind": "s3", "value": ""}},
        {"image": {"base64": "QUJD"}, "images": [{"base64": "QUJD"}]},
        {"image": {"base64": "QUJD"}, "provider": "easyocr"},
        {"image": {"base64": "QUJD"}, "provider": "\u0000"},
        {"image": {"base64": "QUJD"}, "options": {"language": "x" * 41}},
        {"images": [{"base64": "QUJD"}] * 101},
        [],
    ],
)
def test_what_asks_for_nothing_readable_is_refused(client, body):
    for path in ("/v1/ocr", "/v1/ocr/batch"):
        answer = client.post(path, json=body)
        assert answer.status_code == 422, answer.text
        assert answer.json()["detail"]


def test_too_much_is_refused(client):
    assert client.post("/v1/ocr", json={"images": [{"base64": "QUJD"}] * 9}).status_code == 422
    large = {"image": {"base64": "QUJD" * 7_000_000}}
    assert client.post("/v1/ocr/batch", json=large).status_code == 413
    assert client.post("/v1/ocr/batch", content=b" " * (65 << 20)).status_code == 413
    assert client.post("/v1/ocr", content=b"{").status_code == 400


def test_unknown_jobs_are_not_found(client):
    for job_id in ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "x", "..%2f..%2fhome"):
        assert client.get(f"/v1/ocr/jobs/{job_id}").status_code == 404


def test_the_engines_are_listed_and_described(client):
    assert client.get("/v1/providers").json()["providers"]["tesseract"] is True
    paths = client.get("/openapi.json").json()["paths"]
    assert {"/v1/ocr", "/v1/ocr/batch", "/v1/ocr/jobs/{job_id}", "/v1/providers", "/v1/queue/status"} <= set(
        paths
    )


def test_with_keys_a_job_belongs_to_who_has_sent_it(tmp_path, redis_program):
    """On Redis, with the headers of the published service, and its key for the state."""
    save_words(tmp_path / "images" / "0.png", WORDS)
    with restartable_server(redis_program, appendfsync="no") as redis_server:
        environment = {
            "QUIRE_REDIS_URL": redis_server.url,
            "QUIRE_OCR_IMAGE_ROOT": str(tmp_path / "images"),
            "QUIRE_SERVE_ANONYMOUS": "never",
        }
        keys = [create_key(tmp_path, scope) for scope in ("submit", "submit", "read")]
        with serving(tmp_path, environment, "--api-only") as server, server.client() as client:
            mine, yours, reader = ({"X-Jarvis-App-Id": "app", "X-Jarvis-App-Key": key} for key in keys)
            body = {"image_refs": [{"kind": "local_path", "value": "0.png"}]}
            assert client.post("/v1/ocr", json=body).status_code == 401
            assert client.post("/v1/ocr", json=body, headers={"X-Jarvis-App-Key": "wrong"}).status_code == 401
            assert client.post("/v1/ocr", json=body, headers=reader).status_code == 403
            # A header of the OCR service alone.
            assert client.get("/api/batches", headers=mine).status_code == 401
            job_id = client.post("/v1/ocr", json=body, headers=mine).json()["job_id"]
            work(server)
            bearer = {"Authorization": f"Bearer {keys[0]}"}
            client.headers.update(bearer)
            assert wait_until_done(client, job_id)["result"]["text"] == WORDS
            del client.headers["Authorization"]
            assert client.get(f"/v1/ocr/jobs/{job_id}", headers=yours).status_code == 404
            assert client.get("/v1/queue/status", headers=reader).json()["queue_length"] == 0
            with redis.Redis.from_url(redis_server.url) as looking:
                assert 86_000 < looking.ttl(f"ocr_job:{job_id}") <= 86_400


def create_key(folder, scope):
    ran = subprocess.run(
        [sys.executable, "-m", "quire.cli.main", "key", "create", "--scope", scope],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "QUIRE_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.strip()
