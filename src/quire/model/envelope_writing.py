"""Builds and writes envelopes strictly: what leaves here is valid under the locked schemas.

Fresh ids and the time are handed in. Must not know: queues, and how a text was read.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec
from msgspec import structs

from quire.model.clock import timestamp
from quire.model.envelope_reading import read_moment
from quire.model.envelopes import (
    MAX_ENVELOPE_BYTES,
    MAX_IMAGES,
    MAX_TEXT_BYTES,
    OCR_SERVICE,
    SCHEMA_VERSION,
    Envelope,
    ImageRef,
    ImageText,
    JobType,
    MessageError,
    OcrCompleted,
    OcrCompletedPayload,
    OcrErrorCode,
    OcrMeta,
    OcrOptions,
    OcrRequest,
    OcrRequestPayload,
    ReplyAddress,
    Trace,
)
from quire.model.errors import Reject
from quire.model.page_text import Tier

# Of the message of an error: enough for a person, and no way to send a document.
MAX_ERROR_CHARACTERS = 500
# A cut text is still of use; below this much for each the message itself is the wrong one.
_LEAST_TEXT_BYTES = 256


def cut_text(text: str, most: int = MAX_TEXT_BYTES) -> tuple[str, bool]:
    """The text as far as `most` bytes of UTF-8 go, never half a character; and whether it was cut. What
    UTF-8 cannot say becomes a question mark.
    """
    data = text.encode("utf-8", "replace")
    kept = data[:most].decode("utf-8", "ignore")
    return kept, len(data) > most


def build_image_text(
    index: int, text: str, *, language: str, confidence: float, is_valid: bool, tier: Tier
) -> ImageText:
    """A result with text, cut to what a message may hold."""
    kept, truncated = cut_text(text)
    meta = OcrMeta(
        language=language or "en",
        confidence=min(1.0, max(0.0, confidence)),
        text_len=len(kept.encode()),
        is_valid=is_valid,
        tier=tier,
    )
    return ImageText(index=index, ocr_text=kept, truncated=truncated, meta=meta)


def build_image_failure(
    index: int, code: str, message: str, *, language: str = "en", tier: Tier = Tier.TESSERACT
) -> ImageText:
    """A result without text. The schema wants a tier even where none has read: it says nothing then."""
    meta = OcrMeta(language=language or "en", confidence=0.0, text_len=0, is_valid=False, tier=tier)
    error = MessageError(message=_to_message(message), code=code)
    return ImageText(index=index, ocr_text="", truncated=False, meta=meta, error=error)


def build_completion(
    to: ReplyAddress, results: Iterable[ImageText], *, job_id: str, now: float
) -> OcrCompleted:
    """The answer to a request: success when at least one picture has valid text. A picture that was asked for
    and has no result counts as failed; results that nobody asked for are left out.
    """
    by_index = {one.index: one for one in results}
    wanted = to.indices or tuple(sorted(by_index)) or (0,)
    complete = tuple(
        by_index.get(index)
        or build_image_failure(
            index, OcrErrorCode.INTERNAL_ERROR.value, "there is no result", language=to.language
        )
        for index in sorted(set(wanted))[:MAX_IMAGES]
    )
    is_success = any(one.meta.is_valid and one.error is None for one in complete)
    failed = next((one.error for one in complete if one.error is not None), None)
    error = (
        None
        if is_success
        else failed or MessageError(message="no valid text", code=OcrErrorCode.NO_VALID_OUTPUT.value)
    )
    payload = OcrCompletedPayload(status="success" if is_success else "failed", results=complete, error=error)
    return _build_completed(to, payload, job_id=job_id, now=now)


def build_failed_completion(
    to: ReplyAddress, *, code: str, message: str, job_id: str, now: float
) -> OcrCompleted:
    """The answer when the whole job failed: the same error for each picture."""
    failures = [
        build_image_failure(index, code, message, language=to.language) for index in to.indices or (0,)
    ]
    return build_completion(to, failures, job_id=job_id, now=now)


def _build_completed(
    to: ReplyAddress, payload: OcrCompletedPayload, *, job_id: str, now: float
) -> OcrCompleted:
    return OcrCompleted(
        job_id=job_id,
        workflow_id=to.workflow_id,
        target=to.source,
        created_at=timestamp(now),
        trace=Trace(request_id=to.trace.request_id, parent_job_id=to.job_id),
        payload=payload,
    )


def build_ocr_request(
    *,
    job_id: str,
    source: str,
    reply_to: str,
    image_refs: Iterable[ImageRef],
    now: float,
    target: str = OCR_SERVICE,
    language: str = "en",
    request_id: str | None = None,
    attempt: int = 1,
) -> OcrRequest:
    """A request whose workflow is the job itself, as recipe import sends it."""
    return OcrRequest(
        job_id=job_id,
        workflow_id=job_id,
        source=source,
        target=target,
        created_at=timestamp(now),
        attempt=attempt,
        reply_to=reply_to,
        trace=Trace(request_id=request_id),
        payload=OcrRequestPayload(
            image_refs=tuple(image_refs), options=OcrOptions(language=language or "en")
        ),
    )


def encode_envelope(envelope: Envelope, *, max_bytes: int = MAX_ENVELOPE_BYTES) -> bytes:
    """As JSON, valid under the schema of its type, with `created_at` in UTC. A completion that is larger than
    `max_bytes` has its texts cut until it fits, and marked so. Raises Reject (`bad_envelope`) for an envelope
    that breaks its schema, and for one that does not fit.
    """
    checked = _check(envelope)
    body = msgspec.json.encode(checked)
    if len(body) > max_bytes and isinstance(checked, OcrCompleted):
        body = _encode_cut(checked, max_bytes)
    if len(body) > max_bytes:
        raise _refuse(f"it has {len(body)} bytes, the limit is {max_bytes}")
    return body


def _check(envelope: Envelope) -> Envelope:
    moment = read_moment(envelope.created_at)
    if moment is None:
        raise _refuse("created_at is no moment in ISO 8601")
    if isinstance(envelope, OcrRequest | OcrCompleted):
        is_request = isinstance(envelope, OcrRequest)
        rows = envelope.payload.image_refs if isinstance(envelope, OcrRequest) else envelope.payload.results
        if len({one.index for one in rows}) < len(rows):
            raise _refuse("two of its pictures have the same index")
        if envelope.job_type != (JobType.OCR_REQUESTED if is_request else JobType.OCR_COMPLETED):
            raise _refuse("its job_type is that of another payload")
    if isinstance(envelope, OcrCompleted) and envelope.source != OCR_SERVICE:
        raise _refuse(f"its source is not {OCR_SERVICE}")
    if envelope.schema_version != SCHEMA_VERSION:
        raise _refuse(f"its schema_version is not {SCHEMA_VERSION}")
    try:
        # Values are built without checks: a struct may hold what its schema forbids.
        checked = msgspec.convert(msgspec.json.decode(msgspec.json.encode(envelope)), type(envelope))
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise _refuse(str(error)) from error
    return structs.replace(checked, created_at=_to_utc(envelope.created_at, moment))


def _to_utc(text: str, moment: float) -> str:
    if text.endswith("Z"):
        return text
    return datetime.fromtimestamp(moment, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _encode_cut(completed: OcrCompleted, max_bytes: int) -> bytes:
    """The longest texts lose most: all are cut to one length, which halves until the message fits."""
    most = MAX_TEXT_BYTES
    body = b""
    while most > _LEAST_TEXT_BYTES:
        most //= 2
        results = tuple(_cut_result(one, most) for one in completed.payload.results)
        payload = structs.replace(completed.payload, results=results)
        body = msgspec.json.encode(structs.replace(completed, payload=payload))
        if len(body) <= max_bytes:
            break
    return body


def _cut_result(result: ImageText, most: int) -> ImageText:
    kept, was_cut = cut_text(result.ocr_text, most)
    meta = structs.replace(result.meta, text_len=len(kept.encode()))
    return structs.replace(result, ocr_text=kept, truncated=result.truncated or was_cut, meta=meta)


def _refuse(problem: str) -> Reject:
    return Reject(f"this envelope must not be sent: {problem[:MAX_ERROR_CHARACTERS]}", code="bad_envelope")


def _to_message(text: str) -> str:
    return cut_text(text[:MAX_ERROR_CHARACTERS])[0]
