"""From what was read, fetched or sent to the outcome of an import. Pure; every failure is an outcome with a
code of the published API, and none of these functions raises.
"""

from collections.abc import Sequence

from msgspec import structs

from quire.model.envelopes import OcrErrorCode
from quire.model.errors import Reject
from quire.model.recipe import FieldProblem, ParsedPage, RecipeDraft, RecipeErrorCode, RecipeSource
from quire.steps.recipe.import_values import (
    FetchedPage,
    ImportOutcome,
    ImportRequest,
    OcrReading,
    ReadPicture,
)
from quire.steps.recipe.page import parse_client_page, parse_page
from quire.steps.recipe.quality_gate import check_quality
from quire.steps.recipe.text_recipe import structure_text
from quire.steps.recipe.tree_text import block_lines
from quire.steps.recipe.validation import validate_draft
from quire.tools.html_tree import decode_html, parse_tree

RULES = "text_rules"
MANUAL = "manual"
WEBVIEW_EXTRACT = "webview_extract"
MODEL_CHARACTERS = 20_000
SHOWN_PROBLEMS = 5
_FOR_MODELS = frozenset({RecipeErrorCode.PARSE_FAILED.value, RecipeErrorCode.DRAFT_VALIDATION_FAILED.value})


def failure(code: RecipeErrorCode | str, message: str, **more: object) -> ImportOutcome:
    return structs.replace(ImportOutcome(error_code=str(code), error_message=message[:1000]), **more)


def outcome_of_reading(request: ImportRequest, reading: OcrReading | None) -> ImportOutcome:
    """The recipe on the pictures of a card or a book. None: nobody has read them in time."""
    if reading is None and not request.image_refs:
        return failure(OcrErrorCode.ENGINE_ERROR, "the pictures could not be read here; try it again later")
    if reading is None:
        return failure(
            RecipeErrorCode.OCR_TIMEOUT, "the pictures were not read in time; send them again later"
        )
    if reading.error_code is not None:
        return failure(reading.error_code, reading.error_message or "the pictures could not be read")
    if not reading.pictures:
        return failure(RecipeErrorCode.OCR_NO_RESULTS, "the OCR service gave no result for any picture")
    valid = [one for one in reading.pictures if one.is_valid and one.text.strip()]
    warnings = _warn_of_gaps(len(reading.pictures), len(valid))
    if not valid:
        return failure(
            RecipeErrorCode.OCR_NO_TEXT,
            "no text was found in the pictures; photograph the page flat, close and in good light",
        )
    outcome = _outcome_of_texts(request, valid)
    return structs.replace(outcome, warnings=(*warnings, *outcome.warnings))


def outcome_of_page(request: ImportRequest, page: FetchedPage | None) -> ImportOutcome:
    """The recipe of a fetched page. None: it could not be fetched, however often that was tried."""
    if page is None:
        return failure(
            RecipeErrorCode.FETCH_FAILED,
            "the page could not be fetched; check the address, or open it and send what it shows",
            source_url=request.url,
            next_action=WEBVIEW_EXTRACT,
            next_action_reason="fetch_failed",
        )
    if page.error_code is not None:
        return _without_page(request, page)
    parsed = parse_page(page.body, url=page.url, content_type=page.content_type, status=page.status)
    outcome = _to_outcome(parsed, page.url)
    if request.asks_model and outcome.error_code in _FOR_MODELS and outcome.next_action is None:
        return structs.replace(outcome, model_text=_read_visible_text(page))
    return outcome


def outcome_of_payload(request: ImportRequest) -> ImportOutcome:
    """The recipe of what an app has taken from a page."""
    parsed = parse_client_page(request.jsonld_blocks, request.html_snippet, source_url=request.url)
    return structs.replace(_to_outcome(parsed, request.url), next_action=None, next_action_reason=None)


def outcome_of_draft(draft: RecipeDraft | None, strategy: str = MANUAL) -> ImportOutcome:
    """A draft that somebody else has made, if it is complete."""
    if draft is None:
        return failure(RecipeErrorCode.INVALID_PAYLOAD, "the request has no recipe")
    if problems := validate_draft(draft):
        return failure(RecipeErrorCode.DRAFT_VALIDATION_FAILED, _describe(problems))
    return ImportOutcome(draft=draft, parser_strategy=strategy)


def _outcome_of_texts(request: ImportRequest, pictures: Sequence[ReadPicture]) -> ImportOutcome:
    texts, confidences = [one.text for one in pictures], [one.confidence for one in pictures]
    text = "\n\n".join(texts)
    if problems := check_quality(texts, confidences, request.limits):
        message = f"the text of the pictures is too poor: {'; '.join(problems)}. Send sharper pictures."
        return failure(RecipeErrorCode.QUALITY_GATE_FAILED, message)
    tier = next((one.tier for one in pictures if one.tier), None)
    source = RecipeSource(type="image", original_filename=request.filename or None, ocr_tier_used=tier)
    try:
        draft = structure_text(text, source=source, title_hint=request.title_hint)
    except Reject as error:
        return failure(error.code, str(error), model_text=text[:MODEL_CHARACTERS])
    if invalid := validate_draft(draft):
        return failure(
            RecipeErrorCode.DRAFT_VALIDATION_FAILED, _describe(invalid), model_text=text[:MODEL_CHARACTERS]
        )
    return ImportOutcome(draft=draft, parser_strategy=RULES)


def _read_visible_text(page: FetchedPage) -> str:
    """What people would read, for a model; empty for what is no HTML."""
    root = parse_tree(decode_html(page.body, page.content_type)[0])
    lines = [] if root is None else block_lines(root)
    return "\n".join(lines)[:MODEL_CHARACTERS]


def _to_outcome(parsed: ParsedPage, url: str) -> ImportOutcome:
    draft, code, message = parsed.draft, parsed.error_code, parsed.error_message
    if draft is not None and code is None and (problems := validate_draft(draft)):
        code, message = RecipeErrorCode.DRAFT_VALIDATION_FAILED, _describe(problems)
    if draft is None and code is None:
        code, message = RecipeErrorCode.PARSE_FAILED, "there is no recipe on this page"
    return ImportOutcome(
        draft=draft if code is None else None,
        recipe=parsed.recipe if code is None else None,
        parser_strategy=None if parsed.parser_strategy is None else parsed.parser_strategy.value,
        warnings=parsed.warnings,
        source_url=url or None,
        error_code=None if code is None else code.value,
        error_message=message,
        next_action=parsed.next_action if code is not None else None,
        next_action_reason=parsed.next_action_reason if code is not None else None,
    )


def _without_page(request: ImportRequest, page: FetchedPage) -> ImportOutcome:
    code = page.error_code or RecipeErrorCode.FETCH_FAILED
    message = page.error_message or "the page could not be fetched"
    if code is RecipeErrorCode.INVALID_URL:
        return failure(code, message, source_url=request.url)
    return failure(
        code, message, source_url=request.url, next_action=WEBVIEW_EXTRACT, next_action_reason=code.value
    )


def _warn_of_gaps(pictures: int, valid: int) -> tuple[str, ...]:
    if valid == pictures or not valid:
        return ()
    return (f"{pictures - valid} of {pictures} pictures had no readable text",)


def _describe(problems: Sequence[FieldProblem]) -> str:
    shown = "; ".join(f"{one.field}: {one.message}" for one in problems[:SHOWN_PROBLEMS])
    return shown if len(problems) <= SHOWN_PROBLEMS else f"{shown}; and {len(problems) - SHOWN_PROBLEMS} more"
