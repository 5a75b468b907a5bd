"""Imports get one batch, whatever dies between the steps of a start."""

import asyncio

import msgspec
import pytest
from msgspec import structs

from quire.blobs import content
from quire.ledger.port import BatchFilter
from quire.model.batch import Stage
from quire.model.errors import Reject
from quire.recipes.port import ImportStage, JobStatus, RecipeJob
from quire.recipes.requests import import_pictures, import_url
from quire.recipes.starting import start_import
from quire.recipes.sweeping import sweep
from quire.steps.recipe.import_values import ImportRequest


async def received(context, **changes) -> RecipeJob:
    """An import as a process leaves it that dies before it starts it."""
    request = ImportRequest(job_id="j", kind="url", received_at=1.0, url="https://example.org/")
    stored = await content.put_bytes(context.blobs, msgspec.json.encode(request))
    document = {"key": stored.key, "size": stored.size, "digest": stored.digest}
    now = context.clock.now()
    job = RecipeJob(
        id="j",
        user_id="7",
        job_type="url",
        job_data={"document": document},
        created_at=now,
        updated_at=now,
        **changes,
    )
    await context.recipes.add_job(job)
    return job


async def batches(context):
    return await context.records.list_batches(BatchFilter())


async def test_what_was_accepted_and_not_started_is_started_by_the_sweep(context):
    await received(context)
    assert (await sweep(context)).started == 0  # another process may be at it
    context.clock.advance(61)
    assert (await sweep(context)).started == 1
    (batch,) = await batches(context)
    job = await context.recipes.get_job("j")
    assert (job.batch_id, job.status, job.stage) == (batch.id, JobStatus.RUNNING, ImportStage.PARSING)
    context.clock.advance(61)
    assert (await sweep(context)).started == 0


@pytest.mark.parametrize("opened", [False, True])
async def test_a_start_that_was_cut_off_goes_on_with_the_same_batch(context, opened):
    job = await received(context, batch_id="01KA3Y8M5T2QJ6W0R9XV7NBCDE")
    if opened:
        from quire.batches.submission import draft_batch

        draft = structs.replace(draft_batch(context, context.plan), id=job.batch_id)
        await context.uploads.open_batch(draft)
    context.clock.advance(1)
    assert (await sweep(context, unstarted_seconds=0)).started == 1
    (batch,) = await batches(context)
    assert batch.id == job.batch_id
    assert batch.position.stage is not Stage.OPEN


async def test_several_processes_that_start_one_import_open_one_batch(context):
    job = await received(context)
    await asyncio.gather(*(start_import(context, job) for _ in range(5)), return_exceptions=True)
    assert len(await batches(context)) == 1
    assert (await context.recipes.get_job("j")).batch_id is not None


async def test_an_import_whose_batch_has_ended_without_an_outcome_fails(context, requester):
    from quire.batches import control
    from quire.ledger.port import OperatorAction

    accepted = await import_url(context, requester, "http://127.0.0.1:9/")
    job = await context.recipes.get_job(accepted.job_id)
    action = OperatorAction(actor="operator", reason="test", now=context.clock.now())
    await control.cancel(context, job.batch_id, action)
    assert (await sweep(context)).ended == 0
    context.clock.advance(200)
    assert (await sweep(context)).ended == 1
    job = await context.recipes.get_job(job.id)
    assert (job.status, job.error_code) == (JobStatus.ERROR, "handler_error")


async def test_complete_imports_that_nobody_saves_are_abandoned(context, requester):
    from quire.recipes.states import complete

    accepted = await import_url(context, requester, "http://127.0.0.1:9/")
    job = await context.recipes.get_job(accepted.job_id)
    await context.recipes.replace_job(complete(job, {}, now=context.clock.now()))
    context.clock.advance(72 * 3600 - 1)
    assert (await sweep(context)).abandoned == 0
    context.clock.advance(2)
    assert (await sweep(context)).abandoned == 1
    job = await context.recipes.get_job(job.id)
    assert (job.status, job.abandoned_at) == (JobStatus.ABANDONED, context.clock.now())


async def test_pictures_of_a_repeated_request_are_not_kept(context, requester):
    keyed = structs.replace(requester, key="K")
    first = await import_pictures(context, keyed, [b"jpeg"], sent="f")
    again = await import_pictures(context, keyed, [b"jpeg"], sent="f")
    assert again == first
    with pytest.raises(Reject):
        await import_pictures(context, keyed, [b"other"], sent="g")
    kept = [info.key async for info in context.blobs.list("recipe-images")]
    assert kept == [f"recipe-images/7/{first.ingestion_id}/0.jpg"]


async def test_requests_that_race_with_one_key_make_one_import(context, requester):
    keyed = structs.replace(requester, key="K")
    made = await asyncio.gather(*(import_url(context, keyed, "https://example.org/") for _ in range(6)))
    assert len(set(made)) == 1
    assert len(await batches(context)) == 1
