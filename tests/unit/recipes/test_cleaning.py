"""What of imports is deleted, and when."""

import pytest
from tests.unit.recipes.test_completions import completed

from quire.model.errors import Missing
from quire.recipes.cleaning import discard, list_discardable, list_keys
from quire.recipes.completions import take_completion
from quire.recipes.port import JobStatus
from quire.recipes.requests import import_pictures
from quire.recipes.saving import cancel_import

DAYS = 30.0
DAY_SECONDS = 86_400.0


@pytest.fixture
async def job(context, requester):
    accepted = await import_pictures(context, requester, [b"one", b"two"])
    return await context.recipes.get_job(accepted.job_id)


async def kept(context, job) -> list[str]:
    found = []
    for key in list_keys(job):
        try:
            await context.blobs.get(key)
        except Missing:
            continue
        found.append(key)
    return found


async def test_photos_and_request_of_a_cancelled_import_are_deleted_after_their_time(context, requester, job):
    await cancel_import(context, requester.user_id, job.id, actor="a test")
    context.clock.advance((DAYS - 1) * DAY_SECONDS)
    assert await list_discardable(context.recipes, context, DAYS) == []
    assert await discard(context.recipes, context, DAYS) == 0
    context.clock.advance(2 * DAY_SECONDS)
    assert await discard(context.recipes, context, 0.0) == 0
    (due,) = await list_discardable(context.recipes, context, DAYS)
    assert (due.job_id, due.kind, due.files) == (job.id, "recipe_import", 3)
    assert len(await kept(context, job)) == 3
    assert await discard(context.recipes, context, DAYS) == 1
    assert await kept(context, job) == []
    assert await discard(context.recipes, context, DAYS) == 0
    assert (await context.recipes.get_job(job.id)).status is JobStatus.CANCELED


async def test_an_import_that_is_open_or_may_still_go_on_keeps_everything(context, job):
    context.clock.advance(2 * DAYS * DAY_SECONDS)
    assert await discard(context.recipes, context, DAYS) == 0
    # The OCR service has failed for now, and the batch waits for its next try.
    assert await take_completion(context, completed(job.id, "ocr_engine_error"))
    context.clock.advance(2 * DAYS * DAY_SECONDS)
    assert (await context.recipes.get_job(job.id)).status is JobStatus.ERROR
    assert await discard(context.recipes, context, DAYS) == 0
    assert len(await kept(context, job)) == 3


async def test_a_clean_up_that_was_cut_off_is_repeated(context, requester, job):
    await cancel_import(context, requester.user_id, job.id, actor="a test")
    context.clock.advance(2 * DAYS * DAY_SECONDS)
    await context.blobs.delete(list_keys(job)[0])
    assert await discard(context.recipes, context, DAYS) == 1
    assert await kept(context, job) == []
