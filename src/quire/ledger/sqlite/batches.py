"""A batch moves: moves are compare-and-swaps on where it stands."""

import json
import sqlite3
from collections.abc import Collection
from typing import Any

from quire.database.sqlite import SqliteDatabase
from quire.ledger.port import Known, Move, Only
from quire.ledger.rows import read_batch
from quire.ledger.sqlite.rows import (
    SQL,
    encode_batch_numbers,
    encode_pipelines,
    fetch_numbers,
    is_removed,
    load_batch,
    record_event,
)
from quire.ledger.sqlite.uploads import add_outbox_message
from quire.model.batch import TERMINAL, Batch, Position, Stage
from quire.model.errors import Stale


class SqliteBatchStore:
    _database: SqliteDatabase

    async def get_batch(self, batch_id: str) -> Batch:
        return await self._database.read(
            lambda connection: read_batch(
                connection.execute(SQL["batch_by_id"], (batch_id,)).fetchone(), batch_id
            )
        )

    async def take_batches(
        self, member: int, *, limit: int, now: float, only: Only = None, known: Known = None
    ) -> list[Batch]:
        def work(connection: sqlite3.Connection) -> list[Batch]:
            if is_removed(connection, member):
                return []
            taken = fetch_numbers(
                connection, "take", (member, now, encode_batch_numbers(only), limit, encode_pipelines(known))
            )
            return [load_batch(connection, no) for no in sorted(taken)]

        return await self._database.write(work)

    async def release_batch(self, batch_no: int, member: int) -> None:
        await self._database.write(lambda connection: connection.execute(SQL["leave"], (batch_no, member)))

    async def apply_move(self, move: Move) -> Batch:
        return await self._database.write(lambda connection: make_move(connection, move))

    async def postpone_move(
        self, batch_no: int, expect: Position, *, retries: int, until: float, reason: str, now: float
    ) -> None:
        def work(connection: sqlite3.Connection) -> None:
            values = (retries, until, now, batch_no, *_position_columns(expect))
            if not connection.execute(SQL["put_off"], values).rowcount:
                raise Stale(f"batch {batch_no} has moved on from {expect}")
            record_event(connection, batch_no, now, "phase_retry", {"retry": retries, "reason": reason})

        await self._database.write(work)

    async def next_alarm(self, *, now: float, only: Only = None) -> float | None:
        row = await self._database.read(
            lambda connection: connection.execute(
                SQL["next_alarm"], (now, encode_batch_numbers(only))
            ).fetchone()
        )
        return None if row[0] is None else float(row[0])

    async def get_positions(self, batch_nos: Collection[int]) -> dict[int, Position]:
        wanted = json.dumps(list(batch_nos))
        rows = await self._database.read(
            lambda connection: connection.execute(SQL["positions"], (wanted,)).fetchall()
        )
        return {batch_no: Position(Stage(stage), *place) for batch_no, stage, *place in rows}

    async def get_start_message(self, batch_no: int) -> str | None:
        row = await self._database.read(
            lambda connection: connection.execute(SQL["message"], (batch_no,)).fetchone()
        )
        return None if row is None else row[0]


def make_move(connection: sqlite3.Connection, move: Move) -> Batch:
    to, no = move.to, move.batch_no
    changed = connection.execute(
        SQL["move"],
        (
            *(*_position_columns(to), move.status, move.now, move.error),
            *(move.now if to.stage in TERMINAL else None, no, *_position_columns(move.expect)),
        ),
    ).rowcount
    if not changed:
        raise Stale(f"batch {no} has moved on from {move.expect}")
    if move.skips is not None:
        connection.execute(SQL["flow_done_members"], (no,))
        connection.execute(SQL["skip_untouched"], (*move.skips, no, json.dumps(move.left_alone)))
    if move.message is not None:
        add_outbox_message(connection, move.message, move.now)
    if move.event is not None:
        record_event(connection, no, move.now, *move.event)
    if to.stage in TERMINAL:
        connection.execute(SQL["clear_alarm"], (no,))
    return load_batch(connection, no)


def _position_columns(position: Position) -> tuple[Any, ...]:
    return position.stage, position.phase, position.cursor, position.round
