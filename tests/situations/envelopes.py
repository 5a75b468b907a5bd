"""Envelopes as they travel: valid ones as dictionaries, to be changed by a test."""

import copy
import json
from typing import Any

REQUEST: dict[str, Any] = {
    "schema_version": 1,
    "job_id": "5b0e",
    "workflow_id": "5b0e",
    "job_type": "ocr.extract_text.requested",
    "source": "jarvis-recipes-server",
    "target": "jarvis-ocr-service",
    "created_at": "2026-01-10T12:00:00.123456",
    "attempt": 1,
    "reply_to": "jarvis.recipes.jobs",
    "payload": {
        "image_refs": [
            {"kind": "s3", "value": "s3://recipes/0.jpg", "index": 0},
            {"kind": "local_path", "value": "1.jpg", "index": 4},
        ],
        "options": {"language": "de"},
    },
    "trace": {"request_id": "r", "parent_job_id": None},
}
COMPLETED: dict[str, Any] = {
    "schema_version": 1,
    "job_id": "c1d2",
    "workflow_id": "5b0e",
    "job_type": "ocr.completed",
    "source": "jarvis-ocr-service",
    "target": "jarvis-recipes-server",
    "created_at": "2026-01-10T12:00:09Z",
    "attempt": 1,
    "reply_to": None,
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
    "trace": {"request_id": None, "parent_job_id": "5b0e"},
}
ABSENT = object()


def changed(envelope: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A copy. Keys are paths with `__` between their parts (numbers are places in lists); ABSENT removes."""
    made = copy.deepcopy(envelope)
    for path, value in changes.items():
        *parents, last = (int(part) if part.isdecimal() else part for part in path.split("__"))
        place = made
        for parent in parents:
            place = place[parent]
        if value is ABSENT:
            del place[last]
        else:
            place[last] = value
    return made


def written(envelope: Any) -> bytes:
    return json.dumps(envelope).encode()
