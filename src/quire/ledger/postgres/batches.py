"""A batch moves: the walk's door. What a move writes is in `moving`."""

from collections.abc import Collection

from quire.database.postgres import Connection, PostgresDatabase
from quire.ledger.port import Known, Move, Only
from quire.ledger.postgres.moves import make_move
from quire.ledger.postgres.rows import (
    all_rows,
    change,
    encode_batch_numbers,
    encode_pipelines,
    is_removed,
    numbers,
    one_row,
    record_event,
)
from quire.ledger.rows import Row, read_batch
from quire.model.batch import Batch, Position, Stage
from quire.model.errors import Stale


class PostgresBatchStore:
    _database: PostgresDatabase

    async def get_batch(self, batch_id: str) -> Batch:
        row = await self._database.read(lambda connection: one_row(connection, "batch_by_id", (batch_id,)))
        return read_batch(row, batch_id)

    async def take_batches(
        self, member: int, *, limit: int, now: float, only: Only = None, known: Known = None
    ) -> list[Batch]:
        values = {
            "member": member,
            "limit": limit,
            "now": now,
            "only": encode_batch_numbers(only),
            **encode_pipelines(known),
        }

        async def work(connection: Connection) -> list[Row]:
            if await is_removed(connection, member):
                return []
            taken = await numbers(connection, "take", values)
            return await all_rows(connection, "batches_by_no", (taken,)) if taken else []

        return [read_batch(row, row[0]) for row in await self._database.write(work)]

    async def release_batch(self, batch_no: int, member: int) -> None:
        await self._database.write(lambda connection: change(connection, "leave", (batch_no, member)))

    async def apply_move(self, move: Move) -> Batch:
        return await self._database.write(lambda connection: make_move(connection, move))

    async def postpone_move(
        self, batch_no: int, expect: Position, *, retries: int, until: float, reason: str, now: float
    ) -> None:
        place = (expect.stage.value, expect.phase, expect.cursor, expect.round)

        async def work(connection: Connection) -> None:
            if not await change(connection, "put_off", (retries, until, now, batch_no, *place)):
                raise Stale(f"batch {batch_no} has moved on from {expect}")
            await record_event(connection, batch_no, now, "phase_retry", {"retry": retries, "reason": reason})

        await self._database.write(work)

    async def next_alarm(self, *, now: float, only: Only = None) -> float | None:
        values = {"now": now, "only": encode_batch_numbers(only)}
        row = await self._database.read(lambda connection: one_row(connection, "next_alarm", values))
        return None if row is None or row[0] is None else float(row[0])

    async def get_positions(self, batch_nos: Collection[int]) -> dict[int, Position]:
        values = (list(batch_nos),)
        rows = await self._database.read(lambda connection: all_rows(connection, "positions", values))
        return {batch_no: Position(Stage(stage), *place) for batch_no, stage, *place in rows}

    async def get_start_message(self, batch_no: int) -> str | None:
        row = await self._database.read(lambda connection: one_row(connection, "message", (batch_no,)))
        return None if row is None else row[0]
