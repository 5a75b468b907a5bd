"""What arrives on the queue of recipe import: completions of the OCR service, and imports that other programs
ask for.

A message that can never be right becomes a dead letter; the import that it names, if it is open, ends with
its code.
"""

import uuid
from typing import Any

from quire.model.envelope_reading import read_envelope
from quire.model.envelopes import JobEnvelope, JobType, OcrCompleted, OcrRequest
from quire.model.errors import Missing, Reject, Stale
from quire.recipes.bodies import read_recipe
from quire.recipes.completions import take_completion
from quire.recipes.context import RecipeContext
from quire.recipes.requests import Requester, import_manual, import_url
from quire.recipes.results import finish
from quire.recipes.states import is_open
from quire.steps.recipe.import_values import ImportOutcome

QueueEnvelope = OcrRequest | OcrCompleted | JobEnvelope
NOBODY = "0"
_BY_URL = frozenset({JobType.URL_REQUESTED.value, JobType.URL.value})


def read_message(body: bytes) -> QueueEnvelope:
    """Raises Reject."""
    return read_envelope(body)


async def take_message(context: RecipeContext, envelope: QueueEnvelope) -> None:
    """May be repeated. Raises Reject for one that can never be right, Retry for one that comes too early."""
    if isinstance(envelope, OcrCompleted):
        await take_completion(context, envelope)
        return
    if isinstance(envelope, JobEnvelope) and envelope.job_type in _BY_URL:
        await _take_url(context, envelope)
        return
    if isinstance(envelope, JobEnvelope) and envelope.job_type == JobType.MANUAL_REQUESTED:
        await _take_manual(context, envelope)
        return
    message = f"nothing here does jobs of the type {envelope.job_type[:80]!r}"
    await _fail(context, envelope.workflow_id, "unknown_job_type", message)
    raise Reject(message, code="unknown_job_type")


async def _take_url(context: RecipeContext, envelope: JobEnvelope) -> None:
    url = envelope.payload.get("url")
    if not isinstance(url, str):
        raise Reject("a request to import a page has its `url`", code="invalid_payload")
    wants_model = envelope.payload.get("use_llm_fallback") is True
    requester = Requester(user_id=_find_user(envelope.payload))
    with_id = _to_uuid(envelope.workflow_id)
    try:
        await import_url(context, requester, url, use_model=wants_model, job_id=with_id)
    except Stale:
        return  # delivered before


async def _take_manual(context: RecipeContext, envelope: JobEnvelope) -> None:
    said: Any = envelope.payload.get("recipe", envelope.payload)
    draft, _ = read_recipe(said)
    requester = Requester(user_id=_find_user(envelope.payload))
    try:
        await import_manual(context, requester, draft, job_id=_to_uuid(envelope.workflow_id))
    except Stale:
        return


async def _fail(context: RecipeContext, job_id: str, code: str, message: str) -> None:
    try:
        job = await context.recipes.get_job(job_id)
    except Missing:
        return
    if is_open(job):
        await finish(context, job, ImportOutcome(error_code=code, error_message=message))


def _find_user(payload: dict[str, Any]) -> str:
    said = payload.get("user_id")
    if isinstance(said, bool) or not isinstance(said, int | str):
        return NOBODY
    text = str(said)
    return text if text.isascii() and text.isalnum() and len(text) <= 40 else NOBODY


def _to_uuid(text: str) -> str | None:
    """The id that the sender knows the import by, if it can be one."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return None
