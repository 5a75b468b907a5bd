"""The table of states, and that nothing but the table decides."""

import itertools

import pytest

from quire.model.errors import Stale
from quire.recipes import states
from quire.recipes.port import ImportStage, JobStatus, RecipeJob

MOVES = {
    JobStatus.RUNNING: lambda job: states.begin(job, ImportStage.PARSING, now=2.0),
    JobStatus.COMPLETE: lambda job: states.complete(job, {"recipe_draft": {}}, now=2.0),
    JobStatus.ERROR: lambda job: states.fail(job, "parse_failed", "no recipe", now=2.0),
    JobStatus.CANCELED: lambda job: states.cancel(job, now=2.0),
    JobStatus.COMMITTED: lambda job: states.commit(job, now=2.0),
    JobStatus.ABANDONED: lambda job: states.abandon(job, now=2.0),
}


def job(status: JobStatus, **changes: object) -> RecipeJob:
    return RecipeJob(id="j", user_id="7", job_type="image", status=status, **changes)


@pytest.mark.parametrize(("before", "after"), list(itertools.product(JobStatus, MOVES)))
def test_a_move_that_the_table_does_not_have_is_refused(before, after):
    allowed = after in states.FOLLOWING[before]
    if before is JobStatus.ERROR or (before, after) == (JobStatus.RUNNING, JobStatus.RUNNING):
        allowed = before is JobStatus.RUNNING  # an error is taken back only for a passing fault
    if not allowed:
        with pytest.raises(Stale):
            MOVES[after](job(before, error_code="parse_failed"))
        return
    made = MOVES[after](job(before))
    assert made.status is after
    assert made.updated_at == 2.0


@pytest.mark.parametrize("status", [JobStatus.COMPLETE, JobStatus.ERROR, JobStatus.CANCELED])
def test_every_end_has_its_moment(status):
    assert MOVES[status](job(JobStatus.PENDING)).completed_at == 2.0


def test_an_error_that_may_pass_is_taken_back_by_a_success():
    failed = states.fail(job(JobStatus.PENDING), "ocr_engine_error", "it died", now=1.0)
    assert (failed.status, failed.stage) == (JobStatus.ERROR, ImportStage.FAILED)
    resumed = states.begin(failed, ImportStage.OCR_DONE, now=2.0)
    assert (resumed.status, resumed.stage, resumed.error_code) == (
        JobStatus.RUNNING,
        ImportStage.OCR_DONE,
        None,
    )
    assert resumed.completed_at is None


def test_a_stage_never_goes_back():
    later = states.begin(job(JobStatus.PENDING), ImportStage.PARSING, now=1.0)
    assert states.begin(later, ImportStage.OCR_PENDING, now=2.0).stage is ImportStage.PARSING


def test_an_import_that_waits_for_ocr_is_still_pending():
    made = states.begin(job(JobStatus.PENDING), ImportStage.OCR_PENDING, now=1.0, running=False)
    assert (made.status, made.stage) == (JobStatus.PENDING, ImportStage.OCR_PENDING)


def test_an_import_that_changes_for_ever_is_noticed():
    assert not states.is_looping(job(JobStatus.RUNNING, revision=states.MAX_CHANGES - 1))
    assert states.is_looping(job(JobStatus.RUNNING, revision=states.MAX_CHANGES))
