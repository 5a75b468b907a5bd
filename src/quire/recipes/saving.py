"""What users do with an import that is over: save its recipe, or cancel it before."""

from contextlib import suppress

import msgspec
from msgspec import structs

from quire.batches import control
from quire.ledger.port import OperatorAction
from quire.model.errors import Missing, Reject, Stale
from quire.model.recipe import RecipeDraft
from quire.recipes import states
from quire.recipes.context import RecipeContext
from quire.recipes.lines import find_job
from quire.recipes.port import RecipeJob, RequestKey, SavedRecipe
from quire.recipes.requests import Requester, digest, new_uuid

TRIES = 5


async def save_recipe(
    context: RecipeContext, requester: Requester, draft: RecipeDraft, job_id: str | None
) -> SavedRecipe:
    """With a job: the recipe that its draft has become; the job is then committed. Raises Missing for an
    unknown job, Reject `wrong_state` for one that is not complete or was committed before.
    """
    now = context.clock.now()
    recipe = SavedRecipe(
        id=new_uuid(context.ids),
        user_id=requester.user_id,
        job_id=job_id,
        recipe=msgspec.to_builtins(draft),
        created_at=now,
    )
    key = None
    if requester.key is not None:
        key = RequestKey(
            user_id=requester.user_id,
            key=requester.key,
            fingerprint=digest("save", job_id or "", msgspec.json.encode(draft)),
            answer=recipe.id,
        )
    job = None
    if job_id is not None:
        job = await find_job(context, requester.user_id, job_id)
        job = _commit(job, now)
    try:
        earlier = await context.recipes.add_recipe(
            recipe, job=job, request=key, keys_since=now - context.rules.key_seconds
        )
    except Stale as error:
        found = job if job_id is None or job is None else await context.recipes.get_job(job_id)
        raise (error if found is None else _wrong_state(found)) from error
    return recipe if earlier is None else await context.recipes.get_recipe(earlier)


async def cancel_import(context: RecipeContext, user_id: str, job_id: str, *, actor: str) -> RecipeJob:
    """What is still on its way is dropped when it arrives. Raises Missing, and Reject `wrong_state` for an
    import that is over.
    """
    for _ in range(TRIES):
        job = await find_job(context, user_id, job_id)
        if not states.is_open(job):
            raise _wrong_state(job)
        try:
            job = await context.recipes.replace_job(states.cancel(job, now=context.clock.now()))
        except Stale:
            continue
        await _cancel_batch(context, job, actor)
        context.job_ends.notify(job.id)
        if job.job_data.get("ocr") == "queue":
            await context.call_off(job.id)
        return job
    raise Stale(f"the import {job_id[:80]} keeps changing")


async def _cancel_batch(context: RecipeContext, job: RecipeJob, actor: str) -> None:
    if job.batch_id is None:
        return
    with suppress(Missing, Stale, Reject):  # it may not exist yet, or have ended
        action = OperatorAction(actor=actor, reason="the import was cancelled", now=context.clock.now())
        await control.cancel(context, job.batch_id, action)
        context.wake()


def _commit(job: RecipeJob, now: float) -> RecipeJob:
    """Of a repeated request the job is committed already, and its key decides. Otherwise the store must not
    take the change: no job has this revision.
    """
    try:
        return states.commit(job, now=now)
    except Stale:
        return structs.replace(job, revision=-1)


def _wrong_state(job: RecipeJob) -> Reject:
    return Reject(f"the import {job.id} is {job.status.value}", code="wrong_state")
