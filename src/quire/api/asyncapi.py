"""The AsyncAPI document: which envelopes travel on which queue, with the schemas of the same structs."""

from typing import Any

from quire.model.envelope_schemas import build_schema
from quire.model.envelopes import (
    OCR_QUEUE,
    OCR_SERVICE,
    RECIPE_QUEUE,
    RECIPE_SERVER,
    Envelope,
    JobEnvelope,
    JobType,
    OcrCompleted,
    OcrRequest,
)

_ABOUT = """The envelopes that the OCR service and recipe import pass to each other on Redis.
`jarvis.ocr.jobs`, and any other queue to which an answer shall go, is a plain list: producers LPUSH,
consumers take from the right. `jarvis.recipes.jobs` is the queue of RQ workers (rq 1.15, below 2), whose jobs
carry the envelope as text."""

_REQUEST: dict[str, Any] = {
    "schema_version": 1,
    "job_id": "5b0e2f0c-8f0c-4c8a-9f6a-2f1f4f1f7b11",
    "workflow_id": "5b0e2f0c-8f0c-4c8a-9f6a-2f1f4f1f7b11",
    "job_type": "ocr.extract_text.requested",
    "source": RECIPE_SERVER,
    "target": OCR_SERVICE,
    "created_at": "2026-01-10T12:00:00.123Z",
    "attempt": 1,
    "reply_to": RECIPE_QUEUE,
    "trace": {"request_id": None, "parent_job_id": None},
    "payload": {
        "image_refs": [{"kind": "s3", "value": "s3://recipes/recipe-images/7/5b0e/0.jpg", "index": 0}],
        "options": {"language": "en"},
    },
}
_COMPLETED: dict[str, Any] = _REQUEST | {
    "job_id": "c1d2b6de-54c1-4d0f-8a3b-0b4f1c7e7a55",
    "job_type": "ocr.completed",
    "source": OCR_SERVICE,
    "target": RECIPE_SERVER,
    "created_at": "2026-01-10T12:00:09.000Z",
    "reply_to": None,
    "trace": {"request_id": None, "parent_job_id": _REQUEST["job_id"]},
    "payload": {
        "status": "success",
        "results": [
            {
                "index": 0,
                "ocr_text": "Pancakes\n2 eggs",
                "truncated": False,
                "meta": {
                    "language": "en",
                    "confidence": 0.82,
                    "text_len": 15,
                    "is_valid": True,
                    "tier": "tesseract",
                },
                "error": None,
            }
        ],
        "artifact_ref": None,
        "error": None,
    },
}
_URL: dict[str, Any] = _REQUEST | {
    "job_type": "recipe.import.url.requested",
    "target": RECIPE_SERVER,
    "reply_to": None,
    "payload": {"url": "https://example.org/pancakes", "use_llm_fallback": False},
}
_MANUAL: dict[str, Any] = _URL | {
    "job_type": "recipe.create.manual.requested",
    "payload": {"title": "Pancakes", "ingredients": [{"name": "eggs", "quantity": "2"}], "steps": ["Mix."]},
}
# Name of the schema, job type, what it is, an example.
MESSAGES: tuple[tuple[type[Envelope], JobType, str, dict[str, Any]], ...] = (
    (OcrRequest, JobType.OCR_REQUESTED, "Read the text of 1 to 8 pictures.", _REQUEST),
    (OcrCompleted, JobType.OCR_COMPLETED, "The texts of the pictures, or why there are none.", _COMPLETED),
    (JobEnvelope, JobType.URL_REQUESTED, "Import the recipe of a web page.", _URL),
    (JobEnvelope, JobType.MANUAL_REQUESTED, "Create the recipe that the payload holds.", _MANUAL),
)
_KEYS = {
    JobType.OCR_REQUESTED: "OcrRequested",
    JobType.OCR_COMPLETED: "OcrCompleted",
    JobType.URL_REQUESTED: "UrlRequested",
    JobType.MANUAL_REQUESTED: "ManualRequested",
}


def build_asyncapi(*, version: str) -> dict[str, Any]:
    """AsyncAPI 3.0, from the point of view of Quire, which can stand on both sides."""
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "Quire", "version": version, "description": _ABOUT},
        "defaultContentType": "application/json",
        "servers": {
            "redis": {"host": "localhost:6379", "protocol": "redis", "description": "setting `redis.url`"}
        },
        "channels": {
            "ocrJobs": _describe_channel(OCR_QUEUE, "A plain list.", JobType.OCR_REQUESTED),
            "recipeJobs": _describe_channel(
                RECIPE_QUEUE,
                "The queue of RQ workers.",
                JobType.OCR_COMPLETED,
                JobType.URL_REQUESTED,
                JobType.MANUAL_REQUESTED,
            ),
            "replies": _describe_channel(
                None, "Any other list that a request names in `reply_to`.", JobType.OCR_COMPLETED
            ),
        },
        "operations": {
            "extractText": {
                "action": "receive",
                "channel": {"$ref": "#/channels/ocrJobs"},
                "summary": "The OCR service takes a request and answers it once.",
                "reply": {
                    "address": {"location": "$message.payload#/reply_to"},
                    "channel": {"$ref": "#/channels/replies"},
                },
            },
            "requestText": {
                "action": "send",
                "channel": {"$ref": "#/channels/ocrJobs"},
                "summary": "Recipe import asks for the text of the pictures of a recipe.",
            },
            "continueImport": {
                "action": "receive",
                "channel": {"$ref": "#/channels/recipeJobs"},
                "summary": "Recipe import goes on with a completion, or begins with a URL or a draft.",
            },
            "completeRequest": {
                "action": "send",
                "channel": {"$ref": "#/channels/recipeJobs"},
                "summary": "The OCR service tells recipe import what it has read.",
            },
        },
        "components": {
            "messages": {
                _KEYS[kind]: _describe_message(struct, kind, about, example)
                for struct, kind, about, example in MESSAGES
            },
            "schemas": {
                struct.__name__: build_schema(struct) for struct in dict.fromkeys(one[0] for one in MESSAGES)
            },
        },
    }


def _describe_channel(address: str | None, about: str, *kinds: JobType) -> dict[str, Any]:
    messages = {_KEYS[kind]: {"$ref": f"#/components/messages/{_KEYS[kind]}"} for kind in kinds}
    return {"address": address, "description": about, "messages": messages}


def _describe_message(
    struct: type[Envelope], kind: JobType, about: str, example: dict[str, Any]
) -> dict[str, Any]:
    return {
        "name": kind.value,
        "title": kind.value,
        "summary": about,
        "contentType": "application/json",
        "payload": {"$ref": f"#/components/schemas/{struct.__name__}"},
        "correlationId": {"location": "$message.payload#/workflow_id"},
        "examples": [{"payload": example}],
    }
