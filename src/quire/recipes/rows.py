"""Converts jobs, uploads and saved recipes to rows and back: the columns of every adapter are the fields of
the values, in order.
"""

from collections.abc import Collection
from typing import Any

import msgspec
from msgspec import structs

from quire.model.errors import Missing, Reject
from quire.recipes.port import (
    ImportStage,
    IngestionState,
    JobStatus,
    RecipeIngestion,
    RecipeJob,
    RequestKey,
    SavedRecipe,
)

Row = tuple[Any, ...]

# The columns that a change may touch; the others are those of the request.
CHANGING = (
    *("status", "stage", "result", "error_code", "error_message", "attempts", "batch_id", "updated_at"),
    *("started_at", "completed_at", "committed_at", "abandoned_at", "canceled_at"),
)
_INGESTION_STATES = {
    JobStatus.PENDING: IngestionState.PENDING,
    JobStatus.RUNNING: IngestionState.RUNNING,
    JobStatus.ERROR: IngestionState.FAILED,
    JobStatus.CANCELED: IngestionState.FAILED,
}


def to_row(job: RecipeJob) -> Row:
    return _encode(structs.asdict(job).values())


def changed_values(job: RecipeJob) -> Row:
    """The values of the columns in CHANGING, then the id, then the revision that was read."""
    values = structs.asdict(job)
    return (*_encode(values[name] for name in CHANGING), job.id, job.revision)


def to_job(row: Row | None, job_id: str = "") -> RecipeJob:
    """Raises Missing, naming `job_id`, when there is no row."""
    if row is None:
        raise Missing(f"there is no import {job_id[:80]}", code="unknown_job")
    values = dict(zip(RecipeJob.__struct_fields__, row, strict=True))
    values["use_llm_fallback"] = bool(values["use_llm_fallback"])
    values["job_data"] = msgspec.json.decode(values["job_data"])
    values["result"] = None if values["result"] is None else msgspec.json.decode(values["result"])
    values["status"], values["stage"] = JobStatus(values["status"]), ImportStage(values["stage"])
    return RecipeJob(**values)


def next_revision(job: RecipeJob) -> RecipeJob:
    return structs.replace(job, revision=job.revision + 1)


def used_before(request: RequestKey) -> Reject:
    return Reject(
        f"the idempotency key {request.key!r} was used for another request; send a new key with new content",
        code="idempotency_conflict",
    )


def ingestion_row(job: RecipeJob, images: int) -> Row:
    state = ingestion_state(job)
    return (job.ingestion_id, job.id, job.user_id, state.value, images, job.created_at, job.updated_at)


def ingestion_state(job: RecipeJob) -> IngestionState:
    return _INGESTION_STATES.get(job.status, IngestionState.SUCCEEDED)


def to_ingestion(row: Row | None, ingestion_id: str) -> RecipeIngestion:
    if row is None:
        raise Missing(f"there is no upload {ingestion_id[:80]}", code="unknown_ingestion")
    values = dict(zip(RecipeIngestion.__struct_fields__, row, strict=True))
    return RecipeIngestion(**values | {"state": IngestionState(values["state"])})


def recipe_row(recipe: SavedRecipe) -> Row:
    return _encode(structs.asdict(recipe).values())


def to_recipe(row: Row | None, recipe_id: str) -> SavedRecipe:
    if row is None:
        raise Missing(f"there is no recipe {recipe_id[:80]}", code="unknown_recipe")
    values = dict(zip(SavedRecipe.__struct_fields__, row, strict=True))
    return SavedRecipe(**values | {"recipe": msgspec.json.decode(values["recipe"])})


def request_row(request: RequestKey, now: float) -> Row:
    return (request.user_id, request.key, request.fingerprint, request.answer, now)


def _encode(values: Any) -> Row:
    return tuple(_encode_one(value) for value in values)


def _encode_one(value: object) -> object:
    if isinstance(value, dict):
        return msgspec.json.encode(value).decode()
    if isinstance(value, bool):
        return int(value)
    return str(value) if isinstance(value, str) else value


def statuses_of(statuses: Collection[JobStatus]) -> list[str]:
    return sorted(status.value for status in statuses)
