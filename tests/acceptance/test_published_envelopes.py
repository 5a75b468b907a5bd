"""Envelopes beside published programs, in both directions, on a real Redis and with a real RQ."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import redis
from tests.situations.envelopes import REQUEST, changed
from tests.standins.published_recipes_server import build_envelope, build_request, enqueue, push_request

from quire.assembly.envelope_queues import open_envelope_queues
from quire.model.envelope_reading import (
    failure_code,
    read_envelope,
    read_ocr_completed,
    read_ocr_request,
    reply_address,
)
from quire.model.envelope_schemas import build_schema
from quire.model.envelope_writing import (
    build_completion,
    build_failed_completion,
    build_image_text,
    build_ocr_request,
    encode_envelope,
)
from quire.model.envelopes import (
    OCR_QUEUE,
    RECIPE_QUEUE,
    BadEnvelope,
    ImageRef,
    JobEnvelope,
    OcrCompleted,
    OcrRequest,
)
from quire.model.page_text import Tier
from quire.queues.port import Message
from quire.settings import RedisSettings, Secret, Settings
from quire.system import SystemIds

pytestmark = [pytest.mark.slow, pytest.mark.service]
ROOT = Path(__file__).parents[2]
NOW = 1_800_000_000.0


@pytest.fixture
def url(redis_server):
    address = redis_server.removesuffix("/0") + "/8"
    with redis.Redis.from_url(address) as client:
        client.flushdb()
    return address


@pytest.fixture
def published(url):
    with redis.Redis.from_url(url) as client:
        yield client


@pytest.fixture
async def queues(url):
    async with open_envelope_queues(Settings(redis=RedisSettings(url=Secret(url))), SystemIds()) as queues:
        yield queues


async def run(program, url, *arguments):
    """The lines that a published program wrote until it ended."""
    command = [sys.executable, "-m", f"tests.standins.{program}", url, *arguments]
    ran = await asyncio.to_thread(
        subprocess.run, command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    return ran.stdout.splitlines()


async def take(queues, name):
    (leased,) = await queues.lease(name, limit=1, seconds=60, now=NOW)
    return leased


async def answer(queues, completed):
    body = encode_envelope(completed)
    jsonschema.Draft202012Validator(build_schema(OcrCompleted)).validate(json.loads(body))
    await queues.send(RECIPE_QUEUE, [Message(id=completed.job_id, body=body)], now=NOW)


async def test_a_published_server_gets_the_text_of_its_pictures_from_us(queues, url, published):
    job_id = push_request(published, build_request(["s3:s3://b/0.jpg", "local_path:1.jpg"], language="de"))
    leased = await take(queues, OCR_QUEUE)
    to = reply_address(read_ocr_request(leased.body))
    text = build_image_text(
        0, "Crêpes\n2 Eier", language="de", confidence=0.9, is_valid=True, tier=Tier.TESSERACT
    )
    await answer(queues, build_completion(to, [text], job_id="fresh", now=NOW))
    await queues.acknowledge([leased], now=NOW)
    at_work, received = await run("published_recipes_server", url, "work", "--jobs", "1")
    envelope = json.loads(received)
    assert at_work == "at work"
    assert (envelope["workflow_id"], envelope["trace"]["parent_job_id"]) == (job_id, job_id)
    assert [one["ocr_text"] for one in envelope["payload"]["results"]] == ["Crêpes\n2 Eier", ""]


async def test_a_published_server_is_told_that_its_message_was_wrong(queues, url, published):
    published.lpush(OCR_QUEUE, json.dumps(changed(REQUEST, schema_version=7)))
    leased = await take(queues, OCR_QUEUE)
    with pytest.raises(BadEnvelope) as caught:
        read_ocr_request(leased.body)
    reply = caught.value.reply
    await answer(
        queues, build_failed_completion(reply, code="bad_request", message="version", job_id="fresh", now=NOW)
    )
    _, received = await run("published_recipes_server", url, "work", "--jobs", "1")
    assert [one["index"] for one in json.loads(received)["payload"]["results"]] == [0, 4]
    assert json.loads(received)["payload"]["error"]["code"] == "bad_request"


async def send_request(queues, *, reply_to=RECIPE_QUEUE, number=2):
    refs = [ImageRef(kind="s3", value=f"s3://b/{index}.jpg", index=index) for index in range(number)]
    request = build_ocr_request(
        job_id="import-1", source="jarvis-recipes-server", reply_to=reply_to, image_refs=refs, now=NOW
    )
    body = encode_envelope(request)
    jsonschema.Draft202012Validator(build_schema(OcrRequest)).validate(json.loads(body))
    await queues.send(OCR_QUEUE, [Message(id="import-1", body=body)], now=NOW)


@pytest.mark.parametrize("reply_to", [RECIPE_QUEUE, "my.answers"])
async def test_a_published_worker_reads_our_pictures(queues, url, reply_to):
    await send_request(queues, reply_to=reply_to)
    images = {"0": {"text": "Pancakes"}, "1": {"error": "image_not_found"}}
    await run("published_ocr_worker", url, "--jobs", "1", "--images", json.dumps(images))
    leased = await take(queues, reply_to)
    completed = read_ocr_completed(leased.body)
    assert (completed.payload.status, completed.payload.error) == ("success", None)
    assert [(one.ocr_text, one.meta.tier) for one in completed.payload.results] == [
        ("Pancakes", Tier.PADDLEOCR),
        ("", Tier.TESSERACT),
    ]
    assert completed.trace.parent_job_id == "import-1"
    await queues.acknowledge([leased], now=NOW)
    assert (await queues.depth(reply_to, now=NOW)).waiting == 0


async def test_failures_of_a_published_worker_have_a_code(queues, url):
    await send_request(queues)
    await run("published_ocr_worker", url, "--jobs", "1", "--error", "ocr_no_valid_output")
    assert failure_code(read_ocr_completed((await take(queues, RECIPE_QUEUE)).body)) == "ocr_no_valid_output"


async def test_a_published_worker_that_tries_again_says_failed_each_time(queues, url):
    await send_request(queues)
    options = ["--job-error", "ocr_engine_error", "--fail-attempts", "2", "--jobs", "3"]
    await run("published_ocr_worker", url, *options)
    found = [read_ocr_completed((await take(queues, RECIPE_QUEUE)).body) for _ in range(3)]
    assert [failure_code(one) for one in found] == ["ocr_engine_error", "ocr_engine_error", None]
    assert [len(one.payload.results) for one in found] == [0, 0, 2]


@pytest.mark.parametrize("job_type", ["url", "recipe.import.url.requested", "ingestion", "image"])
async def test_what_a_published_server_queues_for_itself_is_read(queues, published, job_type):
    payload = {"url": "https://example.org", "more": [1, {"deep": None}]}
    enqueue(published, build_envelope(job_type, payload, job_id="j"))
    job = read_envelope((await take(queues, RECIPE_QUEUE)).body)
    assert isinstance(job, JobEnvelope)
    assert (job.job_id, job.job_type, job.payload) == ("j", job_type, payload)
