"""Recipe imports in the ledger's SQLite database, in tables of their own."""

import json
import sqlite3
from collections.abc import Collection

from quire.database.sql import load_migrations, load_queries
from quire.database.sqlite import SqliteDatabase
from quire.model.errors import Stale
from quire.recipes.port import JobStatus, RecipeIngestion, RecipeJob, RequestKey, SavedRecipe
from quire.recipes.rows import (
    Row,
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

SQL = load_queries("quire.recipes.sqlite.sql", "queries.sql")


class SqliteRecipeStore:
    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def prepare(self) -> None:
        """Create or upgrade the tables. May be repeated."""
        await self._database.migrate("recipes", load_migrations("quire.recipes.sqlite.sql"))

    async def add_job(
        self, job: RecipeJob, *, images: int = 0, request: RequestKey | None = None, keys_since: float = 0.0
    ) -> str | None:
        def work(connection: sqlite3.Connection) -> str | None:
            answer = _claim_key(connection, request, keys_since, job.created_at)
            if answer is not None:
                return answer
            if not connection.execute(SQL["insert_job"], to_row(job)).rowcount:
                raise Stale(f"there is an import {job.id} already")
            if job.ingestion_id is not None:
                connection.execute(SQL["insert_ingestion"], ingestion_row(job, images))
            return None

        return await self._database.write(work)

    async def get_job(self, job_id: str) -> RecipeJob:
        row = await self._database.read(
            lambda connection: connection.execute(SQL["job_by_id"], (job_id,)).fetchone()
        )
        return to_job(row, job_id)

    async def replace_job(self, job: RecipeJob) -> RecipeJob:
        return await self._database.write(lambda connection: _replace(connection, job))

    async def list_jobs(
        self, user_id: str, *, statuses: Collection[JobStatus], limit: int
    ) -> list[RecipeJob]:
        return await self._list("jobs_of_user", (user_id, json.dumps(statuses_of(statuses)), limit))

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
        changed = await self._database.write(
            lambda connection: connection.execute(SQL["mark_emptied"], values).rowcount
        )
        return bool(changed)

    async def get_ingestion(self, ingestion_id: str) -> RecipeIngestion:
        row = await self._database.read(
            lambda connection: connection.execute(SQL["ingestion_by_id"], (ingestion_id,)).fetchone()
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
        def work(connection: sqlite3.Connection) -> str | None:
            answer = _claim_key(connection, request, keys_since, recipe.created_at)
            if answer is not None:
                return answer
            if job is not None:
                _replace(connection, job)
            if not connection.execute(SQL["insert_recipe"], recipe_row(recipe)).rowcount:
                raise Stale(f"the recipe {recipe.id} was saved before")
            return None

        return await self._database.write(work)

    async def get_recipe(self, recipe_id: str) -> SavedRecipe:
        row = await self._database.read(
            lambda connection: connection.execute(SQL["recipe_by_id"], (recipe_id,)).fetchone()
        )
        return to_recipe(row, recipe_id)

    async def forget_requests(self, *, before: float) -> int:
        return await self._database.write(
            lambda connection: connection.execute(SQL["forget_requests"], (before,)).rowcount
        )

    async def _list(self, query: str, values: Row) -> list[RecipeJob]:
        rows = await self._database.read(lambda connection: connection.execute(SQL[query], values).fetchall())
        return [to_job(row) for row in rows]


def _claim_key(
    connection: sqlite3.Connection, request: RequestKey | None, since: float, now: float
) -> str | None:
    """The answer of the earlier request with this key; None: this is the first one."""
    if request is None:
        return None
    connection.execute(SQL["forget_request"], (request.user_id, request.key, since))
    if connection.execute(SQL["insert_request"], request_row(request, now)).rowcount:
        return None
    fingerprint, answer = connection.execute(SQL["request_by_key"], (request.user_id, request.key)).fetchone()
    if fingerprint != request.fingerprint:
        raise used_before(request)
    return str(answer)


def _replace(connection: sqlite3.Connection, job: RecipeJob) -> RecipeJob:
    if not connection.execute(SQL["replace_job"], changed_values(job)).rowcount:
        raise Stale(f"the import {job.id} has changed meanwhile")
    if job.ingestion_id is not None:
        values = (ingestion_state(job).value, job.updated_at, job.ingestion_id)
        connection.execute(SQL["change_ingestion"], values)
    return next_revision(job)
