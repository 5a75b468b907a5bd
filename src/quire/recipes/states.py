"""Which states of an import follow which: a table, and the functions that apply it. Pure.

An import that was refused for a passing fault of the OCR service may still go on: published workers report
each failed attempt before they try again. No other end is taken back.
"""

from typing import Any

from msgspec import structs

from quire.model.envelopes import OcrErrorCode
from quire.model.errors import Stale
from quire.recipes.port import ImportStage, JobStatus, RecipeJob

FOLLOWING: dict[JobStatus, frozenset[JobStatus]] = {
    JobStatus.PENDING: frozenset(
        {JobStatus.RUNNING, JobStatus.COMPLETE, JobStatus.ERROR, JobStatus.CANCELED}
    ),
    JobStatus.RUNNING: frozenset({JobStatus.COMPLETE, JobStatus.ERROR, JobStatus.CANCELED}),
    JobStatus.COMPLETE: frozenset({JobStatus.COMMITTED, JobStatus.ABANDONED}),
    JobStatus.ERROR: frozenset({JobStatus.RUNNING}),
    JobStatus.CANCELED: frozenset(),
    JobStatus.COMMITTED: frozenset(),
    JobStatus.ABANDONED: frozenset(),
}
OPEN = frozenset({JobStatus.PENDING, JobStatus.RUNNING})
PASSING = frozenset(
    code.value
    for code in (
        OcrErrorCode.ENGINE_ERROR,
        OcrErrorCode.FILE_READ_ERROR,
        OcrErrorCode.REDIS_ERROR,
        OcrErrorCode.INTERNAL_ERROR,
    )
)
# More changes than any import makes: messages that go round in circles end here.
MAX_CHANGES = 50
_STAGES = list(ImportStage)


def is_open(job: RecipeJob) -> bool:
    return job.status in OPEN


def may_resume(job: RecipeJob) -> bool:
    """Whether a success of the OCR service still counts."""
    return is_open(job) or (job.status is JobStatus.ERROR and job.error_code in PASSING)


def is_looping(job: RecipeJob) -> bool:
    return job.revision >= MAX_CHANGES


def begin(job: RecipeJob, stage: ImportStage, *, now: float, running: bool = True) -> RecipeJob:
    """The import has come to this stage; an earlier one changes nothing. Raises Stale if it is over."""
    if not may_resume(job):
        raise _stale(job, "go on")
    resumed = job.status is JobStatus.ERROR
    stage = stage if resumed or _STAGES.index(stage) > _STAGES.index(job.stage) else job.stage
    return structs.replace(
        job,
        status=JobStatus.RUNNING if running or resumed else job.status,
        stage=stage,
        error_code=None,
        error_message=None,
        completed_at=None,
        started_at=job.started_at or now,
        updated_at=now,
    )


def complete(job: RecipeJob, result: dict[str, Any], *, now: float) -> RecipeJob:
    job = _to(job, JobStatus.COMPLETE, now)
    return structs.replace(
        job,
        stage=ImportStage.COMPLETE,
        result=result,
        error_code=None,
        error_message=None,
        started_at=job.started_at or now,
        completed_at=now,
    )


def fail(
    job: RecipeJob, code: str, message: str, *, now: float, result: dict[str, Any] | None = None
) -> RecipeJob:
    job = _to(job, JobStatus.ERROR, now)
    return structs.replace(
        job, stage=ImportStage.FAILED, result=result, error_code=code, error_message=message, completed_at=now
    )


def cancel(job: RecipeJob, *, now: float) -> RecipeJob:
    return structs.replace(_to(job, JobStatus.CANCELED, now), canceled_at=now, completed_at=now)


def commit(job: RecipeJob, *, now: float) -> RecipeJob:
    return structs.replace(_to(job, JobStatus.COMMITTED, now), committed_at=now)


def abandon(job: RecipeJob, *, now: float) -> RecipeJob:
    return structs.replace(_to(job, JobStatus.ABANDONED, now), abandoned_at=now)


def _to(job: RecipeJob, status: JobStatus, now: float) -> RecipeJob:
    """Raises Stale where the table does not have it."""
    if status not in FOLLOWING[job.status]:
        raise _stale(job, f"become {status.value}")
    return structs.replace(job, status=status, updated_at=now)


def _stale(job: RecipeJob, what: str) -> Stale:
    return Stale(f"the import {job.id} is {job.status.value} and cannot {what}", code="wrong_state")
