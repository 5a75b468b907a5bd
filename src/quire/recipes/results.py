"""Stores the outcome of an import with its job, once, and tells those who want to know.

The message that brings it is delivered until this has succeeded; each part may be repeated.
"""

import logging
from typing import Any

import msgspec
from msgspec import structs

from quire.model.clock import timestamp
from quire.model.errors import Missing, Stale
from quire.model.recipe import RecipeErrorCode
from quire.queues.port import Message
from quire.recipes.context import RecipeContext
from quire.recipes.port import JobStatus, RecipeJob, SavedRecipe
from quire.recipes.starting import NAME
from quire.recipes.states import complete, fail, is_open
from quire.recipes.tasks import answer_task
from quire.steps.recipe.import_values import ImportOutcome, ImportResult

COMPLETED = "recipe.import.completed"
FAILED = "recipe.import.failed"
MODEL_PHASE = "ask_model"
TRIES = 5

_log = logging.getLogger("quire.recipes")


def read_result(body: bytes) -> ImportResult:
    return msgspec.json.decode(body, type=ImportResult)


async def take_result(context: RecipeContext, result: ImportResult) -> None:
    """Store the outcome, then confirm it to the pipeline. A job that is over keeps its end."""
    try:
        job = await context.recipes.get_job(result.job_id)
    except Missing:
        _log.warning("recipe_result_dropped: no import %s", result.job_id[:80])
    else:
        await finish(context, job, await _name_timeout(context, job, result.outcome))
    await answer_task(context, result.task, value=True)


async def _name_timeout(
    context: RecipeContext, job: RecipeJob, outcome: ImportOutcome | None
) -> ImportOutcome | None:
    """The pipeline knows that the model gave no answer; the history of its batch, whether it was too slow."""
    if outcome is None or outcome.error_code != RecipeErrorCode.LLM_FAILED or job.batch_id is None:
        return outcome
    batch = await context.batches.get_batch(job.batch_id)
    _, attempts = await context.records.get_file_history(batch.no, NAME)
    asked = [one for one in attempts if one.phase == MODEL_PHASE and one.error_class]
    if not asked or asked[-1].error_class != RecipeErrorCode.LLM_TIMEOUT:
        return outcome
    message = "the language model did not answer in time; try again later"
    return structs.replace(outcome, error_code=RecipeErrorCode.LLM_TIMEOUT.value, error_message=message)


async def finish(context: RecipeContext, job: RecipeJob, outcome: ImportOutcome | None) -> RecipeJob:
    """The end of an import; `outcome` None: the pipeline has failed."""
    for _ in range(TRIES):
        try:
            job = await _store(context, job, outcome)
            break
        except Stale:
            job = await context.recipes.get_job(job.id)
    else:
        raise Stale(f"the import {job.id} keeps changing")
    context.job_ends.notify(job.id)
    if job.status in {JobStatus.COMPLETE, JobStatus.ERROR}:
        await _tell(context, job)
    return job


async def _store(context: RecipeContext, job: RecipeJob, outcome: ImportOutcome | None) -> RecipeJob:
    if not is_open(job):
        return job
    now = context.clock.now()
    if outcome is None:
        code, text = RecipeErrorCode.HANDLER_ERROR.value, "the import failed in the pipeline; try it again"
        outcome = ImportOutcome(error_code=code, error_message=text)
    result = build_result(outcome)
    if outcome.error_code is not None or outcome.draft is None:
        code = outcome.error_code or RecipeErrorCode.PARSE_FAILED.value
        return await context.recipes.replace_job(
            fail(job, code, outcome.error_message or "there is no recipe", now=now, result=result)
        )
    completed = complete(job, result, now=now)
    if job.job_type != "manual":
        return await context.recipes.replace_job(completed)
    recipe = SavedRecipe(
        id=job.id, user_id=job.user_id, job_id=job.id, recipe=result["recipe_draft"], created_at=now
    )
    await context.recipes.add_recipe(recipe, job=completed)
    return structs.replace(completed, revision=completed.revision + 1)


def build_result(outcome: ImportOutcome) -> dict[str, Any]:
    """The result as the published API has it."""
    made: dict[str, Any] = {
        "recipe_draft": msgspec.to_builtins(outcome.draft),
        "pipeline": {
            "parser_strategy": outcome.parser_strategy,
            "used_llm": outcome.used_llm,
            "warnings": list(outcome.warnings),
            "source_url": outcome.source_url,
            "error_code": outcome.error_code,
            "error_message": outcome.error_message,
            "next_action": outcome.next_action,
            "next_action_reason": outcome.next_action_reason,
            "raw_pipeline": outcome.raw_pipeline,
        },
    }
    if outcome.recipe is not None:
        made["recipe"] = msgspec.to_builtins(outcome.recipe)
    return made


async def _tell(context: RecipeContext, job: RecipeJob) -> None:
    if not (queue := context.rules.events_queue):
        return
    kind = COMPLETED if job.status is JobStatus.COMPLETE else FAILED
    now = context.clock.now()
    body = {
        "schema_version": 1,
        "job_id": job.id,
        "workflow_id": job.id,
        "job_type": kind,
        "source": "jarvis-recipes-server",
        "target": queue,
        "created_at": timestamp(now),
        "attempt": 1,
        "reply_to": None,
        "payload": {
            "user_id": job.user_id,
            "status": job.status.value,
            "error_code": job.error_code,
            "error_message": job.error_message,
            "title": ((job.result or {}).get("recipe_draft") or {}).get("title"),
        },
        "trace": {"request_id": None, "parent_job_id": job.id},
    }
    # The queue knows the id: an outcome that is stored again is told once.
    message = Message(id=f"{kind}-{job.id}", body=msgspec.json.encode(body))
    await context.queues.send(queue, [message], now=now)
