"""Tasks as they are found outside of claims and reports, and cached results."""

from collections.abc import Collection

from quire.database.postgres import PostgresDatabase
from quire.ledger.flow_rows import read_flow_claim
from quire.ledger.port import Claim, StoredTask
from quire.ledger.postgres.rows import all_rows, change, one_row
from quire.ledger.rows import decode_result, read_task
from quire.model.work import EarlierResult, StepResult


class PostgresTaskStore:
    _database: PostgresDatabase

    async def load_child_results(
        self, batch_no: int, task_nos: Collection[int]
    ) -> dict[int, tuple[EarlierResult, ...]]:
        values = (batch_no, list(task_nos))
        found: dict[int, list[EarlierResult]] = {task_no: [] for task_no in task_nos}
        for task_no, path, result in await self._database.read(
            lambda connection: all_rows(connection, "earlier", values)
        ):
            found[task_no].append(EarlierResult(path, decode_result(result)))
        return {task_no: tuple(told) for task_no, told in found.items()}

    async def get_task(self, batch_no: int, task_no: int) -> StoredTask:
        values = (batch_no, task_no)
        row = await self._database.read(lambda connection: one_row(connection, "task_state", values))
        return read_task(batch_no, row, task_no)

    async def list_running(self, member: int) -> list[Claim]:
        rows = await self._database.read(lambda connection: all_rows(connection, "running_tasks", (member,)))
        return [read_flow_claim(batch_no, tuple(claim)) for batch_no, *claim in rows]

    async def load_cached(self, keys: Collection[str]) -> dict[str, StepResult]:
        values = (list(keys),)
        rows = await self._database.read(lambda connection: all_rows(connection, "cached_results", values))
        return {key: decode_result(blob or None) for key, blob in rows}

    async def evict_cached(self, keys: Collection[str]) -> None:
        values = (list(keys),)
        await self._database.write(lambda connection: change(connection, "evict_results", values))
