"""The file list of a batch: files, units, and the results to fold into the list."""

import json
import sqlite3
from collections.abc import Collection
from typing import Any

from quire.database.sqlite import SqliteDatabase
from quire.ledger.port import ListedFile, SettledTask
from quire.ledger.rows import read_listed_file, read_settled_task
from quire.ledger.sqlite.batches import find_first_task
from quire.ledger.sqlite.rows import SQL
from quire.model.batch import Batch
from quire.model.files import fold


class SqliteFileStore:
    _database: SqliteDatabase

    async def list_files(self, batch: Batch, *, after: int, limit: int) -> list[ListedFile]:
        at = batch.position
        query = "listed_files" if at.round == 1 else "files_of_round"
        return await self._list_files(query, (batch.no, after, at.round, at.phase, limit))

    async def list_unit_candidates(
        self, batch: Batch, *, whole: bool, after: int, limit: int
    ) -> list[ListedFile]:
        at = batch.position
        if whole or at.round == 1:
            return await self._list_files("all_listed", (batch.no, after, at.phase, limit))
        return await self._list_files("listed_where_changed", (batch.no, after, at.round, limit, at.phase))

    async def list_units(self, batch: Batch, *, after: int, limit: int) -> list[ListedFile]:
        return await self._list_files(
            "units", (batch.no, after, batch.position.round, batch.position.phase, limit)
        )

    async def find_units(self, batch: Batch, paths: Collection[str]) -> dict[str, int]:
        folded = json.dumps(sorted({fold(path) for path in paths}))
        values = (batch.no, folded, batch.position.round, batch.position.phase)
        return await self._database.read(
            lambda connection: dict(connection.execute(SQL["unit_numbers"], values).fetchall())
        )

    async def list_unit_members(self, batch_no: int, unit_no: int) -> list[ListedFile]:
        return await self._list_files("unit_members", (batch_no, unit_no))

    async def count_paths(self, batch_no: int, paths: Collection[str]) -> dict[str, int]:
        if not paths:
            return {}
        wanted = json.dumps(sorted(set(paths)))
        return await self._database.read(
            lambda connection: dict(connection.execute(SQL["taken_paths"], (batch_no, wanted)).fetchall())
        )

    async def list_settled_tasks(self, batch: Batch, *, after: int, limit: int) -> list[SettledTask]:
        def work(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
            before = find_first_task(connection, batch) - 1
            return connection.execute(SQL["settled_tasks"], (batch.no, max(after, before), limit)).fetchall()

        return [read_settled_task(row) for row in await self._database.read(work)]

    async def _list_files(self, query: str, values: tuple[Any, ...]) -> list[ListedFile]:
        rows = await self._database.read(lambda connection: connection.execute(SQL[query], values).fetchall())
        return [read_listed_file(row) for row in rows]
