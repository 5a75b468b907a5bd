"""What passes between the steps of the pipeline `recipe`: the request of an import, what was read or fetched
for it, and its outcome.
"""

from typing import Any, Literal

from msgspec import Struct

from quire.model.envelopes import ImageRef
from quire.model.recipe import ParsedRecipe, RecipeDraft, RecipeErrorCode
from quire.steps.ocr.options import ReadingOptions
from quire.steps.recipe.quality_gate import QualityLimits

REQUEST_TYPE = "application/vnd.quire.recipe-import+json"
RESULTS_QUEUE = "quire-recipe-results"

ImportKind = Literal["image", "url", "payload", "manual"]


class ImportRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The document of an import. What the server allows is written into it, because steps know no settings.

    received_at:   seconds since 1970
    image_refs:    pictures that the OCR service reads
    pictures:      JPEGs that are read here, when no OCR service is asked
    reading:       how they are read here: without models, whose keys are secrets
    asks_model:    a language model may be asked when rules find no recipe
    ocr_seconds:   how long the OCR service may take
    allow_private: pages on private addresses may be fetched
    """

    job_id: str
    kind: ImportKind
    received_at: float
    url: str = ""
    title_hint: str = ""
    filename: str = ""
    language: str = "en"
    reply_to: str = ""
    image_refs: tuple[ImageRef, ...] = ()
    pictures: tuple[bytes, ...] = ()
    reading: ReadingOptions = ReadingOptions()
    jsonld_blocks: tuple[str, ...] = ()
    html_snippet: str | None = None
    draft: RecipeDraft | None = None
    asks_model: bool = False
    ocr_seconds: float = 1800.0
    fetch_seconds: float = 15.0
    allow_private: bool = False
    limits: QualityLimits = QualityLimits()


class ReadPicture(Struct, frozen=True, kw_only=True):
    """The text of one picture; without text only valid to say that there was none."""

    text: str
    confidence: float
    tier: str = ""
    is_valid: bool = True


class OcrReading(Struct, frozen=True, kw_only=True):
    """What was read of the pictures, in their order. With an `error_code` there is nothing."""

    pictures: tuple[ReadPicture, ...] = ()
    error_code: str | None = None
    error_message: str | None = None


class FetchedPage(Struct, frozen=True, kw_only=True):
    """A page as it was received; with an `error_code` there is none, and trying again does not help."""

    url: str = ""
    status: int = 0
    content_type: str = ""
    body: bytes = b""
    error_code: RecipeErrorCode | None = None
    error_message: str | None = None


class ImportOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A draft, or the reason why there is none.

    recipe:     of a page: as the page has it
    model_text: the text that a language model may make a draft of
    """

    draft: RecipeDraft | None = None
    recipe: ParsedRecipe | None = None
    parser_strategy: str | None = None
    used_llm: bool = False
    warnings: tuple[str, ...] = ()
    source_url: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    next_action: str | None = None
    next_action_reason: str | None = None
    raw_pipeline: dict[str, Any] = {}
    model_text: str = ""


class ImportResult(Struct, frozen=True, kw_only=True):
    """The message with which the pipeline hands over an outcome; `task` is the token that confirms it."""

    job_id: str
    task: str
    outcome: ImportOutcome | None = None
