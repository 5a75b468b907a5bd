"""The envelopes in which the OCR service and recipe import pass work to each other, and what they carry.

Pure values. Reading is lenient: unknown keys are ignored, and so are known deviations of published programs.
Writing is strict: what is written follows the locked schemas to the letter. The schemas are generated from
these structs: a limit that stands here is in the schema, and the other way round.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from quire.model.errors import Reject
from quire.model.page_text import Tier

OCR_QUEUE = "jarvis.ocr.jobs"
RECIPE_QUEUE = "jarvis.recipes.jobs"
OCR_SERVICE = "jarvis-ocr-service"
RECIPE_SERVER = "jarvis-recipes-server"
SCHEMA_VERSION = 1
MAX_IMAGES = 8
# Of the UTF-8 of one picture's text.
MAX_TEXT_BYTES = 51_200
# Eight of the longest texts, of which each byte became an escape of six, and what is around them.
MAX_ENVELOPE_BYTES = 3 * 1024 * 1024
MAX_DEPTH = 64


def _const(value: str) -> Meta:
    return Meta(extra_json_schema={"const": value})


Text = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0)]


class JobType(StrEnum):
    OCR_REQUESTED = "ocr.extract_text.requested"
    OCR_COMPLETED = "ocr.completed"
    URL_REQUESTED = "recipe.import.url.requested"
    MANUAL_REQUESTED = "recipe.create.manual.requested"
    # Of published programs only: read, never written.
    URL = "url"
    IMAGE = "image"
    INGESTION = "ingestion"


class OcrErrorCode(StrEnum):
    """Why a picture, or a whole job, has no text."""

    UNSUPPORTED_MEDIA = "unsupported_media"
    IMAGE_NOT_FOUND = "image_not_found"
    NO_VALID_OUTPUT = "ocr_no_valid_output"
    ENGINE_ERROR = "ocr_engine_error"
    BAD_REQUEST = "bad_request"
    INTERNAL_ERROR = "internal_error"
    FILE_READ_ERROR = "file_read_error"
    REDIS_ERROR = "redis_error"


class Trace(Struct, frozen=True, kw_only=True):
    request_id: str | None = None
    parent_job_id: str | None = None


class Envelope(Struct, frozen=True, kw_only=True):
    """What every message has. `created_at` is UTC, as ISO 8601 text."""

    schema_version: Literal[1] = 1
    job_id: str
    workflow_id: str
    job_type: str
    source: Text
    target: Text
    created_at: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    attempt: Annotated[int, Meta(ge=1)] = 1
    reply_to: str | None = None
    trace: Trace = Trace()


class JobEnvelope(Envelope, frozen=True, kw_only=True):
    """Any job that is neither a request for OCR nor its completion: `job_type` says what `payload` holds."""

    payload: dict[str, Any]


class ImageRef(Struct, frozen=True, kw_only=True):
    kind: Literal["local_path", "s3", "minio", "db"]
    value: Text
    index: Count


class OcrOptions(Struct, frozen=True, kw_only=True):
    language: Text = "en"


class OcrRequestPayload(Struct, frozen=True, kw_only=True):
    image_refs: Annotated[tuple[ImageRef, ...], Meta(min_length=1, max_length=MAX_IMAGES)]
    options: OcrOptions = OcrOptions()


class OcrRequest(Envelope, frozen=True, kw_only=True):
    """A job for the OCR service. `job_id` and `workflow_id` are those of the import."""

    job_type: Annotated[str, _const("ocr.extract_text.requested")] = JobType.OCR_REQUESTED.value
    reply_to: Text
    payload: OcrRequestPayload


class MessageError(Struct, frozen=True, kw_only=True):
    message: str | None = None
    code: str | None = None


class OcrMeta(Struct, frozen=True, kw_only=True):
    """`text_len` counts bytes of UTF-8, after the cut."""

    language: Text
    confidence: Annotated[float, Meta(ge=0.0, le=1.0)]
    text_len: Count
    is_valid: bool
    tier: Tier


class ImageText(Struct, frozen=True, kw_only=True):
    """The text of one picture; with an `error` the text is empty."""

    index: Count
    ocr_text: str
    truncated: bool
    meta: OcrMeta
    error: MessageError | None = None


class OcrCompletedPayload(Struct, frozen=True, kw_only=True):
    """`results` are in the order of their index, one for each picture asked for."""

    status: Literal["success", "failed"]
    results: Annotated[tuple[ImageText, ...], Meta(min_length=1, max_length=MAX_IMAGES)]
    artifact_ref: dict[str, Any] | None = None
    error: MessageError | None = None


class OcrCompleted(Envelope, frozen=True, kw_only=True):
    """The answer of the OCR service; `trace.parent_job_id` is the `job_id` of the request."""

    job_type: Annotated[str, _const("ocr.completed")] = JobType.OCR_COMPLETED.value
    source: Annotated[str, _const("jarvis-ocr-service")] = OCR_SERVICE
    payload: OcrCompletedPayload


class ReplyAddress(Struct, frozen=True, kw_only=True):
    """What a completion needs to know of its request: where it goes, and which pictures were asked for."""

    reply_to: str
    job_id: str
    workflow_id: str
    source: str
    trace: Trace = Trace()
    indices: tuple[int, ...] = ()
    language: str = "en"


class BadEnvelope(Reject):
    """A message that is no valid envelope. `reply` is there when its sender can be told with a failed
    completion; without it the message becomes a dead letter.
    """

    code = "bad_request"

    def __init__(self, message: str, *, reply: ReplyAddress | None = None) -> None:
        super().__init__(message)
        self.reply = reply
