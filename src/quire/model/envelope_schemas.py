"""The JSON Schemas (draft 2020-12) of the envelopes, generated from the structs: closed, without references.

What is written is valid under them; reading accepts more. Those of the request for OCR and of its completion
are locked: published programs carry copies.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from quire.model.envelopes import Envelope, JobEnvelope, OcrCompleted, OcrRequest

DIALECT = "https://json-schema.org/draft/2020-12/schema"
SCHEMA_IDS: Mapping[type[Envelope], str] = MappingProxyType(
    {
        OcrRequest: "jarvis.ocr.request.v1",
        OcrCompleted: "jarvis.ocr.completed.v1",
        JobEnvelope: "jarvis.job.v1",
    }
)
# Everything is written, but published programs may leave these out.
_OPTIONAL = frozenset({("OcrRequestPayload", "options"), ("OcrOptions", "language")})
_DROPPED = frozenset({"title", "description", "default"})


def build_schema(kind: type[Envelope]) -> dict[str, Any]:
    """The whole schema of one kind of envelope, for a validator or a page."""
    (reference,), components = msgspec.json.schema_components([kind], ref_template="{name}")
    return {"$schema": DIALECT, "$id": SCHEMA_IDS[kind]} | _close(reference, components)


def _close(schema: Mapping[str, Any], components: Mapping[str, Any], name: str = "") -> dict[str, Any]:
    """The schema without references, with every object closed and every property required."""
    if "$ref" in schema:
        name = schema["$ref"]
        return _close(components[name], components, name)
    if "anyOf" in schema:
        return _join_null([_close(one, components) for one in schema["anyOf"]])
    closed = {key: value for key, value in schema.items() if key not in _DROPPED}
    if "const" in closed:
        return {"const": closed["const"]}
    if len(closed.get("enum", ())) == 1:
        return {"const": closed["enum"][0]}
    if isinstance(closed.get("items"), Mapping):
        closed["items"] = _close(closed["items"], components)
    if "enum" in closed:
        closed = {"type": "string"} | closed
    if "properties" in closed:
        properties = {key: _close(value, components) for key, value in closed["properties"].items()}
        closed = {
            "type": "object",
            "additionalProperties": False,
            "required": [key for key in properties if (name, key) not in _OPTIONAL],
            "properties": properties,
        }
        if not closed["required"]:
            del closed["required"]
    return closed


def _join_null(choices: list[dict[str, Any]]) -> dict[str, Any]:
    """Something or null, as one schema with two types."""
    (given,) = (one for one in choices if one != {"type": "null"})
    return given | {"type": [given["type"], "null"]}
