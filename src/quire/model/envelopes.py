"""The envelopes in which the OCR service and recipe import pass work to each other, and what they carry.

Pure values. Reading is lenient: unknown keys are ignored, and so are known deviations of published programs.
Writing is strict: what is written follows the locked schemas to the letter.
"""

from enum import StrEnum
from typing import Literal

from msgspec import Struct

from quire.model.page_text import Tier

OCR_QUEUE = "jarvis.ocr.jobs"
RECIPE_QUEUE = "jarvis.recipes.jobs"
OCR_SERVICE = "jarvis-ocr-service"
RECIPE_SERVER = "jarvis-recipes-server"
SCHEMA_VERSION = 1
MAX_IMAGES = 8


class JobType(StrEnum):
    OCR_REQUESTED = "ocr.extract_text.requested"
    OCR_COMPLETED = "ocr.completed"
    URL_REQUESTED = "recipe.import.url.requested"
    MANUAL_REQUESTED = "recipe.create.manual.requested"


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
    source: str
    target: str
    created_at: str
    attempt: int = 1
    reply_to: str | None = None
    trace: Trace = Trace()


class ImageRef(Struct, frozen=True, kw_only=True):
    kind: Literal["local_path", "s3", "minio", "db"]
    value: str
    index: int


class OcrOptions(Struct, frozen=True, kw_only=True):
    language: str = "en"


class OcrRequestPayload(Struct, frozen=True, kw_only=True):
    image_refs: tuple[ImageRef, ...]
    options: OcrOptions = OcrOptions()


class OcrRequest(Envelope, frozen=True, kw_only=True):
    """A job for the OCR service. `job_id` and `workflow_id` are those of the import."""

    payload: OcrRequestPayload


class MessageError(Struct, frozen=True, kw_only=True):
    message: str | None = None
    code: str | None = None


class OcrMeta(Struct, frozen=True, kw_only=True):
    """`text_len` counts bytes of UTF-8, after the cut."""

    language: str
    confidence: float
    text_len: int
    is_valid: bool
    tier: Tier


class ImageText(Struct, frozen=True, kw_only=True):
    """The text of one picture; with an `error` the text is empty."""

    index: int
    ocr_text: str
    truncated: bool
    meta: OcrMeta
    error: MessageError | None = None


class OcrCompletedPayload(Struct, frozen=True, kw_only=True):
    """`results` are in the order of their index, one for each picture asked for."""

    status: Literal["success", "failed"]
    results: tuple[ImageText, ...]
    artifact_ref: dict[str, object] | None = None
    error: MessageError | None = None


class OcrCompleted(Envelope, frozen=True, kw_only=True):
    payload: OcrCompletedPayload
