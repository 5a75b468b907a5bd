"""A recipe as it is found: the draft that a person confirms, and the parsed recipe of a web page.

Pure values, in the JSON forms that apps of the published recipe API read. Quantities stay text (`1 1/2`,
`2-3`): they are shown, not computed. Nothing is checked here: `steps/recipe/validation.py` says what a draft
lacks.
"""

from enum import StrEnum

from msgspec import Struct


class ParserStrategy(StrEnum):
    """How a recipe was found in a page, best first."""

    SCHEMA_ORG_JSON_LD = "schema_org_json_ld"
    MICRODATA = "microdata"
    HEURISTIC = "heuristic"
    LLM_FALLBACK = "llm_fallback"
    CLIENT_JSON_LD = "client_json_ld"
    CLIENT_HTML = "client_html"


class RecipeErrorCode(StrEnum):
    """Why an import has no recipe."""

    OCR_NO_RESULTS = "ocr_no_results"
    OCR_NO_TEXT = "ocr_no_text"
    OCR_TIMEOUT = "ocr_timeout"
    QUALITY_GATE_FAILED = "quality_gate_failed"
    TEXT_STRUCTURING_FAILED = "text_structuring_failed"
    DRAFT_VALIDATION_FAILED = "draft_validation_failed"
    HANDLER_ERROR = "handler_error"
    UNKNOWN_JOB_TYPE = "unknown_job_type"
    NOT_IMPLEMENTED = "not_implemented"
    LLM_TIMEOUT = "llm_timeout"
    LLM_FAILED = "llm_failed"
    FETCH_FAILED = "fetch_failed"
    FETCH_TIMEOUT = "fetch_timeout"
    INVALID_URL = "invalid_url"
    INVALID_PAYLOAD = "invalid_payload"
    UNSUPPORTED_CONTENT_TYPE = "unsupported_content_type"
    ENCODING_ERROR = "encoding_error"
    PARSE_FAILED = "parse_failed"
    SAVE_FAILED = "save_failed"


class Ingredient(Struct, frozen=True, kw_only=True):
    """`unit` is written as in the line (`cups`, `tbsp`); `notes` is how it is prepared, or an alternative."""

    name: str
    quantity: str | None = None
    unit: str | None = None
    notes: str | None = None


class RecipeSource(Struct, frozen=True, kw_only=True):
    """`type` is `image`, `url`, `text` or `manual`; `ocr_tier_used` is a value of `Tier`."""

    type: str
    original_filename: str | None = None
    ocr_tier_used: str | None = None
    source_url: str | None = None
    image_url: str | None = None


class RecipeDraft(Struct, frozen=True, kw_only=True):
    title: str
    description: str | None = None
    ingredients: tuple[Ingredient, ...] = ()
    steps: tuple[str, ...] = ()
    prep_time_minutes: int | None = None
    cook_time_minutes: int | None = None
    total_time_minutes: int | None = None
    servings: str | None = None
    tags: tuple[str, ...] = ()
    source: RecipeSource


class ParsedIngredient(Struct, frozen=True, kw_only=True):
    """A line of a page: `text` is the whole line."""

    text: str
    quantity_display: str | None = None
    unit: str | None = None


class ParsedRecipe(Struct, frozen=True, kw_only=True):
    title: str
    description: str | None = None
    source_url: str | None = None
    image_url: str | None = None
    tags: tuple[str, ...] = ()
    servings: int | None = None
    estimated_time_minutes: int | None = None
    ingredients: tuple[ParsedIngredient, ...] = ()
    steps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class ParsedPage(Struct, frozen=True, kw_only=True):
    """What a page holds. Without a recipe, `recipe` and `draft` are None and `error_code` says why.

    next_action: `webview_extract` where an app on the user's device may see more than the server did
    """

    recipe: ParsedRecipe | None = None
    draft: RecipeDraft | None = None
    parser_strategy: ParserStrategy | None = None
    warnings: tuple[str, ...] = ()
    error_code: RecipeErrorCode | None = None
    error_message: str | None = None
    next_action: str | None = None
    next_action_reason: str | None = None


class FieldProblem(Struct, frozen=True, kw_only=True):
    """`field` is a path such as `ingredients.0.name`."""

    field: str
    message: str
