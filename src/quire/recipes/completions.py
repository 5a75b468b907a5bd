"""Takes what the OCR service has read.

Promises: only the answer to the request of this import counts, and only while the import is open; every
other one is logged and dropped. A passing failure is shown at once, and a success that comes after it still
completes the import: published workers report every failed attempt before they try again.
"""

import logging

from msgspec import structs

from quire.model.envelope_reading import failure_code
from quire.model.envelopes import ImageText, OcrCompleted, OcrErrorCode
from quire.model.errors import Missing, Stale
from quire.recipes.context import RecipeContext
from quire.recipes.port import ImportStage, RecipeJob
from quire.recipes.starting import has_ended
from quire.recipes.states import PASSING, begin, fail, is_looping, is_open, may_resume
from quire.recipes.tasks import answer_asking_task
from quire.steps.recipe.import_values import OcrReading, ReadPicture

TRIES = 5

_log = logging.getLogger("quire.recipes")


async def take_completion(context: RecipeContext, completed: OcrCompleted) -> bool:
    """False: it was dropped. May be repeated. Raises Retry when the import does not wait for it yet."""
    for _ in range(TRIES):
        job = await _find_job(context, completed)
        if job is None:
            return False
        try:
            return await _take(context, job, completed)
        except Stale:
            continue  # the import has changed meanwhile: look again
    raise Stale(f"the import {completed.workflow_id} keeps changing")


async def _find_job(context: RecipeContext, completed: OcrCompleted) -> RecipeJob | None:
    """The import that waits for this; None: it is dropped."""
    try:
        job = await context.recipes.get_job(completed.workflow_id)
    except Missing:
        why = "no such import"
    else:
        why = _find_objection(job, completed)
        if not why and is_open(job):
            return job
        if not why and not await has_ended(context, job):
            return job
        why = why or "its time is over, and nothing waits for it"
    _log.warning(
        "ocr_completion_dropped: %s for %s: %s", completed.job_id[:80], completed.workflow_id[:80], why
    )
    return None


def _find_objection(job: RecipeJob, completed: OcrCompleted) -> str:
    """Why it does not count; empty: it does."""
    if completed.trace.parent_job_id != job.id:
        return "it answers another request"
    if job.job_data.get("ocr") != "queue":
        return "the import has asked for no OCR"
    if not may_resume(job):
        return f"the import is {job.status.value}"
    if job.stage in {ImportStage.PARSING, ImportStage.COMPLETE}:
        return "the import was answered before"
    return "the import has changed too often" if is_looping(job) else ""


async def _take(context: RecipeContext, job: RecipeJob, completed: OcrCompleted) -> bool:
    now, code = context.clock.now(), failure_code(completed)
    message = _find_message(completed)
    if code in PASSING and job.attempts + 1 < context.rules.ocr_attempts:
        # The task goes on waiting: the service may try again, and its time limit ends it.
        job = _count_attempt(job)
        if job.error_code is None:
            job = fail(job, code or "", message, now=now)
        await context.recipes.replace_job(job)
        context.job_ends.notify(job.id)
        return True
    reading = _to_reading(completed) if code is None else OcrReading(error_code=code, error_message=message)
    job = await context.recipes.replace_job(begin(_count_attempt(job), ImportStage.OCR_DONE, now=now))
    await answer_asking_task(context, job, reading)
    try:
        await context.recipes.replace_job(begin(job, ImportStage.PARSING, now=context.clock.now()))
    except Stale:
        _log.info("recipe_import_was_faster: %s", job.id)
    return True


def _count_attempt(job: RecipeJob) -> RecipeJob:
    return structs.replace(job, attempts=job.attempts + 1)


def _to_reading(completed: OcrCompleted) -> OcrReading:
    results = sorted(completed.payload.results, key=lambda one: one.index)
    return OcrReading(pictures=tuple(_to_picture(one) for one in results))


def _to_picture(result: ImageText) -> ReadPicture:
    valid = result.meta.is_valid and result.error is None
    return ReadPicture(
        text=result.ocr_text if valid else "",
        confidence=result.meta.confidence,
        tier=result.meta.tier.value,
        is_valid=valid,
    )


def _find_message(completed: OcrCompleted) -> str:
    errors = [completed.payload.error, *(one.error for one in completed.payload.results)]
    found = next((one.message for one in errors if one is not None and one.message), "")
    return found or f"the OCR service could not read the pictures ({OcrErrorCode.NO_VALID_OUTPUT.value})"
