"""A stand-in for the published OCR worker, built from the contract and with its habits and its faults.

It pops `jarvis.ocr.jobs` (at most once: a crash loses the message), answers on the queue that the message
names, retries what may pass by pushing it to the wrong end, and sends a failed completion on every attempt.
A program: `python -m tests.standins.published_ocr_worker REDIS_URL --text "Pancakes"`. It prints `at work`,
then a line of JSON for each message. Must not know: anything of Quire.
"""

import argparse
import json
import signal
import sys
import uuid
from datetime import UTC, datetime
from types import FrameType
from typing import Any

import redis
import rq

QUEUE = "jarvis.ocr.jobs"
RECIPES = "jarvis.recipes.jobs"
FUNCTION = "jarvis_recipes.app.services.queue_worker.process_job"
MAX_ATTEMPTS = 3
MAX_TEXT_BYTES = 51_200
PASSING = {"ocr_engine_error", "file_read_error", "redis_error", "internal_error"}
NEEDED_FOR_ANSWER = ("reply_to", "workflow_id", "source", "job_id", "trace")
KINDS = {"local_path", "s3", "minio", "db"}

Message = dict[str, Any]


class OcrWorker:
    def __init__(self, url: str, given: argparse.Namespace) -> None:
        self._redis = redis.Redis.from_url(url)
        self._given = given
        self._stopping = False
        self._failing = given.fail_attempts

    def stop(self, *_: int | FrameType | None) -> None:
        self._stopping = True

    def run(self) -> None:
        print("at work", flush=True)  # noqa: T201 - the parent process waits for this
        done = 0
        while not self._stopping and done != self._given.jobs:
            popped = self._redis.brpop([QUEUE], timeout=self._given.pop_seconds)
            if popped is not None:
                self.handle(popped[1])
                done += 1

    def handle(self, body: bytes) -> None:
        message = self._read(body)
        problem = _find_problem(message)
        if problem is not None:
            if isinstance(message, dict) and all(message.get(name) is not None for name in NEEDED_FOR_ANSWER):
                self._fail(message, "bad_request", problem)
            else:
                _tell("lost", reason=problem)
            return
        if self._given.job_error and (self._failing != 0):
            self._failing -= 1
            self._fail(message, self._given.job_error, "the whole job failed")
            if self._given.job_error in PASSING and message["attempt"] < MAX_ATTEMPTS:
                # Meant for the back of the queue; but messages are taken from this very end.
                again = message | {"attempt": message["attempt"] + 1}
                self._redis.rpush(QUEUE, json.dumps(again))
                _tell("retried", job_id=message["job_id"], attempt=again["attempt"])
            return
        language = message["payload"].get("options", {}).get("language", "en")
        refs = sorted(message["payload"]["image_refs"], key=lambda ref: ref["index"])
        results = [self._recognise(ref, language) for ref in refs]
        is_success = any(one["meta"]["is_valid"] for one in results)
        # Two nulls instead of null, also when every picture failed.
        self._answer(message, "success" if is_success else "failed", results, {"message": None, "code": None})

    def _recognise(self, ref: Message, language: str) -> Message:
        chosen = self._given.images.get(str(ref["index"]), {})
        code = chosen.get("error", None if "text" in chosen else self._given.error)
        text = "" if code else chosen.get("text", self._given.text)
        kept = text.encode()[:MAX_TEXT_BYTES].decode("utf-8", "ignore")
        meta = {
            "language": language,
            "confidence": 0.0 if code else self._given.confidence,
            "text_len": len(kept.encode()),
            "is_valid": not code,
            "tier": "unknown" if code else self._given.tier,
            "validation_reason": (code or "looks like text")[:200],
        }
        error = {"message": "nothing usable was found", "code": code} if code else None
        truncated = len(kept) < len(text)
        return {"index": ref["index"], "ocr_text": kept, "truncated": truncated, "meta": meta, "error": error}

    def _fail(self, message: Message, code: str, problem: str) -> None:
        self._answer(message, "failed", [], {"message": problem, "code": code})

    def _answer(self, message: Message, status: str, results: list[Message], error: Message) -> None:
        completion = {
            "schema_version": 1,
            "job_id": str(uuid.uuid4()),
            "workflow_id": message["workflow_id"],
            "job_type": "ocr.completed",
            "source": "jarvis-ocr-service",
            "target": message["source"],
            "created_at": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
            "attempt": 1,
            "reply_to": None,
            "payload": {"status": status, "results": results, "artifact_ref": None, "error": error},
            "trace": {"request_id": message["trace"].get("request_id"), "parent_job_id": message["job_id"]},
        }
        text = json.dumps(completion)
        if message["reply_to"] == RECIPES:
            queue = rq.Queue(RECIPES, connection=self._redis)
            queue.enqueue(FUNCTION, text, job_id=completion["job_id"], job_timeout="10m")
        else:
            self._redis.lpush(message["reply_to"], text)
        _tell("answered", job_id=message["job_id"], status=status, attempt=message.get("attempt"))

    def _read(self, body: bytes) -> Any:
        try:
            return json.loads(body)
        except ValueError:
            return None


def _find_problem(message: Any) -> str | None:
    if not isinstance(message, dict):
        return "no JSON object"
    needed = ("schema_version", "job_type", "target", "created_at", "attempt", "payload", *NEEDED_FOR_ANSWER)
    missing = [name for name in needed if name not in message]
    if missing:
        return f"missing: {', '.join(missing)}"
    if message["schema_version"] != 1 or message["job_type"] != "ocr.extract_text.requested":
        return "not a request for OCR"
    return _find_problem_of_images(message["payload"])


def _find_problem_of_images(payload: Any) -> str | None:
    refs = payload.get("image_refs") if isinstance(payload, dict) else None
    if not isinstance(refs, list) or not 1 <= len(refs) <= 8:
        return "image_refs must have 1 to 8 entries"
    for ref in refs:
        if not isinstance(ref, dict) or ref.get("kind") not in KINDS or not ref.get("value"):
            return "a bad image_ref"
    if len({ref.get("index") for ref in refs}) < len(refs):
        return "an index twice"
    return None


def _tell(event: str, **what: Any) -> None:
    print(json.dumps({"event": event, **what}), flush=True)  # noqa: T201 - what the parent process reads


def _read_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="published_ocr_worker")
    parser.add_argument("url", help="redis://…")
    parser.add_argument("--text", default="Pancakes\n2 eggs", help="what every picture says")
    parser.add_argument("--error", help="error code of every picture, instead of a text")
    parser.add_argument(
        "--images",
        type=json.loads,
        default={},
        help='by index, as JSON: {"0": {"text": "…"}, "1": {"error": "image_not_found"}}',
    )
    parser.add_argument("--job-error", help="code with which whole jobs fail")
    parser.add_argument("--fail-attempts", type=int, default=-1, help="so many attempts fail; -1: all")
    parser.add_argument("--tier", default="rapidocr")
    parser.add_argument("--confidence", type=float, default=0.5)
    parser.add_argument("--jobs", type=int, default=-1, help="end after so many messages")
    parser.add_argument("--pop-seconds", type=int, default=5)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    given = _read_arguments(sys.argv[1:])
    worker = OcrWorker(given.url, given)
    signal.signal(signal.SIGTERM, worker.stop)
    worker.run()
