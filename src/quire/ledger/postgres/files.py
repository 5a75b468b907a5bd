"""The file list of a batch: files, units, and the results to fold into the list."""

from collections.abc import Collection

from quire.database.postgres import Connection, PostgresDatabase
from quire.database.postgres_queries import Values
from quire.ledger.port import ListedFile, SettledTask
from quire.ledger.postgres.batches import find_first_task
from quire.ledger.postgres.rows import all_rows
from quire.ledger.rows import Row, read_listed_file, read_settled_task
from quire.model.batch import Batch
from quire.model.files import fold


class PostgresFileStore:
    _database: PostgresDatabase

    async def list_files(self, batch: Batch, *, after: int, limit: int) -> list[ListedFile]:
        at = batch.position
        query = "listed_files" if at.round == 1 else "files_of_round"
        return await self._list_files(query, (batch.no, after, at.round, at.phase, limit))

    async def list_unit_candidates(
        self, batch: Batch, *, whole: bool, after: int, limit: int
    ) -> list[ListedFile]:
        at = batch.position
        values = {"no": batch.no, "after": after, "phase": at.phase, "limit": limit}
        if whole or at.round == 1:
            return await self._list_files("all_listed", values)
        values["round"] = at.round
        return await self._list_files("listed_where_changed", values)

    async def list_units(self, batch: Batch, *, after: int, limit: int) -> list[ListedFile]:
        at = batch.position
        return await self._list_files("units", (batch.no, after, at.round, at.phase, limit))

    async def find_units(self, batch: Batch, paths: Collection[str]) -> dict[str, int]:
        folded = sorted({fold(path) for path in paths})
        values = (batch.no, folded, batch.position.round, batch.position.phase)
        rows = await self._database.read(lambda connection: all_rows(connection, "unit_numbers", values))
        return {row[0]: row[1] for row in rows}

    async def list_unit_members(self, batch_no: int, unit_no: int) -> list[ListedFile]:
        return await self._list_files("unit_members", (batch_no, unit_no))

    async def count_paths(self, batch_no: int, paths: Collection[str]) -> dict[str, int]:
        if not paths:
            return {}
        values = {"no": batch_no, "paths": sorted(set(paths))}
        rows = await self._database.read(lambda connection: all_rows(connection, "taken_paths", values))
        return {row[0]: row[1] for row in rows}

    async def list_settled_tasks(self, batch: Batch, *, after: int, limit: int) -> list[SettledTask]:
        async def work(connection: Connection) -> list[Row]:
            before = await find_first_task(connection, batch) - 1
            return await all_rows(connection, "settled_tasks", (batch.no, max(after, before), limit))

        return [read_settled_task(row) for row in await self._database.read(work)]

    async def _list_files(self, query: str, values: Values) -> list[ListedFile]:
        rows = await self._database.read(lambda connection: all_rows(connection, query, values))
        return [read_listed_file(row) for row in rows]
