"""Recipe imports in the ledger's PostgreSQL database, in tables of their own."""

from collections.abc import Collection

from quire.database.postgres import Connection, PostgresDatabase
from quire.database.postgres_queries import PostgresQueries, Values, clean_row
from quire.database.sql import load_migrations
from quire.model.errors import Stale
from quire.recipes.port import JobStatus, RecipeIngestion, RecipeJob, RequestKey, SavedRecipe
from quire.recipes.rows import (
    changed_values,
    ingestion_row,
    ingestion_state,
    next_revision,
    recipe_row,
    request_row,
    statuses_of,
    to_ingestion,
    to_job,
    to_recipe,
    to_row,
    used_before,
)

_queries = PostgresQueries("quire.recipes.postgres.sql", "queries.sql")


class PostgresRecipeStore:
    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def prepare(self) -> None:
        """Create or upgrade the tables. May be repeated."""
        await self._database.migrate("recipes", load_migrations("quire.recipes.postgres.sql"))

    async def add_job(
        self, job: RecipeJob, *, images: int = 0, request: RequestKey | None = None, keys_since: float = 0.0
    ) -> str | None:
        async def work(connection: Connection) -> str | None:
            answer = await _claim_key(connection, request, keys_since, job.created_at)
            if answer is not None:
                return answer
            if not await _queries.change(connection, "insert_job", clean_row(to_row(job))):
                raise Stale(f"there is an import {job.id} already")
            if job.ingestion_id is not None:
                await _queries.change(connection, "insert_ingestion", clean_row(ingestion_row(job, images)))
            return None

        return await self._database.write(work)

    async def get_job(self, job_id: str) -> RecipeJob:
        values = clean_row((job_id,))
        row = await self._database.read(lambda connection: _queries.one_row(connection, "job_by_id", values))
        return to_job(row, job_id)

    async def replace_job(self, job: RecipeJob) -> RecipeJob:
        return await self._database.write(lambda connection: _replace(connection, job))

    async def list_jobs(
        self, user_id: str, *, statuses: Collection[JobStatus], limit: int
    ) -> list[RecipeJob]:
        (user,) = clean_row((user_id,))
        return await self._list(
            "jobs_of_user", {"user": user, "statuses": statuses_of(statuses), "limit": limit}
        )

    async def list_unstarted(self, *, before: float, limit: int) -> list[RecipeJob]:
        return await self._list("unstarted_jobs", (before, limit))

    async def list_unfinished(self, *, before: float, after: str = "", limit: int) -> list[RecipeJob]:
        return await self._list("unfinished_jobs", (before, after, limit))

    async def list_unsaved(self, *, before: float, limit: int) -> list[RecipeJob]:
        return await self._list("unsaved_jobs", (before, limit))

    async def list_discardable(self, *, before: float, limit: int) -> list[RecipeJob]:
        return await self._list("discardable_jobs", (before, limit))

    async def mark_emptied(self, job: RecipeJob, *, now: float) -> bool:
        values = (now, job.id, job.revision)
        return bool(
            await self._database.write(lambda connection: _queries.change(connection, "mark_emptied", values))
        )

    async def get_ingestion(self, ingestion_id: str) -> RecipeIngestion:
        values = clean_row((ingestion_id,))
        row = await self._database.read(
            lambda connection: _queries.one_row(connection, "ingestion_by_id", values)
        )
        return to_ingestion(row, ingestion_id)

    async def add_recipe(
        self,
        recipe: SavedRecipe,
        *,
        job: RecipeJob | None = None,
        request: RequestKey | None = None,
        keys_since: float = 0.0,
    ) -> str | None:
        async def work(connection: Connection) -> str | None:
            answer = await _claim_key(connection, request, keys_since, recipe.created_at)
            if answer is not None:
                return answer
            if job is not None:
                await _replace(connection, job)
            if not await _queries.change(connection, "insert_recipe", clean_row(recipe_row(recipe))):
                raise Stale(f"the recipe {recipe.id} was saved before")
            return None

        return await self._database.write(work)

    async def get_recipe(self, recipe_id: str) -> SavedRecipe:
        values = clean_row((recipe_id,))
        row = await self._database.read(
            lambda connection: _queries.one_row(connection, "recipe_by_id", values)
        )
        return to_recipe(row, recipe_id)

    async def forget_requests(self, *, before: float) -> int:
        return await self._database.write(
            lambda connection: _queries.change(connection, "forget_requests", (before,))
        )

    async def _list(self, query: str, values: Values) -> list[RecipeJob]:
        rows = await self._database.read(lambda connection: _queries.all_rows(connection, query, values))
        return [to_job(row) for row in rows]


async def _claim_key(
    connection: Connection, request: RequestKey | None, since: float, now: float
) -> str | None:
    """The answer of the earlier request with this key; None: this is the first one."""
    if request is None:
        return None
    name = clean_row((request.user_id, request.key))
    await _queries.change(connection, "forget_request", (*name, since))
    if await _queries.change(connection, "insert_request", clean_row(request_row(request, now))):
        return None
    found = await _queries.one_row(connection, "request_by_key", name)
    if found is None:
        raise Stale("the request with this idempotency key has just been forgotten")
    fingerprint, answer = found
    if fingerprint != request.fingerprint:
        raise used_before(request)
    return str(answer)


async def _replace(connection: Connection, job: RecipeJob) -> RecipeJob:
    if not await _queries.change(connection, "replace_job", clean_row(changed_values(job))):
        raise Stale(f"the import {job.id} has changed meanwhile")
    if job.ingestion_id is not None:
        values = (ingestion_state(job).value, job.updated_at, job.ingestion_id)
        await _queries.change(connection, "change_ingestion", values)
    return next_revision(job)
