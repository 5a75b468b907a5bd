"""A batch moves: moves are compare-and-swaps on where it stands."""

import json
import sqlite3
from collections import Counter
from collections.abc import Collection
from typing import Any

from quire.database.sqlite import SqliteDatabase
from quire.ledger.port import InputOutcome, Known, Move, Only
from quire.ledger.rows import encode_tags, file_columns, read_batch
from quire.ledger.sqlite.rows import (
    SQL,
    encode_batch_numbers,
    encode_pipelines,
    fetch_numbers,
    hold_over_budget,
    is_removed,
    load_batch,
    record_event,
)
from quire.ledger.sqlite.uploads import add_outbox_message
from quire.ledger.sqlite.withdrawal import reset_units
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


def find_first_task(connection: sqlite3.Connection, batch: Batch) -> int:
    """The first task number of the phase the batch is in, in its round."""
    at = batch.position
    row = connection.execute(SQL["first_task"], (batch.no, at.round, at.phase)).fetchone()
    return 1 if row is None else int(row[0])


def make_move(connection: sqlite3.Connection, move: Move) -> Batch:
    to, no = move.to, move.batch_no
    changed = connection.execute(
        SQL["move"],
        (
            *(to.stage, to.phase, to.cursor, to.round, move.status, move.now, move.last_file, move.last_task),
            *(move.error, move.now if to.stage in TERMINAL else None, move.dispatch_at, no),
            *_position_columns(move.expect),
        ),
    ).rowcount
    if not changed:
        raise Stale(f"batch {no} has moved on from {move.expect}")
    _change_files(connection, move)
    if move.opens_phase is not None:
        connection.execute(SQL["open_phase"], (no, to.round, to.phase, move.opens_phase))
        connection.execute(SQL["start_claims_at"], (no,))
    if move.regathers is not None:
        reset_units(connection, no, to, move.regathers)
    _add_tasks(connection, move)
    _record_outcomes(connection, move)
    if move.message is not None:
        add_outbox_message(connection, move.message, move.now)
    if move.event is not None:
        record_event(connection, no, move.now, *move.event)
    if to.stage is Stage.WORKING:
        if move.ranked:
            connection.execute(SQL["first_rank"], (no,))
            connection.execute(SQL["count_rank"], (no,))
        # A phase without tasks is over as soon as it begins.
        connection.execute(SQL["end_phase_when_settled"], (move.now, no))
        hold_over_budget(connection, no, move.now)
    elif to.stage in TERMINAL:
        connection.execute(SQL["clear_alarm"], (no,))
    return load_batch(connection, no)


def _position_columns(position: Position) -> tuple[Any, ...]:
    return position.stage, position.phase, position.cursor, position.round


def _change_files(connection: sqlite3.Connection, move: Move) -> None:
    # What a transformation adds or removes belongs to the phase it comes from.
    no, made_in, round_no = move.batch_no, move.expect.phase, move.to.round
    connection.executemany(
        SQL["insert_file"],
        (
            (
                *(no, new.no, new.root_no, made_in, new.added.listed, new.added.role),
                *(*file_columns(new.added.file), new.parent_no, round_no),
            )
            for new in move.new_files
        ),
    )
    connection.executemany(SQL["insert_member"], ((no, unit, file) for unit, file in move.members))
    connection.executemany(
        SQL["fill_unit"], ((unit.key, unit.size, unit.digest, no, unit.file_no) for unit in move.units)
    )
    connection.executemany(SQL["retag_file"], ((encode_tags(tags), no, file) for file, tags in move.retagged))
    connection.executemany(SQL["retire_file"], ((made_in, no, file) for file in move.gone))


def _add_tasks(connection: sqlite3.Connection, move: Move) -> None:
    if not move.new_tasks:
        return
    no, phase, round_no = move.batch_no, move.to.phase, move.to.round
    if move.ranked:
        rows = ((no, task.no, phase, round_no, task.file_no, task.rank) for task in move.new_tasks)
        connection.executemany(SQL["insert_task"], rows)
    else:
        files = json.dumps([task.file_no for task in move.new_tasks])
        connection.execute(SQL["insert_tasks"], (no, move.new_tasks[0].no, phase, round_no, files))
    connection.execute(SQL["count_tasks"], (len(move.new_tasks), no, round_no, phase))
    if move.ranked:
        ranks = Counter(task.rank for task in move.new_tasks)
        connection.executemany(
            SQL["count_ranks"], ((no, round_no, phase, rank, total) for rank, total in ranks.items())
        )


def _record_outcomes(connection: sqlite3.Connection, move: Move) -> None:
    said = Counter(verdict.root_no for verdict in move.verdicts)
    plain: list[int] = []
    rest: list[InputOutcome] = []
    for verdict in move.verdicts:
        if verdict.plainly_done and said[verdict.root_no] == 1:
            plain.append(verdict.root_no)
        else:
            rest.append(verdict)
    if plain:
        connection.execute(SQL["judge_done"], (move.batch_no, json.dumps(plain)))
    for query, of_units in (("judge_input", False), ("judge_members", True)):
        connection.executemany(
            SQL[query],
            (
                (
                    *(verdict.tries, verdict.reason, verdict.error_class, verdict.outcome, move.batch_no),
                    verdict.unit_no if of_units else verdict.root_no,
                )
                for verdict in rest
                if (verdict.unit_no is not None) is of_units
            ),
        )
    if move.skips is not None:
        connection.execute(SQL["flow_done_members"], (move.batch_no,))
        connection.execute(SQL["skip_untouched"], (*move.skips, move.batch_no, json.dumps(move.left_alone)))
