"""Reads envelopes leniently: from bytes that anybody may have sent to values, or BadEnvelope.

Unknown keys are ignored; so is what published programs are known to write beside the locked schemas. The size
is checked before anything is decoded. Whatever the bytes are, nothing but BadEnvelope is raised.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from quire.model.envelopes import (
    MAX_DEPTH,
    MAX_ENVELOPE_BYTES,
    MAX_IMAGES,
    SCHEMA_VERSION,
    BadEnvelope,
    Envelope,
    JobEnvelope,
    JobType,
    MessageError,
    OcrCompleted,
    OcrRequest,
    ReplyAddress,
    Trace,
)
from quire.model.page_text import Tier
from quire.model.queues import is_queue_name

# Names and ids that are longer are nobody's: they would become keys and columns elsewhere.
MAX_NAME_CHARACTERS = 500
# Beyond it JSON has no exact numbers.
MAX_NUMBER = 2**53
_NAMES = ("job_id", "workflow_id", "job_type", "source", "target", "created_at", "reply_to")
# Tiers that published programs write beside those of the schema.
_TIERS = {tier.value: tier.value for tier in Tier} | {"rapidocr": Tier.PADDLEOCR.value}

T = TypeVar("T", bound=Envelope)


def read_envelope(body: bytes) -> OcrRequest | OcrCompleted | JobEnvelope:
    """Any message, by its job type. Raises BadEnvelope."""
    fields = _decode(body)
    kind = fields.get("job_type")
    if kind == JobType.OCR_REQUESTED:
        return _read_request(fields)
    if kind == JobType.OCR_COMPLETED:
        return _read_completed(fields)
    if not isinstance(fields.get("payload"), dict):
        raise BadEnvelope("payload is missing or no object", reply=_find_reply(fields))
    return _convert(fields, JobEnvelope)


def read_ocr_request(body: bytes) -> OcrRequest:
    """Raises BadEnvelope, also for any other job type."""
    fields = _decode(body)
    if fields.get("job_type") != JobType.OCR_REQUESTED:
        raise BadEnvelope(f"job_type is not {JobType.OCR_REQUESTED}", reply=_find_reply(fields))
    return _read_request(fields)


def read_ocr_completed(body: bytes) -> OcrCompleted:
    """Raises BadEnvelope, also for any other job type."""
    fields = _decode(body)
    if fields.get("job_type") != JobType.OCR_COMPLETED:
        raise BadEnvelope(f"job_type is not {JobType.OCR_COMPLETED}", reply=_find_reply(fields))
    return _read_completed(fields)


def reply_address(request: OcrRequest) -> ReplyAddress:
    return ReplyAddress(
        reply_to=request.reply_to,
        job_id=request.job_id,
        workflow_id=request.workflow_id,
        source=request.source,
        trace=request.trace,
        indices=tuple(sorted(one.index for one in request.payload.image_refs)),
        language=request.payload.options.language,
    )


def failure_code(completed: OcrCompleted) -> str | None:
    """Why the job failed, also where only the pictures' errors say it; None when it succeeded."""
    payload = completed.payload
    errors = [payload.error, *(one.error for one in payload.results)]
    codes = [error.code for error in errors if error is not None and error.code]
    if payload.status == "success":
        return payload.error.code if payload.error is not None else None
    return codes[0] if codes else "ocr_no_results"


def read_moment(text: str) -> float | None:
    """Seconds since 1970 of an ISO 8601 text; without a zone it is UTC. None: it is no such text."""
    try:
        moment = datetime.fromisoformat(text)
        zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return zoned.astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def read_created_at(body: bytes) -> float | None:
    """When the envelope says that it was made; None for anything that does not say it."""
    if len(body) > MAX_ENVELOPE_BYTES:
        return None
    try:
        return read_moment(msgspec.json.decode(body, type=dict[str, Any]).get("created_at") or "")
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
        return None


def _decode(body: bytes) -> dict[str, Any]:
    if len(body) > MAX_ENVELOPE_BYTES:
        raise BadEnvelope(f"the message has {len(body)} bytes, the limit is {MAX_ENVELOPE_BYTES}")
    try:
        fields = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadEnvelope(f"the message is no JSON text: {error}") from error
    if not isinstance(fields, dict):
        raise BadEnvelope("the message is no JSON object")
    if _is_deeper(fields, MAX_DEPTH):
        raise BadEnvelope(f"the message is nested more than {MAX_DEPTH} levels deep")
    return fields


def _is_deeper(value: Any, levels: int) -> bool:
    layer = [value]
    for _ in range(levels):
        layer = [
            inner
            for one in layer
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, dict | list)
        ]
        if not layer:
            return False
    return True


def _read_request(fields: dict[str, Any]) -> OcrRequest:
    payload = fields.get("payload")
    if not isinstance(payload, dict):
        raise BadEnvelope("payload is missing or no object", reply=_find_reply(fields))
    payload = dict(payload)
    refs = payload.get("image_refs")
    if isinstance(refs, list):
        payload["image_refs"] = [_with_integers(one, "index") for one in refs]
    options = payload.get("options")
    if options is None:
        payload.pop("options", None)
    elif isinstance(options, dict) and options.get("language") in (None, ""):
        payload["options"] = {name: value for name, value in options.items() if name != "language"}
    request = _convert(fields | {"payload": payload}, OcrRequest)
    if not is_queue_name(request.reply_to):
        raise BadEnvelope("reply_to is no name of a queue")
    indices = [one.index for one in request.payload.image_refs]
    if len(set(indices)) < len(indices):
        raise BadEnvelope("two pictures have the same index", reply=_find_reply(fields))
    if "image_count" in payload and payload["image_count"] != len(indices):
        raise BadEnvelope(
            f"image_count is not the number of pictures, which is {len(indices)}", reply=_find_reply(fields)
        )
    return request


def _read_completed(fields: dict[str, Any]) -> OcrCompleted:
    payload = fields.get("payload")
    if not isinstance(payload, dict) or not isinstance(payload.get("results"), list):
        raise BadEnvelope("payload or its results are missing")
    results = [_without_deviations(one) for one in payload["results"]]
    # An empty list is against the schema, and written by published programs when the whole job failed.
    stand_in = results or [_NO_RESULT]
    completed = _convert(fields | {"payload": dict(payload) | {"results": stand_in}}, OcrCompleted)
    found = completed.payload.results if results else ()
    if len({one.index for one in found}) < len(found):
        raise BadEnvelope("two results have the same index")
    ordered = tuple(
        structs.replace(one, error=_without_nulls(one.error))
        for one in sorted(found, key=lambda one: one.index)
    )
    error = _without_nulls(completed.payload.error)
    return structs.replace(
        completed, payload=structs.replace(completed.payload, results=ordered, error=error)
    )


_NO_META = {"language": "en", "confidence": 0.0, "text_len": 0, "is_valid": False, "tier": "unknown"}
_NO_RESULT: dict[str, Any] = {
    "index": 0,
    "ocr_text": "",
    "truncated": False,
    "meta": _NO_META | {"tier": Tier.TESSERACT.value},
}


def _without_deviations(result: Any) -> Any:
    """One result as the schema wants it, as far as its sense is clear."""
    if not isinstance(result, dict):
        return result
    made = _with_integers(result, "index")
    given = made.get("meta")
    if given is not None and not isinstance(given, dict):
        return made
    meta = _with_integers(_NO_META | (given or {}), "text_len")
    tier, confidence = meta["tier"], meta["confidence"]
    if isinstance(tier, str):
        # For people and metrics alone: one that nobody knows must not cost the text.
        meta["tier"] = _TIERS.get(tier, Tier.TESSERACT.value)
    if isinstance(confidence, int | float) and not isinstance(confidence, bool):
        # An integer may be too large for a float.
        meta["confidence"] = float(min(1, max(0, confidence)))
    meta["language"] = meta["language"] or "en"
    return {"truncated": False} | made | {"meta": meta, "ocr_text": made.get("ocr_text") or ""}


def _without_nulls(error: MessageError | None) -> MessageError | None:
    """None for the error with two nulls that published programs write where there is none."""
    return None if error is None or error == MessageError() else error


def _convert(fields: dict[str, Any], kind: type[T]) -> T:
    """Raises BadEnvelope with the address of the sender, if it can be told."""
    reply = _find_reply(fields) if kind is not OcrCompleted else None
    made = _with_integers(fields, "attempt", "schema_version")
    if made.get("trace") is None and kind is not OcrRequest:
        made["trace"] = {}
    problem = _find_problem(made)
    if problem:
        raise BadEnvelope(problem, reply=reply)
    try:
        envelope = msgspec.convert(made, kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadEnvelope(str(error)[:MAX_NAME_CHARACTERS], reply=reply) from error
    if max(_numbers(envelope)) > MAX_NUMBER:
        raise BadEnvelope(f"a number is greater than {MAX_NUMBER}", reply=reply)
    if read_moment(envelope.created_at) is None:
        raise BadEnvelope("created_at is no moment in ISO 8601", reply=reply)
    return envelope


def _find_problem(fields: Mapping[str, Any]) -> str | None:
    """What is wrong with the keys of every envelope that the structs do not say."""
    version = fields.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        return f"schema_version is not {SCHEMA_VERSION}"
    for name in ("attempt", "source", "trace"):
        if name not in fields:
            return f"{name} is missing"
    for name in _NAMES:
        if isinstance(fields.get(name), str) and len(fields[name]) > MAX_NAME_CHARACTERS:
            return f"{name} has more than {MAX_NAME_CHARACTERS} characters"
    return None


def _numbers(envelope: Envelope) -> Iterator[int]:
    yield envelope.attempt
    if isinstance(envelope, OcrRequest):
        yield from (one.index for one in envelope.payload.image_refs)
    if isinstance(envelope, OcrCompleted):
        yield from (one.index for one in envelope.payload.results)
        yield from (one.meta.text_len for one in envelope.payload.results)


def _with_integers(fields: Any, *names: str) -> Any:
    """With whole numbers that were written as 1.0, which JSON does not tell from 1, as integers."""
    if not isinstance(fields, dict):
        return fields
    whole = {
        name: int(fields[name])
        for name in names
        if isinstance(fields.get(name), float)
        and fields[name].is_integer()
        and abs(fields[name]) <= MAX_NUMBER
    }
    return {**fields, **whole}


def _find_reply(fields: Mapping[str, Any]) -> ReplyAddress | None:
    """None where something is missing that a failed completion needs."""
    needed = {name: fields.get(name) for name in ("reply_to", "job_id", "workflow_id", "source")}
    trace = fields.get("trace")
    if not isinstance(trace, dict):
        return None
    texts = {name: value for name, value in needed.items() if isinstance(value, str)}
    if len(texts) < len(needed) or not all(0 < len(one) <= MAX_NAME_CHARACTERS for one in texts.values()):
        return None
    if not is_queue_name(texts["reply_to"]):
        return None
    request_id = trace.get("request_id")
    parent = trace.get("parent_job_id")
    indices, language = _find_pictures(fields.get("payload"))
    return ReplyAddress(
        **texts,
        trace=Trace(
            request_id=request_id if isinstance(request_id, str) else None,
            parent_job_id=parent if isinstance(parent, str) else None,
        ),
        indices=indices,
        language=language,
    )


def _find_pictures(payload: Any) -> tuple[tuple[int, ...], str]:
    """The indices that can be answered, in order, and the language, of a payload that may be wrong."""
    if not isinstance(payload, dict):
        return (), "en"
    refs = payload.get("image_refs")
    found = {
        one["index"]
        for one in (refs if isinstance(refs, list) else [])
        if isinstance(one, dict) and type(one.get("index")) is int and 0 <= one["index"] <= MAX_NUMBER
    }
    options = payload.get("options")
    language = options.get("language") if isinstance(options, dict) else None
    return tuple(sorted(found))[:MAX_IMAGES], language if isinstance(language, str) and language else "en"
