"""A stand-in for the published recipes server on the queues, built from the contract.

It pushes requests for OCR to a plain list, with moments that have no zone, enqueues jobs for itself with RQ,
and takes what comes back with a real RQ worker. A program:

    python -m tests.standins.published_recipes_server REDIS_URL request --image s3:s3://bucket/0.jpg
    python -m tests.standins.published_recipes_server REDIS_URL enqueue --job-type url --payload '{…}'
    python -m tests.standins.published_recipes_server REDIS_URL work --jobs 1

`request` and `enqueue` print the id of the job; `work` prints `at work`, then the text of each message that
its function was called with, one a line. Must not know: anything of Quire.
"""

import argparse
import json
import sys
import types
import uuid
from datetime import UTC, datetime
from typing import Any

import redis
import rq

OCR = "jarvis.ocr.jobs"
RECIPES = "jarvis.recipes.jobs"
MODULE = "jarvis_recipes.app.services.queue_worker"
FUNCTION = f"{MODULE}.process_job"
SOURCE = "jarvis-recipes-server"


def naive_now() -> str:
    return datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")


def build_envelope(job_type: str, payload: dict[str, Any], **changes: Any) -> dict[str, Any]:
    job_id = changes.get("job_id") or str(uuid.uuid4())
    envelope = {
        "schema_version": 1,
        "job_id": job_id,
        "workflow_id": job_id,
        "job_type": job_type,
        "source": SOURCE,
        "target": SOURCE,
        "created_at": naive_now(),
        "attempt": 1,
        "reply_to": None,
        "payload": payload,
        "trace": {"request_id": None, "parent_job_id": None},
    }
    return envelope | changes


def build_request(images: list[str], **changes: Any) -> dict[str, Any]:
    """`images` are `kind:value`."""
    refs = []
    for index, image in enumerate(images):
        kind, _, value = image.partition(":")
        refs.append({"kind": kind, "value": value, "index": index})
    payload = {"image_refs": refs, "options": {"language": changes.pop("language", "en")}}
    changes = {"target": "jarvis-ocr-service", "reply_to": RECIPES} | changes
    return build_envelope("ocr.extract_text.requested", payload, **changes)


def push_request(client: "redis.Redis", request: dict[str, Any]) -> str:
    client.lpush(OCR, json.dumps(request))
    return str(request["job_id"])


def enqueue(client: "redis.Redis", envelope: dict[str, Any]) -> str:
    queue = rq.Queue(RECIPES, connection=client)
    queue.enqueue(FUNCTION, json.dumps(envelope), job_id=envelope["job_id"], job_timeout="10m")
    return str(envelope["job_id"])


def work(client: "redis.Redis", jobs: int | None, *, burst: bool) -> None:
    """Calls the published function's name with what arrives: here it prints the text."""

    def process_job(text: str) -> None:
        print(text, flush=True)  # noqa: T201 - what the parent process reads

    _make_module(process_job)
    worker = rq.SimpleWorker([RECIPES], connection=client)
    print("at work", flush=True)  # noqa: T201 - the parent process waits for this
    worker.work(burst=burst, max_jobs=jobs, logging_level="ERROR")


def _make_module(process_job: Any) -> None:
    process_job.__module__ = MODULE
    parts = MODULE.split(".")
    for length in range(1, len(parts) + 1):
        name = ".".join(parts[:length])
        module = types.ModuleType(name)
        module.__path__ = []
        sys.modules[name] = module
        if length > 1:
            setattr(sys.modules[".".join(parts[: length - 1])], parts[length - 1], module)
    sys.modules[MODULE].process_job = process_job  # type: ignore[attr-defined]


def _read_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="published_recipes_server")
    parser.add_argument("url", help="redis://…")
    commands = parser.add_subparsers(dest="command", required=True)
    request = commands.add_parser("request")
    request.add_argument("--image", action="append", required=True, help="kind:value, repeated")
    request.add_argument("--language", default="en")
    request.add_argument("--reply-to", default=RECIPES)
    request.add_argument("--job-id")
    job = commands.add_parser("enqueue")
    job.add_argument("--job-type", required=True)
    job.add_argument("--payload", type=json.loads, default={})
    job.add_argument("--job-id")
    worker = commands.add_parser("work")
    worker.add_argument("--jobs", type=int)
    worker.add_argument("--burst", action="store_true")
    return parser.parse_args(arguments)


def main(given: argparse.Namespace) -> None:
    client = redis.Redis.from_url(given.url)
    if given.command == "work":
        work(client, given.jobs, burst=given.burst)
        return
    named = {"job_id": given.job_id} if given.job_id else {}
    if given.command == "request":
        changes = {"language": given.language, "reply_to": given.reply_to, **named}
        job_id = push_request(client, build_request(given.image, **changes))
    else:
        job_id = enqueue(client, build_envelope(given.job_type, given.payload, **named))
    print(job_id)  # noqa: T201 - what the parent process reads


if __name__ == "__main__":
    main(_read_arguments(sys.argv[1:]))
