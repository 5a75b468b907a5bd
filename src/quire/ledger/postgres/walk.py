"""A batch moves: the walk's door. What a move and a settlement write is in `moving` and `settling`.

Cost per task does not depend on the size of the batch: new tasks are claimed along the primary key from a
cursor, retries from a small partial index, and counters are updated once per set of reports.
"""

from collections.abc import Collection, Sequence

from quire.database.postgres import Connection, PostgresDatabase
from quire.ledger.port import Claim, ListedFile, Move, Settled, SettledTask, Settlement
from quire.ledger.postgres.moving import make_move
from quire.ledger.postgres.rows import all_rows, change, columns, one_row
from quire.ledger.postgres.settling import fold_reports
from quire.ledger.rows import Row, batch_of, claim_of, decode_result, file_of, settled_task_of
from quire.model.batch import Batch
from quire.model.errors import Missing
from quire.model.work import Order, StepResult


class PostgresWalk:
    _database: PostgresDatabase

    async def batch(self, batch_id: str) -> Batch:
        row = await self._database.read(lambda connection: one_row(connection, "batch_by_id", (batch_id,)))
        return batch_of(row, batch_id)

    async def apply(self, move: Move) -> Batch:
        return await self._database.write(lambda connection: make_move(connection, move))

    async def files(self, batch_no: int, *, after: int, limit: int) -> list[ListedFile]:
        rows = await self._database.read(
            lambda connection: all_rows(connection, "listed_files", (batch_no, after, limit))
        )
        return [ListedFile(row[0], row[1], file_of(row, 2)) for row in rows]

    async def taken(self, batch_no: int, paths: Collection[str]) -> dict[str, int]:
        if not paths:
            return {}
        values = {"batch_no": batch_no, "paths": sorted(set(paths))}
        rows = await self._database.read(lambda connection: all_rows(connection, "taken_paths", values))
        return {row[0]: row[1] for row in rows}

    async def settled_tasks(self, batch_no: int, *, phase: int, after: int, limit: int) -> list[SettledTask]:
        async def work(connection: Connection) -> list[Row]:
            before = await _tasks_before(connection, batch_no, phase)
            values = (batch_no, max(after, before), phase, limit)
            return await all_rows(connection, "settled_tasks", values)

        return [settled_task_of(row) for row in await self._database.read(work)]

    async def claim(self, batch_no: int, *, limit: int, now: float) -> list[Claim]:
        rows = await self._database.write(lambda connection: _claim(connection, batch_no, limit, now))
        return [claim_of(batch_no, row) for row in rows]

    async def settle(self, batch_no: int, settlements: Sequence[Settlement], *, now: float) -> Settled:
        return await self._database.write(
            lambda connection: fold_reports(connection, batch_no, settlements, now)
        )

    async def give_back(self, orders: Sequence[Order]) -> None:
        if not orders:
            return
        values = columns((order.batch_no, order.task_no, order.attempt) for order in orders)

        async def work(connection: Connection) -> None:
            await all_rows(connection, "lock_batches", (values[0],))
            await change(connection, "give_back", tuple(values))

        await self._database.write(work)

    async def running(self, batch_no: int) -> list[Claim]:
        async def work(connection: Connection) -> list[Row]:
            row = await one_row(connection, "phase_of", (batch_no,))
            before = 0 if row is None else await _tasks_before(connection, batch_no, row[0])
            return await all_rows(connection, "running_tasks", (batch_no, before))

        return [claim_of(batch_no, row) for row in await self._database.read(work)]

    async def cached(self, keys: Collection[str]) -> dict[str, StepResult]:
        values = (list(keys),)
        rows = await self._database.read(lambda connection: all_rows(connection, "cached_results", values))
        return {key: decode_result(blob or None) for key, blob in rows}

    async def evict(self, keys: Collection[str]) -> None:
        values = (list(keys),)
        await self._database.write(lambda connection: change(connection, "evict_results", values))


async def _tasks_before(connection: Connection, batch_no: int, phase: int) -> int:
    row = await one_row(connection, "first_task_of_phase", (batch_no, phase))
    return 0 if row is None else int(row[0])


async def _claim(connection: Connection, batch_no: int, limit: int, now: float) -> list[Row]:
    row = await one_row(connection, "lock_batch", (batch_no,))
    if row is None:
        raise Missing(f"there is no batch {batch_no}", code="unknown_batch")
    following, last_task, stage = row
    if stage != "working":
        return []
    values = {"batch_no": batch_no, "now": now}
    claimed = await all_rows(connection, "begin_waiting", values | {"limit": limit})
    end = min(last_task + 1, following + limit - len(claimed))
    if end > following:
        claimed += await all_rows(connection, "begin_fresh", values | {"first": following, "end": end})
        await change(connection, "set_next_task", (end, batch_no))
    return claimed
