"""Photos are read by an OCR service on the other side of Redis: ours, or the published one."""

import json
import os
import subprocess
import sys
import time
import uuid
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
import rq
from tests.acceptance.ingest.conftest import serving
from tests.acceptance.recipes.conftest import ENVIRONMENT, Kitchen
from tests.servers.redis import restartable_server
from tests.situations.recipe_photos import CARD, card_photo

pytestmark = [pytest.mark.slow, pytest.mark.service]
PHOTO = card_photo()
ROOT = Path(__file__).parents[3]
RECIPES, OCR = "jarvis.recipes.jobs", "jarvis.ocr.jobs"
FUNCTION = "jarvis_recipes.app.services.queue_worker.process_job"


@pytest.fixture(scope="module")
def redis_here(redis_program):
    with restartable_server(redis_program) as server:
        yield server


@pytest.fixture(scope="module")
def server(redis_here, tmp_path_factory):
    environment = ENVIRONMENT | {"QUIRE_REDIS_URL": redis_here.url}
    with serving(tmp_path_factory.mktemp("redis"), environment) as found:
        yield found


@pytest.fixture
def kitchen(server):
    with Kitchen(server) as found:
        yield found


@pytest.fixture
def broker(redis_here):
    connection = redis.Redis.from_url(redis_here.url)
    connection.delete(OCR)
    yield connection
    connection.close()


@contextmanager
def published_worker(url: str, *arguments: str):
    """A stand-in of the published OCR worker, taking messages."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.standins.published_ocr_worker", url, "--text", CARD, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline().strip() == "at work"
        yield process
    finally:
        process.kill()
        process.communicate()


def take_request(broker) -> dict:
    """The next request for OCR, as the published worker takes it."""
    _, body = broker.brpop([OCR], timeout=30)
    return json.loads(body)


def completion(request: dict, text: str = CARD, **changes) -> dict:
    meta = {"language": "en", "confidence": 0.9, "text_len": len(text), "is_valid": True, "tier": "tesseract"}
    results = [
        {"index": one["index"], "ocr_text": text, "truncated": False, "meta": meta, "error": None}
        for one in request["payload"]["image_refs"]
    ]
    made = {
        "schema_version": 1,
        "job_id": str(uuid.uuid4()),
        "workflow_id": request["workflow_id"],
        "job_type": "ocr.completed",
        "source": "jarvis-ocr-service",
        "target": request["source"],
        "created_at": "2026-01-10T12:00:09Z",
        "attempt": 1,
        "reply_to": None,
        "payload": {"status": "success", "results": results, "artifact_ref": None, "error": None},
        "trace": {"request_id": None, "parent_job_id": request["job_id"]},
    }
    return made | changes


def send(broker, envelope: dict) -> None:
    queue = rq.Queue(RECIPES, connection=broker)
    queue.enqueue(FUNCTION, json.dumps(envelope), job_id=envelope["job_id"], job_timeout="10m")


def test_a_photo_becomes_a_recipe_through_two_processes_and_redis(kitchen, server, redis_here, tmp_path):
    environment = {name: text for name, text in os.environ.items() if not name.startswith("QUIRE_")}
    environment |= {
        "QUIRE_HOME": str(tmp_path / "ocr"),
        "QUIRE_REDIS_URL": redis_here.url,
        "QUIRE_OCR_IMAGE_ROOT": str(server.home / "blobs"),
        "PYTHONUNBUFFERED": "1",
    }
    command = [sys.executable, "-m", "quire.cli.main", "ocr", "worker", "--json", "--workers", "1"]
    worker = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        job_id = kitchen.post_photos(PHOTO).json()["job_id"]
        waiting = kitchen.job(job_id)
        assert (waiting["status"], waiting["stage"]) in {
            ("PENDING", "OCR_PENDING"),
            ("RUNNING", "OCR_DONE"),
            ("RUNNING", "PARSING"),
            ("COMPLETE", "COMPLETE"),
        }
        job = kitchen.ended(job_id)
    finally:
        worker.terminate()
        worker.communicate(timeout=60)
    assert job["status"] == "COMPLETE", job
    draft = job["result"]["recipe_draft"]
    assert [one["name"] for one in draft["ingredients"]] == ["eggs", "flour", "milk", "sugar"]


def test_the_published_worker_is_asked_by_the_locked_schema_and_its_answer_is_read(
    kitchen, broker, redis_here
):
    job_id = kitchen.post_photos(PHOTO, PHOTO).json()["job_id"]
    request = take_request(broker)
    assert set(request) == {
        *("schema_version", "job_id", "workflow_id", "job_type", "source", "target", "created_at"),
        *("attempt", "reply_to", "payload", "trace"),
    }
    assert (request["job_id"], request["workflow_id"]) == (job_id, job_id)
    assert request["reply_to"] == RECIPES
    assert [one["index"] for one in request["payload"]["image_refs"]] == [0, 1]
    for one in request["payload"]["image_refs"]:
        assert one["kind"] == "local_path"
        assert Path(one["value"]).is_file()
        assert f"/recipe-images/{kitchen.user}/" in one["value"]
    broker.lpush(OCR, json.dumps(request))
    with published_worker(redis_here.url, "--jobs", "1"):
        job = kitchen.ended(job_id)
    assert job["status"] == "COMPLETE", job


def test_failed_failed_success_completes_the_import(kitchen, broker, redis_here):
    job_id = kitchen.post_photos(PHOTO).json()["job_id"]
    arguments = ("--job-error", "ocr_engine_error", "--fail-attempts", "2")
    with published_worker(redis_here.url, *arguments):
        until = time.monotonic() + 60
        while (job := kitchen.ended(job_id))["status"] != "COMPLETE" and time.monotonic() < until:
            assert job["error_code"] == "ocr_engine_error"
    assert job["status"] == "COMPLETE", job
    assert job["error_code"] is None


def test_three_passing_failures_are_final(kitchen, broker, redis_here):
    job_id = kitchen.post_photos(PHOTO).json()["job_id"]
    request = take_request(broker)
    error = {"message": "the engine died", "code": "ocr_engine_error"}
    failed = {"status": "failed", "results": [], "artifact_ref": None, "error": error}
    for _ in range(3):
        send(broker, completion(request, payload=failed))
    job = kitchen.ended(job_id)
    assert (job["status"], job["error_code"]) == ("ERROR", "ocr_engine_error")
    assert job["error_message"] == "the engine died"


def test_all_pictures_failed_with_the_code_only_in_the_results(kitchen, broker, redis_here):
    job_id = kitchen.post_photos(PHOTO).json()["job_id"]
    with published_worker(redis_here.url, "--error", "image_not_found", "--jobs", "1"):
        job = kitchen.ended(job_id)
    assert (job["status"], job["error_code"]) == ("ERROR", "image_not_found")
    assert job["error_message"] == "nothing usable was found"


def test_one_picture_failed_and_the_other_has_the_recipe(kitchen, broker, redis_here):
    job_id = kitchen.post_photos(PHOTO, PHOTO).json()["job_id"]
    with published_worker(
        redis_here.url, "--images", '{"0": {"error": "ocr_no_valid_output"}}', "--jobs", "1"
    ):
        job = kitchen.ended(job_id)
    assert job["status"] == "COMPLETE", job
    assert job["result"]["pipeline"]["warnings"] == ["1 of 2 pictures had no readable text"]


def test_the_first_answer_counts_and_others_are_dropped(kitchen, broker):
    job_id = kitchen.post_photos(PHOTO).json()["job_id"]
    request = take_request(broker)
    foreign = completion(request, trace={"request_id": None, "parent_job_id": str(uuid.uuid4())})
    unknown = completion(request, workflow_id=str(uuid.uuid4()))
    first = completion(request, CARD.replace("Pancakes", "First"))
    second = completion(request, CARD.replace("Pancakes", "Second"))
    for one in (foreign, unknown, first, second, first):
        send(broker, one)
    job = kitchen.ended(job_id)
    assert job["result"]["recipe_draft"]["title"] == "Grandma's First"
    # One more, and another import behind it: what comes late has been looked at when that one is over.
    send(broker, completion(request, CARD.replace("Pancakes", "Late")))
    other = kitchen.post_photos(PHOTO).json()["job_id"]
    send(broker, completion(take_request(broker)))
    assert kitchen.ended(other)["status"] == "COMPLETE"
    assert kitchen.job(job_id) == job


def test_an_answer_for_a_cancelled_import_is_dropped(kitchen, broker):
    job_id = kitchen.post_photos(PHOTO).json()["job_id"]
    request = take_request(broker)
    cancelled = kitchen.client.post(f"/recipes/jobs/{job_id}/cancel")
    assert cancelled.status_code == 200
    assert cancelled.json()["status"] == "CANCELED"
    assert broker.ttl(f"cancelled:{job_id}") > 3600
    assert kitchen.client.post(f"/recipes/jobs/{job_id}/cancel").status_code == 409
    send(broker, completion(request))
    other = kitchen.post_photos(PHOTO).json()["job_id"]
    send(broker, completion(take_request(broker)))
    assert kitchen.ended(other)["status"] == "COMPLETE"
    assert kitchen.job(job_id)["status"] == "CANCELED"


def test_imports_come_over_the_queue_too_and_unknown_ones_become_dead_letters(kitchen, broker, web):
    from tests.situations.recipe_pages import page_bytes
    from tests.situations.recipe_texts import recipe_texts

    body, kind = page_bytes("microdata", recipe_texts()["oatmeal-pancakes"])
    web.pages["/queued"] = (200, {"content-type": kind}, body)
    jobs = {}
    for job_type in ("meal.plan", "url", "recipe.import.url.requested", "recipe.create.manual.requested"):
        job_id = jobs[job_type] = str(uuid.uuid4())
        payload = {"user_id": kitchen.user, "url": f"{web.url}/queued"}
        if job_type.startswith("recipe.create"):
            recipe = {
                "title": "Toast",
                "ingredients": ["bread", "butter", "salt"],
                "steps": ["Toast.", "Eat."],
            }
            payload = {"user_id": kitchen.user, "recipe": recipe}
        envelope = {
            "schema_version": 1,
            "job_id": job_id,
            "workflow_id": job_id,
            "job_type": job_type,
            "source": "jarvis-recipes-server",
            "target": "jarvis-recipes-server",
            "created_at": "2026-01-10T12:00:00.123456",
            "attempt": 1,
            "reply_to": None,
            "payload": payload,
            "trace": {"request_id": None, "parent_job_id": None},
        }
        send(broker, envelope)
        if job_type != "meal.plan":
            until = time.monotonic() + 60
            while (
                kitchen.client.get(f"/recipes/jobs/{job_id}").status_code == 404 and time.monotonic() < until
            ):
                continue
            assert kitchen.ended(job_id)["status"] == "COMPLETE"
    assert kitchen.client.get(f"/recipes/jobs/{jobs['meal.plan']}").status_code == 404
    assert jobs["meal.plan"].encode() in broker.lrange(f"{RECIPES}:dead", 0, -1)


def test_with_redis_away_an_import_is_accepted_and_sent_later(kitchen, redis_here, web):
    redis_here.stop()
    try:
        accepted = kitchen.post_photos(PHOTO)
        assert accepted.status_code == 202
        job_id = accepted.json()["job_id"]
        assert kitchen.job(job_id)["status"] == "PENDING"
        # What needs no Redis goes on.
        manual = {"title": "Toast", "ingredients": ["bread", "butter", "salt"], "steps": ["Toast.", "Eat."]}
        other = kitchen.client.post("/imports", json=manual).json()["id"]
        assert kitchen.ended(other)["status"] == "COMPLETE"
        assert kitchen.job(job_id)["status"] == "PENDING"
    finally:
        redis_here.start()
    with published_worker(redis_here.url, "--jobs", "1"):
        assert kitchen.ended(job_id)["status"] == "COMPLETE"


def test_killed_between_accepting_and_sending_the_server_goes_on(redis_program, tmp_path):
    with restartable_server(redis_program) as away:
        environment = ENVIRONMENT | {"QUIRE_REDIS_URL": away.url}
        away.stop()
        with serving(tmp_path, environment) as server:
            with Kitchen(server) as kitchen:
                job_id = kitchen.post_photos(PHOTO).json()["job_id"]
            server.kill()
            away.start()
            server.start()
            with Kitchen(server, kitchen.user) as kitchen, published_worker(away.url, "--jobs", "1"):
                assert kitchen.ended(job_id)["status"] == "COMPLETE"


def test_an_import_whose_pictures_nobody_reads_fails_in_time(redis_here, tmp_path):
    environment = ENVIRONMENT | {"QUIRE_REDIS_URL": redis_here.url, "QUIRE_RECIPES_OCR_TIMEOUT_SECONDS": "1"}
    with serving(tmp_path, environment) as server, Kitchen(server) as kitchen:
        job = kitchen.ended(kitchen.post_photos(PHOTO).json()["job_id"])
        assert (job["status"], job["error_code"]) == ("ERROR", "ocr_timeout")
