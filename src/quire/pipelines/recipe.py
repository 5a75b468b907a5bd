"""The pipeline `recipe`: from photos, a page, parts of a page or a form to a recipe draft.

Its document is the request of one import, and its config says which way it goes. Photos are read by the OCR
service, which is asked over a queue and answers from outside, or here. The last step hands over what came of
it and waits until that is stored: an import is not forgotten between two databases.
"""

import asyncio

import msgspec

from quire import Document, External, Model, Pipeline, Reject, TryLater
from quire.model.envelope_writing import build_ocr_request, encode_envelope
from quire.model.envelopes import OCR_QUEUE, RECIPE_SERVER
from quire.model.recipe import ParserStrategy, RecipeErrorCode, RecipeSource
from quire.steps.recipe import import_outcome
from quire.steps.recipe.import_values import (
    RESULTS_QUEUE,
    FetchedPage,
    ImportOutcome,
    ImportRequest,
    ImportResult,
    OcrReading,
)

QUEUE = "quire-recipe"
MODEL_SECONDS = 90.0
MAX_RESULT_BYTES = 120_000  # of a message on the queue of results
HAND_OVER_SECONDS = 86_400.0

recipe = Pipeline("recipe", version=1, queue=QUEUE)


@recipe.step(accepts="config:ocr=queue", retries=0, cached=False)
def ask_ocr(document: Document) -> OcrReading | External:
    """Ask the OCR service for the text of the pictures."""
    request = read_request(document)
    envelope = build_ocr_request(
        job_id=request.job_id,
        source=RECIPE_SERVER,
        reply_to=request.reply_to,
        image_refs=request.image_refs,
        now=request.received_at,
        language=request.language,
    )
    return External(send=encode_envelope(envelope), queue=OCR_QUEUE, within=request.ocr_seconds)


@recipe.step(accepts="config:ocr=here", retries=1, timeout=600, cached=False)
def read_pictures(document: Document) -> OcrReading:
    """Read the pictures in this process."""
    from quire.steps.recipe.picture_texts import read_picture_texts

    request = read_request(document)
    reading = msgspec.structs.replace(request.reading, language=request.language)
    return read_picture_texts(request.pictures, document.scratch, reading, document.progress)


@recipe.step(accepts="config:import=url", retries=3, timeout=60, cached=False)
async def fetch(document: Document) -> FetchedPage:
    """Fetch the page, which must not lie on an internal address."""
    from quire.steps.recipe.page_fetch import fetch_recipe_page

    return await fetch_recipe_page(read_request(document))


@recipe.step(retries=1, timeout=60, cached=False)
def parse(
    document: Document,
    ask_ocr: OcrReading | None = None,
    read_pictures: OcrReading | None = None,
    fetch: FetchedPage | None = None,
) -> ImportOutcome:
    """Find the recipe by rules."""
    request = read_request(document)
    match request.kind:
        case "image":
            return import_outcome.outcome_of_reading(request, ask_ocr or read_pictures)
        case "url":
            return import_outcome.outcome_of_page(request, fetch)
        case "payload":
            return import_outcome.outcome_of_payload(request)
        case "manual":
            return import_outcome.outcome_of_draft(request.draft)


@recipe.step(accepts="config:model=yes", retries=3, timeout=2 * MODEL_SECONDS, cached=False)
async def ask_model(document: Document, parse: ImportOutcome, model: Model) -> ImportOutcome:
    """Ask a language model for the recipe of a text in which rules have found none."""
    if not parse.model_text:
        return parse
    from quire.steps.recipe.model_draft import SYSTEM, ModelRecipe, build_prompt, to_draft

    request = read_request(document)
    try:
        async with asyncio.timeout(MODEL_SECONDS):
            made = await model.ask(build_prompt(parse.model_text), answer=ModelRecipe, system=SYSTEM)
    except TimeoutError as error:
        code = RecipeErrorCode.LLM_TIMEOUT.value
        raise TryLater(1, f"the model gave no answer in {MODEL_SECONDS:g} s", code=code) from error
    source = RecipeSource(type=request.kind, original_filename=request.filename or None)
    outcome = import_outcome.outcome_of_draft(to_draft(made, source), ParserStrategy.LLM_FALLBACK.value)
    return msgspec.structs.replace(outcome, used_llm=True, warnings=parse.warnings)


@recipe.step(retries=2, cached=False)
def hand_over(
    document: Document, parse: ImportOutcome | None = None, ask_model: ImportOutcome | None = None
) -> bool | External:
    """Hand over the outcome, whatever it is; done when it is stored with the job."""
    request = read_request(document)
    outcome = ask_model or parse
    if ask_model is None and parse is not None and parse.model_text and request.asks_model:
        outcome = import_outcome.failure(
            RecipeErrorCode.LLM_FAILED, "the language model gave no usable answer; try again later"
        )
    if outcome is not None:
        outcome = msgspec.structs.replace(outcome, model_text="")
    body = _encode_result(request, document.task, outcome)
    if len(body) > MAX_RESULT_BYTES:
        too_large = import_outcome.failure(
            RecipeErrorCode.PARSE_FAILED, f"the recipe is larger than {MAX_RESULT_BYTES} bytes"
        )
        body = _encode_result(request, document.task, too_large)
    return External(send=body, queue=RESULTS_QUEUE, within=HAND_OVER_SECONDS)


def read_request(document: Document) -> ImportRequest:
    try:
        return msgspec.json.decode(document.bytes(), type=ImportRequest)
    except msgspec.MsgspecError as error:
        raise Reject(
            f"this is not the request of a recipe import: {error}", code="invalid_payload"
        ) from error


def _encode_result(request: ImportRequest, task: str, outcome: ImportOutcome | None) -> bytes:
    return msgspec.json.encode(ImportResult(job_id=request.job_id, task=task, outcome=outcome))
