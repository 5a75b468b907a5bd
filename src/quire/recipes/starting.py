"""Gives an import to the engine: a batch of one document goes through the pipeline `recipe`.

Promise: may be repeated at any point, by several processes; an import gets one batch. The id of the batch is
stored with the job before the batch exists, so whoever goes on after a crash opens the same one.
"""

from contextlib import suppress

from msgspec import structs

from quire.batches.context import BatchContext
from quire.batches.submission import Pages, close_batch, draft_batch
from quire.ledger.port import Upload
from quire.ledger.submissions import TAKEN
from quire.model.batch import Batch, Stage
from quire.model.errors import Missing, Stale
from quire.model.ids import BatchId
from quire.recipes.context import RecipeContext
from quire.recipes.port import ImportStage, RecipeJob
from quire.recipes.states import begin, is_open
from quire.steps.recipe.import_values import REQUEST_TYPE

NAME = "import.json"


async def start_import(context: RecipeContext, job: RecipeJob) -> RecipeJob:
    """Open and close the batch of a job that has been received. Raises Retry when the ledger is away."""
    if job.batch_id is None:
        named = structs.replace(job, batch_id=BatchId(context.ids.ulid()), updated_at=context.clock.now())
        job = await context.recipes.replace_job(named)
    batch = await _open(context, job)
    if batch.position.stage is Stage.OPEN:
        with suppress(Stale):  # another process has closed it
            await close_batch(
                batch,
                context.plan,
                uploads=context.uploads,
                blobs=context.blobs,
                clock=context.clock,
                pages=_list_documents(job),
            )
    context.wake()
    return await _mark_started(context, job)


async def has_ended(context: BatchContext, job: RecipeJob) -> bool:
    """Whether the batch of an import is over, or there is none: nothing of it goes on."""
    if job.batch_id is None:
        return True
    try:
        return (await context.batches.get_batch(job.batch_id)).ended
    except Missing:
        return True


async def _open(context: RecipeContext, job: RecipeJob) -> Batch:
    batch_id = job.batch_id or ""
    try:
        return await context.batches.get_batch(batch_id)
    except Missing:
        draft = structs.replace(draft_batch(context, context.plan), id=batch_id)
        return await context.uploads.open_batch(draft)


async def _mark_started(context: RecipeContext, job: RecipeJob) -> RecipeJob:
    """The stage that the import is in now, unless it has already come further."""
    waits = job.job_data.get("ocr") == "queue"
    stage = ImportStage.OCR_PENDING if job.job_type == "image" else ImportStage.PARSING
    try:
        return await context.recipes.replace_job(
            begin(job, stage, now=context.clock.now(), running=not waits)
        )
    except Stale:
        found = await context.recipes.get_job(job.id)
        if is_open(found) and found.stage is ImportStage.RECEIVED:
            raise
        return found


async def _list_documents(job: RecipeJob) -> Pages:
    yield [_to_upload(job)]


def _to_upload(job: RecipeJob) -> Upload:
    document = job.job_data["document"]
    config = {"import": job.job_type}
    if "ocr" in job.job_data:
        config["ocr"] = job.job_data["ocr"]
    if job.use_llm_fallback:
        config["model"] = "yes"
    return Upload(
        path=NAME,
        state=TAKEN,
        size=document["size"],
        key=document["key"],
        digest=document["digest"],
        content_type=REQUEST_TYPE,
        config=config,
    )
