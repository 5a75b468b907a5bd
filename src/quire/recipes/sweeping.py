"""Looks after imports that nobody else moves: those whose start was lost, whose batch has ended without an
outcome, and complete ones that nobody has saved.

Promise: every part may run in several processes at once, and again after a crash.
"""

import logging
from contextlib import suppress

from msgspec import Struct

from quire.model.batch import Stage
from quire.model.errors import Missing, QuireError, Retry, Stale
from quire.recipes.context import RecipeContext
from quire.recipes.port import RecipeJob
from quire.recipes.results import finish
from quire.recipes.starting import start_import
from quire.recipes.states import abandon
from quire.steps.recipe.import_values import ImportOutcome

AT_ONCE = 100
UNFINISHED_SECONDS = 120.0
_OVER = frozenset({Stage.DONE, Stage.ERROR, Stage.CANCELLED})

_log = logging.getLogger("quire.recipes")


class Swept(Struct, frozen=True, kw_only=True):
    started: int = 0
    ended: int = 0
    abandoned: int = 0


async def sweep(context: RecipeContext, *, unstarted_seconds: float | None = None) -> Swept:
    """`unstarted_seconds` is the age from which imports that were not started are started; None: as the rules
    say. Raises Retry when the database is away.
    """
    now, rules = context.clock.now(), context.rules
    age = rules.resend_seconds if unstarted_seconds is None else unstarted_seconds
    unstarted = await context.recipes.list_unstarted(before=now - age, limit=AT_ONCE)
    started = sum([await _start(context, job) for job in unstarted])
    ended, after = 0, ""
    while page := await context.recipes.list_unfinished(
        before=now - UNFINISHED_SECONDS, after=after, limit=AT_ONCE
    ):
        after = page[-1].id
        ended += sum([await _end_orphan(context, job) for job in page])
    unsaved = await context.recipes.list_unsaved(before=now - rules.abandon_seconds, limit=AT_ONCE)
    abandoned = sum([await _abandon(context, job) for job in unsaved])
    await context.recipes.forget_requests(before=now - rules.key_seconds)
    return Swept(started=started, ended=ended, abandoned=abandoned)


async def _start(context: RecipeContext, job: RecipeJob) -> bool:
    try:
        await start_import(context, job)
    except Stale:
        return False  # another process is at it
    except Retry:
        raise
    except QuireError as error:
        _log.exception("recipe_import_not_started: %s", job.id)
        failed = ImportOutcome(error_code="handler_error", error_message=f"it could not be started: {error}")
        await finish(context, await context.recipes.get_job(job.id), failed)
        return False
    return True


async def _end_orphan(context: RecipeContext, job: RecipeJob) -> bool:
    """An operator may have cancelled its batch, or the batch ended in error."""
    try:
        batch = await context.batches.get_batch(job.batch_id or "")
    except Missing:
        batch = None
    if batch is not None and batch.position.stage not in _OVER:
        return False
    with suppress(Stale):
        await finish(context, job, None)
        return True
    return False


async def _abandon(context: RecipeContext, job: RecipeJob) -> bool:
    with suppress(Stale):
        await context.recipes.replace_job(abandon(job, now=context.clock.now()))
        return True
    return False
