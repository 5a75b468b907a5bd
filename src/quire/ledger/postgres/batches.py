"""A batch moves: the walk's door. What a move writes is in `moving`."""

from collections.abc import Collection

from quire.database.postgres import Connection, PostgresDatabase
from quire.ledger.port import Known, ListedFile, Move, Only, SettledTask
from quire.ledger.postgres.moves import make_move
from quire.ledger.postgres.rows import (
    Values,
    all_rows,
    change,
    named,
    note,
    numbers,
    one_row,
    pipelines,
    was_dismissed,
)
from quire.ledger.rows import Row, batch_of, listed_of, settled_task_of
from quire.model.batch import Batch, Position
from quire.model.errors import Stale


class PostgresBatchStore:
    _database: PostgresDatabase

    async def batch(self, batch_id: str) -> Batch:
        row = await self._database.read(lambda connection: one_row(connection, "batch_by_id", (batch_id,)))
        return batch_of(row, batch_id)

    async def take(
        self, member: int, *, limit: int, now: float, only: Only = None, known: Known = None
    ) -> list[Batch]:
        values = {"member": member, "limit": limit, "now": now, "only": named(only), **pipelines(known)}

        async def work(connection: Connection) -> list[Row]:
            if await was_dismissed(connection, member):
                return []
            taken = await numbers(connection, "take", values)
            return await all_rows(connection, "batches_by_no", (taken,)) if taken else []

        return [batch_of(row, row[0]) for row in await self._database.write(work)]

    async def leave(self, batch_no: int, member: int) -> None:
        await self._database.write(lambda connection: change(connection, "leave", (batch_no, member)))

    async def apply(self, move: Move) -> Batch:
        return await self._database.write(lambda connection: make_move(connection, move))

    async def put_off(
        self, batch_no: int, expect: Position, *, retries: int, until: float, reason: str, now: float
    ) -> None:
        place = (expect.stage.value, expect.phase, expect.cursor, expect.round)

        async def work(connection: Connection) -> None:
            if not await change(connection, "put_off", (retries, until, now, batch_no, *place)):
                raise Stale(f"batch {batch_no} has moved on from {expect}")
            await note(connection, batch_no, now, "phase_retry", {"retry": retries, "reason": reason})

        await self._database.write(work)

    async def files(self, batch: Batch, *, after: int, limit: int) -> list[ListedFile]:
        at = batch.position
        query = "listed_files" if at.round == 1 else "files_of_round"
        return await self._listed(query, (batch.no, after, at.round, at.phase, limit))

    async def to_gather(self, batch: Batch, *, whole: bool, after: int, limit: int) -> list[ListedFile]:
        at = batch.position
        values = {"no": batch.no, "after": after, "phase": at.phase, "limit": limit}
        if whole or at.round == 1:
            return await self._listed("all_listed", values)
        values["round"] = at.round
        return await self._listed("listed_where_changed", values)

    async def units(self, batch: Batch, *, after: int, limit: int) -> list[ListedFile]:
        at = batch.position
        return await self._listed("units", (batch.no, after, at.round, at.phase, limit))

    async def unit_numbers(self, batch: Batch, paths: Collection[str]) -> dict[str, int]:
        folded = sorted({path.casefold() for path in paths})
        values = (batch.no, folded, batch.position.round, batch.position.phase)
        rows = await self._database.read(lambda connection: all_rows(connection, "unit_numbers", values))
        return {row[0]: row[1] for row in rows}

    async def unit_members(self, batch_no: int, unit_no: int) -> list[ListedFile]:
        return await self._listed("unit_members", (batch_no, unit_no))

    async def taken(self, batch_no: int, paths: Collection[str]) -> dict[str, int]:
        if not paths:
            return {}
        values = {"no": batch_no, "paths": sorted(set(paths))}
        rows = await self._database.read(lambda connection: all_rows(connection, "taken_paths", values))
        return {row[0]: row[1] for row in rows}

    async def settled_tasks(self, batch: Batch, *, after: int, limit: int) -> list[SettledTask]:
        async def work(connection: Connection) -> list[Row]:
            before = await first_task(connection, batch) - 1
            return await all_rows(connection, "settled_tasks", (batch.no, max(after, before), limit))

        return [settled_task_of(row) for row in await self._database.read(work)]

    async def _listed(self, query: str, values: Values) -> list[ListedFile]:
        rows = await self._database.read(lambda connection: all_rows(connection, query, values))
        return [listed_of(row) for row in rows]


async def first_task(connection: Connection, batch: Batch) -> int:
    """The first task number of the phase the batch is in, in its round."""
    at = batch.position
    row = await one_row(connection, "first_task", (batch.no, at.round, at.phase))
    return 1 if row is None else int(row[0])
