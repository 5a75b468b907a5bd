"""Deletes the photos and the requests of imports that have been over for long. Drafts and saved recipes stay.

Promises: nothing of an import that may still go on is deleted, nor of a complete one that its user may still
save; every part may be repeated, and stopped at any moment.
"""

from msgspec import Struct

from quire.batches.context import BatchContext
from quire.model.clock import timestamp
from quire.recipes.port import RecipeJob, RecipeStore
from quire.recipes.starting import has_ended

PAGE = 200
DAY_SECONDS = 86_400.0


class DiscardableImport(Struct, frozen=True, kw_only=True):
    """An import whose files are due for deletion. `since`: it is over."""

    job_id: str
    kind: str = "recipe_import"
    since: str
    files: int
    bytes: int  # of the request; photos are not counted


async def list_discardable(
    recipes: RecipeStore, context: BatchContext, days: float
) -> list[DiscardableImport]:
    """What would be deleted now: at most two hundred imports, oldest first. `days` 0: never anything."""
    return [
        DiscardableImport(
            job_id=job.id,
            since=timestamp(job.updated_at),
            files=len(list_keys(job)),
            bytes=job.job_data.get("document", {}).get("size", 0),
        )
        for job in await _find(recipes, context, days)
    ]


async def discard(recipes: RecipeStore, context: BatchContext, days: float) -> int:
    """How many imports were emptied: at most two hundred, the oldest."""
    emptied = 0
    for job in await _find(recipes, context, days):
        for key in list_keys(job):
            await context.blobs.delete(key)
        emptied += await recipes.mark_emptied(job, now=context.clock.now())
    return emptied


def list_keys(job: RecipeJob) -> list[str]:
    """The photos and the request of an import. Nothing else has these keys: requests name their import."""
    document = job.job_data.get("document", {}).get("key")
    return [*job.job_data.get("image_keys", []), *([document] if document else [])]


async def _find(recipes: RecipeStore, context: BatchContext, days: float) -> list[RecipeJob]:
    if not days:
        return []
    before = context.clock.now() - days * DAY_SECONDS
    jobs = await recipes.list_discardable(before=before, limit=PAGE)
    # After a passing failure of the OCR service the batch still waits.
    return [job for job in jobs if await has_ended(context, job)]
