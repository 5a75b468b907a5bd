"""A batch moves: moves are compare-and-swaps, claims and settlements are sets.

Cost per task does not depend on the size of the batch: new tasks are claimed along the primary key from a
cursor, retries from a small partial index, and counters are updated once per set of reports.
"""

import json
import sqlite3
from collections.abc import Collection, Sequence
from typing import Any

from quire.database.sqlite import SqliteDatabase
from quire.ledger.port import Claim, ListedFile, Move, Settled, SettledTask, Settlement
from quire.ledger.rows import (
    attempt_columns,
    batch_of,
    claim_of,
    decode_result,
    encode_result,
    file_columns,
    file_of,
    settle_columns,
    settled_task_of,
    stray_columns,
    tags_column,
)
from quire.ledger.sqlite.intake import send
from quire.ledger.sqlite.rows import SQL, load_batch, note
from quire.model.batch import TERMINAL, Batch, TaskState
from quire.model.errors import Stale
from quire.model.work import Order, StepResult


class SqliteWalk:
    _database: SqliteDatabase

    async def batch(self, batch_id: str) -> Batch:
        return await self._database.read(
            lambda connection: batch_of(
                connection.execute(SQL["batch_by_id"], (batch_id,)).fetchone(), batch_id
            )
        )

    async def apply(self, move: Move) -> Batch:
        return await self._database.write(lambda connection: _apply(connection, move))

    async def files(self, batch_no: int, *, after: int, limit: int) -> list[ListedFile]:
        rows = await self._database.read(
            lambda connection: connection.execute(SQL["listed_files"], (batch_no, after, limit)).fetchall()
        )
        return [ListedFile(row[0], row[1], file_of(row, 2)) for row in rows]

    async def taken(self, batch_no: int, paths: Collection[str]) -> dict[str, int]:
        if not paths:
            return {}
        wanted = json.dumps(sorted(set(paths)))
        return await self._database.read(
            lambda connection: dict(connection.execute(SQL["taken_paths"], (batch_no, wanted)).fetchall())
        )

    async def settled_tasks(self, batch_no: int, *, phase: int, after: int, limit: int) -> list[SettledTask]:
        def work(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
            before = connection.execute(SQL["first_task_of_phase"], (batch_no, phase)).fetchone()[0]
            return connection.execute(
                SQL["settled_tasks"], (batch_no, max(after, before), phase, limit)
            ).fetchall()

        return [settled_task_of(row) for row in await self._database.read(work)]

    async def claim(self, batch_no: int, *, limit: int, now: float) -> list[Claim]:
        rows = await self._database.write(lambda connection: _claim(connection, batch_no, limit, now))
        return [claim_of(batch_no, row) for row in rows]

    async def settle(self, batch_no: int, settlements: Sequence[Settlement], *, now: float) -> Settled:
        return await self._database.write(lambda connection: _settle(connection, batch_no, settlements, now))

    async def give_back(self, orders: Sequence[Order]) -> None:
        rows = [(order.batch_no, order.task_no, order.attempt) for order in orders]
        await self._database.write(lambda connection: connection.executemany(SQL["give_back"], rows))

    async def running(self, batch_no: int) -> list[Claim]:
        def work(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
            phase = load_batch(connection, batch_no).position.phase
            before = connection.execute(SQL["first_task_of_phase"], (batch_no, phase)).fetchone()[0]
            return connection.execute(SQL["running_tasks"], (batch_no, before)).fetchall()

        return [claim_of(batch_no, row) for row in await self._database.read(work)]

    async def cached(self, keys: Collection[str]) -> dict[str, StepResult]:
        wanted = json.dumps(list(keys))
        rows = await self._database.read(
            lambda connection: connection.execute(SQL["cached_results"], (wanted,)).fetchall()
        )
        return {key: decode_result(blob or None) for key, blob in rows}

    async def evict(self, keys: Collection[str]) -> None:
        rows = [(key,) for key in keys]
        await self._database.write(lambda connection: connection.executemany(SQL["evict_result"], rows))


def _apply(connection: sqlite3.Connection, move: Move) -> Batch:
    ended_at = move.now if move.to.stage in TERMINAL else None
    changed = connection.execute(
        SQL["move"],
        (
            *(move.to.stage, move.to.phase, move.to.cursor, move.status, move.now),
            *(move.last_file, move.last_task, move.error, ended_at),
            *(move.batch_no, move.expect.stage, move.expect.phase, move.expect.cursor),
        ),
    ).rowcount
    if not changed:
        raise Stale(f"batch {move.batch_no} has moved on from {move.expect}")
    no, phase = move.batch_no, move.to.phase
    if move.opens_phase is not None:
        connection.execute(SQL["open_phase"], (no, phase, move.opens_phase))
    # What a transformation adds or removes belongs to the phase it comes from.
    made_in = move.expect.phase
    connection.executemany(
        SQL["insert_file"],
        (
            (
                no,
                new.no,
                new.root_no,
                made_in,
                new.added.listed,
                new.added.role,
                *file_columns(new.added.file),
            )
            for new in move.new_files
        ),
    )
    connection.executemany(SQL["retag_file"], ((tags_column(tags), no, file) for file, tags in move.retagged))
    connection.executemany(SQL["retire_file"], ((made_in, no, file) for file in move.gone))
    connection.executemany(SQL["insert_task"], ((no, task, phase, file) for task, file in move.new_tasks))
    if move.new_tasks:
        connection.execute(SQL["count_tasks"], (len(move.new_tasks), no, phase))
    connection.executemany(
        SQL["judge_input"],
        (
            (verdict.tries, verdict.reason, verdict.error_class, verdict.outcome, no, verdict.root_no)
            for verdict in move.verdicts
        ),
    )
    if move.skips is not None:
        connection.execute(SQL["skip_untouched"], (*move.skips, no))
    if move.letter is not None:
        send(connection, move.letter, move.now)
    if move.event is not None:
        note(connection, no, move.now, *move.event)
    return load_batch(connection, no)


def _claim(connection: sqlite3.Connection, batch_no: int, limit: int, now: float) -> list[tuple[Any, ...]]:
    claimed: list[tuple[Any, ...]] = []
    following, last_task, stage = connection.execute(SQL["next_task"], (batch_no,)).fetchone()
    if stage != "working":
        return claimed
    for (task_no,) in connection.execute(SQL["due_tasks"], (batch_no, now, limit)).fetchall():
        connection.execute(SQL["begin_waiting"], (now, batch_no, task_no))
        claimed += connection.execute(SQL["claimed_range"], (batch_no, task_no, task_no + 1)).fetchall()
    end = min(last_task + 1, following + limit - len(claimed))
    if end > following:
        connection.execute(SQL["begin_fresh"], (now, batch_no, following, end))
        connection.execute(SQL["set_next_task"], (end, batch_no))
        claimed += connection.execute(SQL["claimed_range"], (batch_no, following, end)).fetchall()
    return claimed


def _settle(
    connection: sqlite3.Connection, batch_no: int, settlements: Sequence[Settlement], now: float
) -> Settled:
    connection.execute("SAVEPOINT fence")
    changed = connection.executemany(SQL["settle_task"], map(settle_columns, settlements)).rowcount
    strays: list[Settlement] = []
    if changed != len(settlements):
        # Rare: some are not current. Find them one by one, in order, so that a duplicate is seen too.
        connection.execute("ROLLBACK TO fence")
        settlements, strays = _fenced(connection, settlements)
    connection.execute("RELEASE fence")
    connection.executemany(SQL["insert_attempt"], map(attempt_columns, settlements))
    connection.executemany(SQL["insert_stray"], (stray_columns(stray, now) for stray in strays))
    connection.executemany(
        SQL["remember_result"],
        (
            (settlement.cache_key, encode_result(settlement.report.result) or b"", now)
            for settlement in settlements
            if settlement.cache_key is not None and settlement.state is TaskState.DONE
        ),
    )
    done = sum(settlement.state is TaskState.DONE for settlement in settlements)
    failed = sum(settlement.state is TaskState.FAILED for settlement in settlements)
    cached = sum(settlement.cached for settlement in settlements)
    connection.execute(SQL["count_settled"], (done, failed, cached, batch_no, batch_no))
    due = [settlement.due_at for settlement in settlements if settlement.due_at is not None]
    if due:
        connection.execute(SQL["set_alarm"], (batch_no, min(due)))
    ended = connection.execute(SQL["end_phase_when_settled"], (now, batch_no)).rowcount
    return Settled(applied=len(settlements), strays=len(strays), phase_ended=bool(ended))


def _fenced(
    connection: sqlite3.Connection, settlements: Sequence[Settlement]
) -> tuple[list[Settlement], list[Settlement]]:
    applied: list[Settlement] = []
    strays: list[Settlement] = []
    for settlement in settlements:
        current = connection.execute(SQL["settle_task"], settle_columns(settlement)).rowcount
        (applied if current else strays).append(settlement)
    return applied, strays
