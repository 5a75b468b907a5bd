"""What is kept of recipe imports, and where: jobs, uploads of pictures, saved recipes, repeated requests.

A job changes by compare-and-swap of its revision: `states` decides, the store commits. Every writing method
is one transaction and durable when it returns.
"""

from collections.abc import Collection
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct, field


class JobStatus(StrEnum):
    """The words of the published API."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    ERROR = "ERROR"
    CANCELED = "CANCELED"
    COMMITTED = "COMMITTED"
    ABANDONED = "ABANDONED"


class ImportStage(StrEnum):
    """How far an import has come, beside its status."""

    RECEIVED = "RECEIVED"
    OCR_PENDING = "OCR_PENDING"
    OCR_DONE = "OCR_DONE"
    PARSING = "PARSING"
    COMPLETE = "COMPLETE"
    FAILED = "FAILED"


class IngestionState(StrEnum):
    """Of an upload of pictures."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


class RecipeJob(Struct, frozen=True, kw_only=True):
    """One import. Moments are seconds since 1970.

    job_data:     what the import needs: where its request lies, and what was said with it
    result:       `recipe_draft`, `pipeline` and, of a page, `recipe`
    attempts:     how often the OCR service has reported a passing failure
    batch_id:     the batch that carries the import through the pipeline
    ingestion_id: of pictures
    revision:     grows with every change
    """

    id: str
    user_id: str
    job_type: str
    url: str = ""
    use_llm_fallback: bool = False
    job_data: dict[str, Any] = field(default_factory=dict)
    status: JobStatus = JobStatus.PENDING
    stage: ImportStage = ImportStage.RECEIVED
    result: dict[str, Any] | None = None
    error_code: str | None = None
    error_message: str | None = None
    attempts: int = 0
    batch_id: str | None = None
    ingestion_id: str | None = None
    revision: int = 0
    created_at: float = 0.0
    updated_at: float = 0.0
    started_at: float | None = None
    completed_at: float | None = None
    committed_at: float | None = None
    abandoned_at: float | None = None
    canceled_at: float | None = None


class RequestKey(Struct, frozen=True, kw_only=True):
    """An idempotency key of a user; the fingerprint is that of the request's content."""

    user_id: str
    key: str
    fingerprint: str
    answer: str  # what the caller is told, as JSON


class RecipeIngestion(Struct, frozen=True, kw_only=True):
    """The upload of pictures that a job is about."""

    id: str
    job_id: str
    user_id: str
    state: IngestionState
    images: int
    created_at: float
    updated_at: float


class SavedRecipe(Struct, frozen=True, kw_only=True):
    """A recipe that a user has saved; with `job_id` from an import."""

    id: str
    user_id: str
    job_id: str | None
    recipe: dict[str, Any]
    created_at: float


class RecipeStore(Protocol):
    async def add_job(
        self, job: RecipeJob, *, images: int = 0, request: RequestKey | None = None, keys_since: float = 0.0
    ) -> str | None:
        """A new job, with its ingestion if it has one. When the user has used the request's key since
        `keys_since` for the same content: the answer of that time, and nothing is added; None otherwise.
        Raises Reject `idempotency_conflict` when it was used for other content, Stale when the id is taken.
        """
        ...

    async def get_job(self, job_id: str) -> RecipeJob:
        """Raises Missing."""
        ...

    async def replace_job(self, job: RecipeJob) -> RecipeJob:
        """Store a changed job, whose `revision` is the one that was read; the answer has the next one. Raises
        Stale when another process has changed it since.
        """
        ...

    async def list_jobs(
        self, user_id: str, *, statuses: Collection[JobStatus], limit: int
    ) -> list[RecipeJob]:
        """The jobs of a user with one of these statuses, newest first."""
        ...

    async def list_unstarted(self, *, before: float, limit: int) -> list[RecipeJob]:
        """Pending jobs that were received before that moment and are in no batch's hands, oldest first."""
        ...

    async def list_unfinished(self, *, before: float, after: str = "", limit: int) -> list[RecipeJob]:
        """Pending and running jobs that have not changed since that moment, by id."""
        ...

    async def list_unsaved(self, *, before: float, limit: int) -> list[RecipeJob]:
        """Complete jobs that were completed before that moment and not saved, oldest first."""
        ...

    async def list_discardable(self, *, before: float, limit: int) -> list[RecipeJob]:
        """Jobs that are over, have not changed since that moment and were not marked as emptied, oldest
        first. Over are those that failed, were cancelled, saved or abandoned.
        """
        ...

    async def mark_emptied(self, job: RecipeJob, *, now: float) -> bool:
        """Photos and request of the job were deleted. False: it has changed since it was read."""
        ...

    async def get_ingestion(self, ingestion_id: str) -> RecipeIngestion:
        """Raises Missing."""
        ...

    async def add_recipe(
        self,
        recipe: SavedRecipe,
        *,
        job: RecipeJob | None = None,
        request: RequestKey | None = None,
        keys_since: float = 0.0,
    ) -> str | None:
        """A saved recipe, and in the same transaction the change of its job, as in `replace_job`; with a
        request as in `add_job`.
        """
        ...

    async def get_recipe(self, recipe_id: str) -> SavedRecipe:
        """Raises Missing."""
        ...

    async def forget_requests(self, *, before: float) -> int:
        """Delete the keys of requests from before that moment; how many there were."""
        ...
