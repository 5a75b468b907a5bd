"""Jobs as the published API shows them."""

from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from quire.model.clock import timestamp
from quire.model.errors import Missing
from quire.recipes.context import RecipeContext
from quire.recipes.port import JobStatus, RecipeJob

MAX_LISTED = 50


class JobView(Struct, frozen=True, kw_only=True):
    """What an app polls. `stage` says how far it is."""

    id: str
    status: JobStatus
    stage: str
    result: dict[str, Any] | None = None
    error_code: str | None = None
    error_message: str | None = None
    next_action: str | None = None
    next_action_reason: str | None = None


class JobPreview(Struct, frozen=True, kw_only=True):
    title: str | None
    source_host: str | None


class JobLine(Struct, frozen=True, kw_only=True):
    id: str
    job_type: str
    url: str | None
    status: JobStatus
    completed_at: str | None
    warnings: list[str]
    preview: JobPreview


class JobList(Struct, frozen=True, kw_only=True):
    jobs: list[JobLine]


async def find_job(context: RecipeContext, user_id: str, job_id: str) -> RecipeJob:
    """Raises Missing, also for the job of another user: that it exists is no business of this one."""
    job = await context.recipes.get_job(job_id)
    if job.user_id != user_id:
        raise Missing(f"there is no import {job_id[:80]}", code="unknown_job")
    return job


async def list_lines(
    context: RecipeContext, user_id: str, statuses: frozenset[JobStatus], *, include_expired: bool
) -> JobList:
    """The newest of a user. Abandoned ones only when they are asked for."""
    wanted = statuses | ({JobStatus.ABANDONED} if include_expired else set())
    found = await context.recipes.list_jobs(user_id, statuses=wanted, limit=MAX_LISTED)
    return JobList(jobs=[to_line(job) for job in found])


def to_view(job: RecipeJob) -> JobView:
    pipeline = (job.result or {}).get("pipeline") or {}
    return JobView(
        id=job.id,
        status=job.status,
        stage=job.stage.value,
        result=job.result,
        error_code=job.error_code,
        error_message=job.error_message,
        next_action=pipeline.get("next_action"),
        next_action_reason=pipeline.get("next_action_reason"),
    )


def to_line(job: RecipeJob) -> JobLine:
    result = job.result or {}
    url = job.url or (result.get("pipeline") or {}).get("source_url") or ""
    return JobLine(
        id=job.id,
        job_type=job.job_type,
        url=job.url or None,
        status=job.status,
        completed_at=None if job.completed_at is None else timestamp(job.completed_at),
        warnings=list((result.get("pipeline") or {}).get("warnings") or []),
        preview=JobPreview(title=(result.get("recipe_draft") or {}).get("title"), source_host=_host_of(url)),
    )


def _host_of(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
