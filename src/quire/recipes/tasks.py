"""Answers the tasks of the pipeline `recipe` that wait: the one that asked the OCR service, and the one that
handed over an outcome.
"""

from typing import Any

from quire.batches.remote.answers import Answer, TaskAnswered, complete_task
from quire.model.batch import TaskState
from quire.model.errors import Missing, Retry
from quire.model.task_tokens import TokenAddress, issue_token
from quire.recipes.context import RecipeContext
from quire.recipes.port import RecipeJob
from quire.recipes.starting import NAME

ASKING_PHASE = "ask_ocr"
AGAIN_SECONDS = 2.0
PATIENCE_SECONDS = 1.0


async def answer_asking_task(context: RecipeContext, job: RecipeJob, value: Any) -> TaskAnswered | None:
    """Give the task that asked the OCR service its value; None when it waits no more. Raises Retry when it
    does not wait yet.
    """
    token = await _find_asking_token(context, job)
    return None if token is None else await answer_task(context, token, value)


async def answer_task(context: RecipeContext, token: str, value: Any) -> TaskAnswered | None:
    """May be repeated. None: there is no such task."""
    try:
        answered = await complete_task(
            context.remote,
            context.secrets,
            token,
            Answer(status="success", value=value),
            policy=context.policy,
            patience_seconds=PATIENCE_SECONDS,
        )
    except Missing:
        return None
    context.wake()
    return answered


async def _find_asking_token(context: RecipeContext, job: RecipeJob) -> str | None:
    if job.batch_id is None:
        raise Retry(f"the import {job.id} has no batch yet", delay_seconds=AGAIN_SECONDS)
    batch = await context.batches.get_batch(job.batch_id)
    if batch.ended:
        return None
    _, attempts = await context.records.get_file_history(batch.no, NAME)
    asking = [one for one in attempts if one.phase == ASKING_PHASE]
    if not asking:
        raise Retry(f"the import {job.id} has asked nobody yet", delay_seconds=AGAIN_SECONDS)
    last = asking[-1]
    if last.state not in {TaskState.EXTERNAL, TaskState.RUNNING}:
        return None
    address = TokenAddress(batch_id=batch.id, task_no=last.task_no, attempt=last.attempt)
    return issue_token(context.secrets[0], address)
