"""Tasks go out and come back: claims and settlements are sets.

Cost per task does not depend on the size of the batch: new tasks are claimed along the primary key from a
cursor, retries and ranks from small partial indexes, and counters are updated once per set of reports.
"""

import json
import sqlite3
from collections.abc import Collection, Sequence
from typing import Any

from quire.database.sqlite import SqliteDatabase
from quire.ledger.flow_rows import read_any_claim
from quire.ledger.port import Claim, Known, Only, Settlement, SettleResult, StoredTask, WorkableBatch
from quire.ledger.rows import decode_result, encode_result, read_claim, read_task, read_workable_batch
from quire.ledger.settlement_rows import (
    classify_stray,
    count_settlements,
    is_plain_success,
    late_columns,
    settle_columns,
    stray_columns,
    success_columns,
)
from quire.ledger.sqlite.rows import (
    SQL,
    encode_batch_numbers,
    encode_pipelines,
    fetch_numbers,
    hold_over_budget,
    is_removed,
)
from quire.model.batch import TaskState
from quire.model.work import EarlierResult, Order, Outcome, StepResult

Row = tuple[Any, ...]


class SqliteTaskStore:
    _database: SqliteDatabase

    async def list_workable(
        self, *, limit: int, now: float, only: Only = None, known: Known = None, ageing_seconds: float = 0.0
    ) -> list[WorkableBatch]:
        values = (now, encode_batch_numbers(only), limit, encode_pipelines(known), ageing_seconds)
        rows = await self._database.read(
            lambda connection: connection.execute(SQL["workable"], values).fetchall()
        )
        return [read_workable_batch(row) for row in rows]

    async def claim_tasks(
        self,
        batch_no: int,
        *,
        member: int,
        limit: int,
        now: float,
        pace_seconds: float = 0.0,
        phase: int | None = None,
        round_no: int | None = None,
    ) -> list[Claim]:
        def work(connection: sqlite3.Connection) -> list[Row]:
            claimable = connection.execute(SQL["claimable"], (batch_no, now, phase, round_no)).fetchone()
            if claimable is None or is_removed(connection, member):
                return []
            return _claim(connection, batch_no, claimable, member, limit, now, pace_seconds)

        return [read_claim(batch_no, row) for row in await self._database.write(work)]

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

    async def settle_reports(
        self, batch_no: int, settlements: Sequence[Settlement], *, now: float
    ) -> SettleResult:
        return await self._database.write(lambda connection: _settle(connection, batch_no, settlements, now))

    async def release_claims(self, orders: Sequence[Order]) -> None:
        rows = [(order.batch_no, order.task_no, order.attempt) for order in orders]
        due = [(0, batch_no) for batch_no in {order.batch_no for order in orders}]

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany(SQL["give_back"], rows)
            connection.executemany(SQL["set_alarm"], due)

        await self._database.write(work)

    async def get_task(self, batch_no: int, task_no: int) -> StoredTask:
        row = await self._database.read(
            lambda connection: connection.execute(SQL["task_state"], (batch_no, task_no)).fetchone()
        )
        return read_task(batch_no, row, task_no)

    async def list_running(self, member: int) -> list[Claim]:
        rows = await self._database.read(
            lambda connection: connection.execute(SQL["running_tasks"], (member,)).fetchall()
        )
        return [read_any_claim(batch_no, tuple(claim)) for batch_no, *claim in rows]

    async def load_cached(self, keys: Collection[str]) -> dict[str, StepResult]:
        wanted = json.dumps(list(keys))
        rows = await self._database.read(
            lambda connection: connection.execute(SQL["cached_results"], (wanted,)).fetchall()
        )
        return {key: decode_result(blob or None) for key, blob in rows}

    async def evict_cached(self, keys: Collection[str]) -> None:
        rows = [(key,) for key in keys]
        await self._database.write(lambda connection: connection.executemany(SQL["evict_result"], rows))


def _claim(
    connection: sqlite3.Connection,
    batch_no: int,
    claimable: Row,
    member: int,
    limit: int,
    now: float,
    pace_seconds: float,
) -> list[Row]:
    following, last_task, rank, alarm = claimable
    rang = alarm is not None and alarm <= now
    claimed = _begin_due(connection, batch_no, member, limit, now, rank) if rang else []
    room = limit - len(claimed)
    if rank is None:
        end = min(last_task + 1, following + room)
        if end > following:
            connection.execute(SQL["begin_fresh"], (now, member, batch_no, following, end))
            claimed += connection.execute(SQL["claimed_range"], (batch_no, following, end)).fetchall()
            following = end
    elif room:
        for task_no in fetch_numbers(connection, "ready_of_rank", (batch_no, rank, room)):
            connection.execute(SQL["begin_fresh"], (now, member, batch_no, task_no, task_no + 1))
            claimed += connection.execute(SQL["claimed_range"], (batch_no, task_no, task_no + 1)).fetchall()
    if claimed:
        connection.execute(
            SQL["claimed"], (following, now, now + pace_seconds if pace_seconds else 0, batch_no)
        )
    return claimed


def _begin_due(
    connection: sqlite3.Connection, batch_no: int, member: int, limit: int, now: float, rank: int | None
) -> list[Row]:
    claimed: list[Row] = []
    for task_no in fetch_numbers(connection, "due_tasks", (batch_no, now, limit, rank)):
        connection.execute(SQL["keep_attempt"], (batch_no, task_no))
        connection.execute(SQL["begin_waiting"], (now, member, batch_no, task_no))
        claimed += connection.execute(SQL["claimed_range"], (batch_no, task_no, task_no + 1)).fetchall()
    connection.execute(SQL["clear_alarm"], (batch_no,))
    connection.execute(SQL["set_alarm_to_next_due"], (batch_no,))
    return claimed


def _settle(
    connection: sqlite3.Connection, batch_no: int, settlements: Sequence[Settlement], now: float
) -> SettleResult:
    connection.execute("SAVEPOINT fence")
    plain: list[Settlement] = []
    others: list[Settlement] = []
    for settlement in settlements:
        (plain if is_plain_success(settlement) else others).append(settlement)
    changed = 0
    if plain:
        changed += connection.executemany(SQL["settle_success"], map(success_columns, plain)).rowcount
    if others:
        changed += connection.executemany(SQL["settle_task"], map(settle_columns, others)).rowcount
    strays = 0
    if changed != len(settlements) and settlements:
        # Rare: some are not current. Find them one by one, in order, so that a duplicate is seen too.
        connection.execute("ROLLBACK TO fence")
        given = len(settlements)
        settlements = _apply_fenced(connection, settlements, now)
        strays = given - len(settlements)
    connection.execute("RELEASE fence")
    connection.executemany(
        SQL["remember_result"],
        (
            (settlement.cache_key, encode_result(settlement.report.result) or b"", now)
            for settlement in settlements
            if settlement.cache_key is not None and settlement.state is TaskState.DONE
        ),
    )
    sums = count_settlements(settlements)
    connection.execute(SQL["count_settled"], (*sums.columns, batch_no))
    connection.executemany(
        SQL["count_failures"], ((batch_no, kind, count) for kind, count in sums.failures.items())
    )
    if sums.due_at is not None:
        connection.execute(SQL["set_alarm"], (sums.due_at, batch_no))
    ended = connection.execute(SQL["end_phase_when_settled"], (now, batch_no)).rowcount
    if not ended:
        hold_over_budget(connection, batch_no, now)
        if connection.execute(SQL["next_rank"], (batch_no,)).rowcount:
            connection.execute(SQL["count_rank"], (batch_no,))
            connection.execute(SQL["set_alarm_to_next_due"], (batch_no,))
    return SettleResult(applied=len(settlements), strays=strays, phase_ended=bool(ended))


def _apply_fenced(
    connection: sqlite3.Connection, settlements: Sequence[Settlement], now: float
) -> list[Settlement]:
    """Those that were applied; the others are noted as strays."""
    applied: list[Settlement] = []
    for settlement in settlements:
        current = connection.execute(SQL["settle_task"], settle_columns(settlement)).rowcount
        if current or _apply_late_success(connection, settlement):
            applied.append(settlement)
        else:
            report = settlement.report
            row = connection.execute(SQL["task_now"], (report.batch_no, report.task_no)).fetchone()
            kind = classify_stray(report, None if row is None else row[:2])
            connection.execute(SQL["insert_stray"], stray_columns(report, kind, now))
    return applied


def _apply_late_success(connection: sqlite3.Connection, settlement: Settlement) -> bool:
    """A success of an attempt that was given up for lost time. Its failure is kept in the history."""
    report = settlement.report
    if report.outcome is not Outcome.DONE:
        return False
    row = connection.execute(SQL["task_now"], (report.batch_no, report.task_no)).fetchone()
    if row is None:
        return False
    _, state, error_class = row
    if state not in {TaskState.WAITING, TaskState.FAILED}:
        return False
    connection.execute("SAVEPOINT late")
    connection.execute(SQL["keep_attempt"], (report.batch_no, report.task_no))
    taken = connection.execute(SQL["late_success"], (*late_columns(settlement), state)).rowcount
    if not taken:
        connection.execute("ROLLBACK TO late")
    elif state == TaskState.FAILED:
        connection.execute(SQL["count_settled"], (0, -1, 0, -1, 0, 0, 0, 0, 0, 0, report.batch_no))
        connection.execute(SQL["count_failures"], (report.batch_no, error_class or "", -1))
    connection.execute("RELEASE late")
    return bool(taken)
