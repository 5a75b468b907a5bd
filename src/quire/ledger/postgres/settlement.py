"""Reports are folded: the fence, the counters, the next rank and the end of the phase in one transaction."""

from collections.abc import Sequence

from quire.database.postgres import Connection
from quire.database.postgres_queries import clean_row, clean_text
from quire.ledger.port import Settlement, SettleResult, StrayKind
from quire.ledger.postgres.rows import (
    SQL,
    all_rows,
    change,
    columns,
    hold_over_budget,
    notify_listeners,
    one_row,
)
from quire.ledger.rows import Row, encode_result
from quire.ledger.settlement_rows import (
    classify_stray,
    count_settlements,
    encode_cost,
    settle_columns,
    stray_columns,
)
from quire.model.batch import TaskState
from quire.model.work import Outcome

Attempt = tuple[int, int, int]


async def settle_reports(
    connection: Connection, batch_no: int, settlements: Sequence[Settlement], now: float
) -> SettleResult:
    batch = await one_row(connection, "lock_batch", (batch_no,))
    ranked, budgeted = batch or (False, False)
    applied, left = await _apply_fenced(connection, settlements)
    late, strays = await _classify_strays(connection, batch_no, left) if left else ([], [])
    applied += late
    sums = count_settlements(applied)
    # Nothing below depends on an answer: sent in one go.
    async with connection.pipeline():
        if strays:
            rows = (clean_row(stray_columns(one.report, kind, now)) for one, kind in strays)
            await change(connection, "insert_strays", tuple(columns(rows)))
        if applied:
            await _cache_results(connection, applied, now)
            await change(connection, "count_settled", (*sums.columns, batch_no))
        if sums.failures:
            kinds = [clean_text(kind) for kind in sums.failures]
            await change(connection, "count_failures", (batch_no, kinds, list(sums.failures.values())))
        if sums.due_at is not None:
            await change(connection, "set_alarm", (sums.due_at, batch_no))
        ending = await connection.execute(SQL["end_phase_when_settled"], (now, batch_no))
        if budgeted:
            await hold_over_budget(connection, batch_no, now)
    ended = bool(ending.rowcount)
    advanced = ranked and not ended and await _advance(connection, batch_no)
    if ended or advanced or sums.due_at is not None:
        await notify_listeners(connection)
    return SettleResult(applied=len(applied), strays=len(strays), phase_ended=ended)


async def _advance(connection: Connection, batch_no: int) -> bool:
    """To the next rank, when the present one is settled."""
    if not await change(connection, "next_rank", (batch_no,)):
        return False
    await change(connection, "count_rank", (batch_no,))
    await change(connection, "set_alarm_to_next_due", (batch_no,))
    return True


async def _apply_fenced(
    connection: Connection, settlements: Sequence[Settlement]
) -> tuple[list[Settlement], list[Settlement]]:
    """Which were applied and which were not of a current attempt; of duplicates the first counts."""
    first: dict[Attempt, Settlement] = {}
    for settlement in settlements:
        first.setdefault(_attempt(settlement), settlement)
    if not first:
        return [], []
    rows = (clean_row(settle_columns(settlement)) for settlement in first.values())
    current = set(await all_rows(connection, "settle_tasks", tuple(columns(rows))))
    applied: list[Settlement] = []
    left: list[Settlement] = []
    for settlement in settlements:
        attempt = _attempt(settlement)
        (applied if attempt in current else left).append(settlement)
        current.discard(attempt)
    return applied, left


async def _classify_strays(
    connection: Connection, batch_no: int, left: Sequence[Settlement]
) -> tuple[list[Settlement], list[tuple[Settlement, StrayKind]]]:
    """Rare: of what is not current, successes that are taken late, and strays."""
    wanted = (batch_no, [settlement.report.task_no for settlement in left])
    now = {row[0]: row[1:] for row in await all_rows(connection, "tasks_now", wanted)}
    late: list[Settlement] = []
    strays: list[tuple[Settlement, StrayKind]] = []
    for settlement in left:
        task = now.get(settlement.report.task_no)
        if task is not None and await _apply_late_success(connection, settlement, task):
            now[settlement.report.task_no] = (task[0], TaskState.DONE, None)
            late.append(settlement)
        else:
            strays.append((settlement, classify_stray(settlement.report, task and task[:2])))
    return late, strays


async def _apply_late_success(connection: Connection, settlement: Settlement, task: Row) -> bool:
    """A success of an attempt that was given up for lost time. Its failure is kept in the history."""
    report = settlement.report
    if report.outcome is not Outcome.DONE or task[1] not in {TaskState.WAITING, TaskState.FAILED}:
        return False
    values = {
        "no": report.batch_no,
        "task_no": report.task_no,
        "attempt": report.attempt,
        "result": encode_result(report.result),
        "worker": clean_text(report.worker),
        "seconds": report.seconds,
        "cost": encode_cost(report.cost),
    }
    if not await change(connection, "late_success", values):
        return False
    if task[1] == TaskState.FAILED:
        await change(connection, "count_settled", (0, -1, 0, -1, 0.0, 0, 0, 0, 0, 0, report.batch_no))
        await change(connection, "count_failures", (report.batch_no, [task[2] or ""], [-1]))
    return True


async def _cache_results(connection: Connection, applied: Sequence[Settlement], now: float) -> None:
    kept = {
        settlement.cache_key: encode_result(settlement.report.result) or b""
        for settlement in applied
        if settlement.cache_key is not None and settlement.state is TaskState.DONE
    }
    if kept:
        await change(connection, "remember_results", (now, list(kept), list(kept.values())))


def _attempt(settlement: Settlement) -> Attempt:
    report = settlement.report
    return report.batch_no, report.task_no, report.attempt
