"""Tasks as they are found outside of claims and reports, and cached results."""

import json
import sqlite3
from collections.abc import Collection

from quire.database.sqlite import SqliteDatabase
from quire.ledger.flow_rows import read_flow_claim
from quire.ledger.port import Claim, StoredTask
from quire.ledger.rows import decode_result, read_task
from quire.ledger.sqlite.rows import SQL
from quire.model.work import EarlierResult, StepResult


class SqliteTaskStore:
    _database: SqliteDatabase

    async def load_child_results(
        self, batch_no: int, task_nos: Collection[int]
    ) -> dict[int, tuple[EarlierResult, ...]]:
        def work(connection: sqlite3.Connection) -> dict[int, tuple[EarlierResult, ...]]:
            found = {}
            for task_no in task_nos:
                rows = connection.execute(SQL["earlier"], (batch_no, task_no)).fetchall()
                found[task_no] = tuple(EarlierResult(path, decode_result(result)) for _, path, result in rows)
            return found

        return await self._database.read(work)

    async def get_task(self, batch_no: int, task_no: int) -> StoredTask:
        row = await self._database.read(
            lambda connection: connection.execute(SQL["task_state"], (batch_no, task_no)).fetchone()
        )
        return read_task(batch_no, row, task_no)

    async def list_running(self, member: int) -> list[Claim]:
        rows = await self._database.read(
            lambda connection: connection.execute(SQL["running_tasks"], (member,)).fetchall()
        )
        return [read_flow_claim(batch_no, tuple(claim)) for batch_no, *claim in rows]

    async def load_cached(self, keys: Collection[str]) -> dict[str, StepResult]:
        wanted = json.dumps(list(keys))
        rows = await self._database.read(
            lambda connection: connection.execute(SQL["cached_results"], (wanted,)).fetchall()
        )
        return {key: decode_result(blob or None) for key, blob in rows}

    async def evict_cached(self, keys: Collection[str]) -> None:
        rows = [(key,) for key in keys]
        await self._database.write(lambda connection: connection.executemany(SQL["evict_result"], rows))
