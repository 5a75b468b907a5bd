"""Reports are folded: the fence, the history, the counters and the end of the phase in one transaction."""

from collections.abc import Sequence

from quire.database.postgres import Connection
from quire.ledger.port import Settled, Settlement
from quire.ledger.postgres.rows import SQL, all_rows, change, columns, one_row, readable
from quire.ledger.rows import Row, attempt_columns, encode_result, settle_columns, stray_columns
from quire.model.batch import TaskState

Attempt = tuple[int, int, int]


async def fold_reports(
    connection: Connection, batch_no: int, settlements: Sequence[Settlement], now: float
) -> Settled:
    await one_row(connection, "lock_batch", (batch_no,))
    applied, strays = await _fenced(connection, settlements)
    # Nothing below depends on an answer: sent in one go.
    async with connection.pipeline():
        if applied:
            attempts = (_plain(attempt_columns(settlement)) for settlement in applied)
            await change(connection, "insert_attempts", tuple(columns(attempts)))
            await _remember(connection, applied, now)
            await _count(connection, batch_no, applied)
        if strays:
            late = (_plain(stray_columns(stray, now)) for stray in strays)
            await change(connection, "insert_strays", tuple(columns(late)))
        ending = await connection.execute(SQL["end_phase_when_settled"], (now, batch_no))
    return Settled(applied=len(applied), strays=len(strays), phase_ended=bool(ending.rowcount))


async def _fenced(
    connection: Connection, settlements: Sequence[Settlement]
) -> tuple[list[Settlement], list[Settlement]]:
    """Which were applied and which were not of a current attempt; of duplicates the first counts."""
    first: dict[Attempt, Settlement] = {}
    for settlement in settlements:
        first.setdefault(_attempt(settlement), settlement)
    if not first:
        return [], []
    rows = (_plain(settle_columns(settlement)) for settlement in first.values())
    current = set(await all_rows(connection, "settle_tasks", tuple(columns(rows))))
    applied: list[Settlement] = []
    strays: list[Settlement] = []
    for settlement in settlements:
        attempt = _attempt(settlement)
        (applied if attempt in current else strays).append(settlement)
        current.discard(attempt)
    return applied, strays


async def _remember(connection: Connection, applied: Sequence[Settlement], now: float) -> None:
    kept = {
        settlement.cache_key: encode_result(settlement.report.result) or b""
        for settlement in applied
        if settlement.cache_key is not None and settlement.state is TaskState.DONE
    }
    if kept:
        await change(connection, "remember_results", (now, list(kept), list(kept.values())))


async def _count(connection: Connection, batch_no: int, applied: Sequence[Settlement]) -> None:
    done = sum(settlement.state is TaskState.DONE for settlement in applied)
    failed = sum(settlement.state is TaskState.FAILED for settlement in applied)
    cached = sum(settlement.cached for settlement in applied)
    await change(connection, "count_settled", (done, failed, cached, batch_no, batch_no))
    due = [settlement.due_at for settlement in applied if settlement.due_at is not None]
    if due:
        await change(connection, "set_alarm", (batch_no, min(due)))


def _attempt(settlement: Settlement) -> Attempt:
    report = settlement.report
    return report.batch_no, report.task_no, report.attempt


def _plain(row: Row) -> Row:
    """Text that PostgreSQL takes: members of enumerations as the strings they are, nothing unreadable."""
    return tuple(readable(str(value)) if isinstance(value, str) else value for value in row)
