"""Which completions count."""

import uuid

import pytest
from msgspec import structs

from quire.ledger.port import OperatorAction
from quire.model.envelopes import MessageError, OcrCompleted, OcrCompletedPayload, Trace
from quire.model.errors import Retry
from quire.recipes import states
from quire.recipes.completions import take_completion
from quire.recipes.port import JobStatus
from quire.recipes.requests import import_pictures
from quire.recipes.results import take_result
from quire.steps.recipe.import_values import ImportOutcome, ImportResult


def completed(job_id: str, code: str | None = None, **changes) -> OcrCompleted:
    error = None if code is None else MessageError(code=code, message="it died")
    made = OcrCompleted(
        job_id=str(uuid.uuid4()),
        workflow_id=job_id,
        target="jarvis-recipes-server",
        created_at="2026-01-10T12:00:09Z",
        trace=Trace(parent_job_id=job_id),
        payload=OcrCompletedPayload(status="failed" if code else "success", results=(), error=error),
    )
    return structs.replace(made, **changes)


@pytest.fixture
async def job(context, requester):
    accepted = await import_pictures(context, requester, [b"jpeg"])
    return await context.recipes.get_job(accepted.job_id)


async def test_a_completion_that_comes_before_the_request_was_sent_is_delivered_again(context, job):
    with pytest.raises(Retry):
        await take_completion(context, completed(job.id))


async def test_a_passing_failure_is_shown_at_once(context, job):
    assert await take_completion(context, completed(job.id, "ocr_engine_error"))
    found = await context.recipes.get_job(job.id)
    assert (found.status, found.error_code, found.error_message) == (
        JobStatus.ERROR,
        "ocr_engine_error",
        "it died",
    )
    assert found.attempts == 1


@pytest.mark.parametrize(
    "changes", [{"workflow_id": "another"}, {"trace": Trace(parent_job_id="another")}, {"trace": Trace()}]
)
async def test_a_completion_for_something_else_is_dropped(context, job, changes):
    assert not await take_completion(context, completed(job.id, "ocr_engine_error", **changes))
    assert await context.recipes.get_job(job.id) == job


async def test_a_completion_for_an_import_that_is_over_is_dropped(context, job):
    over = await context.recipes.replace_job(states.cancel(job, now=context.clock.now()))
    assert not await take_completion(context, completed(job.id))
    assert await context.recipes.get_job(job.id) == over


async def test_a_success_that_comes_when_nothing_waits_for_it_any_more_changes_nothing(context, job):
    assert await take_completion(context, completed(job.id, "ocr_engine_error"))
    failed = await context.recipes.get_job(job.id)
    batch = await context.batches.get_batch(failed.batch_id)
    action = OperatorAction(actor="a test", reason="over", now=context.clock.now())
    await context.control.cancel(batch.no, action)
    assert (await context.batches.get_batch(failed.batch_id)).ended
    assert not await take_completion(context, completed(job.id))
    assert await context.recipes.get_job(job.id) == failed


async def test_an_import_that_changes_for_ever_takes_no_more(context, job):
    while not states.is_looping(job):
        job = await context.recipes.replace_job(job)
    assert not await take_completion(context, completed(job.id))


async def test_an_outcome_counts_once(context, job):
    context = structs.replace(context, rules=structs.replace(context.rules, events_queue="told"))
    failed = ImportOutcome(error_code="ocr_no_text", error_message="nothing")
    for outcome in (failed, ImportOutcome(error_code="other", error_message="later")):
        await take_result(context, _result(context, job, outcome))
    found = await context.recipes.get_job(job.id)
    assert (found.status, found.error_code) == (JobStatus.ERROR, "ocr_no_text")
    (told,) = await context.queues.peek("told", limit=9, now=context.clock.now())
    assert b'"recipe.import.failed"' in told.body
    assert b'"ocr_no_text"' in told.body


def _result(context, job, outcome: ImportOutcome) -> ImportResult:
    from quire.model.task_tokens import TokenAddress, issue_token

    token = issue_token(context.secrets[0], TokenAddress(job.batch_id, 1, 1))
    return ImportResult(job_id=job.id, task=token, outcome=outcome)
