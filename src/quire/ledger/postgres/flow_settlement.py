"""Settles and begets in one transaction: results, files that were made, the tasks that follow, counters, the
end of the batch. What follows was planned outside; here numbers are given and rows are written.

The batch's row is held and the fence is applied in one round trip; all that follows is a second one.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from quire.database.postgres import Connection
from quire.database.postgres_queries import clean_row, clean_text
from quire.ledger.flow_rows import EffectRows
from quire.ledger.flow_values import Effects, JoinPart
from quire.ledger.port import OutboxMessage, Settlement, SettleResult, StrayKind
from quire.ledger.postgres.flow_effects import PhaseTotals, write_effects
from quire.ledger.postgres.flow_late import apply_late_success
from quire.ledger.postgres.flow_progress import HeldFlow, ask_flow, hold_flow, read_flow
from quire.ledger.postgres.rows import (
    SQL,
    add_outbox_message,
    all_rows,
    change,
    columns,
    hold_over_budget,
    notify_listeners,
)
from quire.ledger.rows import encode_result
from quire.ledger.settlement_rows import (
    classify_stray,
    encode_cost,
    is_plain_success,
    settle_columns,
    stray_columns,
)
from quire.model.batch import TaskState

_FINAL = frozenset({TaskState.DONE, TaskState.FAILED})
ALL = (None, None)  # the answer of the fence when every attempt counted
Attempt = tuple[int, int]
Stray = tuple[Settlement, StrayKind]


async def settle(
    connection: Connection, batch_no: int, settlements: Sequence[Settlement], now: float
) -> SettleResult:
    async with connection.pipeline():
        asked = await ask_flow(connection, batch_no)
        fence = await _Fence.send(connection, batch_no, settlements)
    held = await read_flow(batch_no, asked)
    applied, left = await fence.read(settlements)
    late, strays = await _sort_out(connection, batch_no, left, flows=held is not None and held.flows)
    if late:
        applied += late
        held = await hold_flow(
            connection, batch_no
        )  # failures that were taken back have changed its counters
    if held is None or not applied:
        async with connection.pipeline():
            await _keep_strays(connection, strays, now)
            await _remember_results(connection, settlements, now)
        return SettleResult(applied=0, strays=len(strays), phase_ended=False)
    finals = [one for one in applied if one.state in _FINAL]
    await _settle_joins(connection, held, finals)
    rows = EffectRows(batch_no, held.last_file, held.cursors)
    rows.add(one.effects for one in finals if isinstance(one.effects, Effects))
    totals = PhaseTotals(applied)
    held.add_rows(rows)
    held.settle_tasks(totals.settled)
    # Nothing below depends on an answer: sent in one go.
    async with connection.pipeline():
        await _keep_strays(connection, strays, now)
        await _remember_results(connection, settlements, now)
        await write_effects(connection, batch_no, rows)
        await totals.write(connection, batch_no)
        tells = await _unblock(connection, batch_no, finals)
        tells |= await _send_requests(connection, applied, now)
        wants = await held.write(connection, now)
        if held.budgeted:
            await hold_over_budget(connection, batch_no, now)
        if tells or totals.due_at is not None:
            await notify_listeners(connection)
    return SettleResult(applied=len(applied), strays=len(strays), phase_ended=wants, created=bool(rows.tasks))


class _Fence:
    """Only current attempts count, each once: of duplicates the first."""

    def __init__(self, first: dict[Attempt, Settlement], asked: list[tuple[list[Settlement], Any]]) -> None:
        self._first = first
        self._asked = asked

    @classmethod
    async def send(cls, connection: Connection, batch_no: int, settlements: Sequence[Settlement]) -> "_Fence":
        first: dict[Attempt, Settlement] = {}
        for one in settlements:
            first.setdefault(_attempt(one), one)
        plain: list[Settlement] = []
        results: list[Settlement] = []
        others: list[Settlement] = []
        for one in first.values():
            is_success = one.state is TaskState.DONE
            is_plain = is_plain_success(one) and not one.cached
            (plain if is_plain else results if is_success else others).append(one)
        asked = []
        if plain:
            values = _success_values(batch_no, plain)
            asked.append((plain, await connection.execute(SQL["flow_settle_successes"], values)))
        if results:
            values = _success_values(batch_no, results) | _result_values(results)
            asked.append((results, await connection.execute(SQL["flow_settle_results"], values)))
        if others:
            given = columns(clean_row(settle_columns(one)) for one in others)
            asked.append((others, await connection.execute(SQL["flow_settle_others"], (*given, batch_no))))
        return cls(first, asked)

    async def read(self, settlements: Sequence[Settlement]) -> tuple[list[Settlement], list[Settlement]]:
        """Which were applied, in the order they came in, and which were not of a current attempt."""
        missed: set[Attempt] = set()
        for some, answer in self._asked:
            counted = await answer.fetchall()
            if counted != [ALL]:
                missed |= {_attempt(one) for one in some} - set(counted)
        if not missed and len(self._first) == len(settlements):
            return list(settlements), []
        applied: list[Settlement] = []
        left: list[Settlement] = []
        for one in settlements:
            attempt = _attempt(one)
            (left if attempt in missed else applied).append(one)
            missed.add(attempt)
        return applied, left


def _success_values(batch_no: int, settlements: Sequence[Settlement]) -> dict[str, Any]:
    reports = [one.report for one in settlements]
    return {
        "no": batch_no,
        "tasks": [report.task_no for report in reports],
        "attempts": [report.attempt for report in reports],
        "workers": [clean_text(report.worker) for report in reports],
        "starts": [report.started_at for report in reports],
        "seconds": [report.seconds for report in reports],
    }


def _result_values(settlements: Sequence[Settlement]) -> dict[str, Any]:
    return {
        "cached": [one.cached for one in settlements],
        "results": [encode_result(one.report.result) for one in settlements],
        "costs": [encode_cost(one.report.cost) for one in settlements],
    }


def _attempt(settlement: Settlement) -> Attempt:
    return settlement.report.task_no, settlement.report.attempt


async def _sort_out(
    connection: Connection, batch_no: int, left: Sequence[Settlement], *, flows: bool
) -> tuple[list[Settlement], list[Stray]]:
    """Rare: of what is not current, successes that are taken late, and strays."""
    if not left:
        return [], []
    wanted = (batch_no, [one.report.task_no for one in left])
    now = {row[0]: row[1:] for row in await all_rows(connection, "tasks_now", wanted)}
    late: list[Settlement] = []
    strays: list[Stray] = []
    for one in left:
        task = now.get(one.report.task_no)
        if flows and task is not None and await apply_late_success(connection, one, task):
            now[one.report.task_no] = (task[0], TaskState.DONE, None)
            late.append(one)
        else:
            strays.append((one, classify_stray(one.report, task and task[:2])))
    return late, strays


async def _keep_strays(connection: Connection, strays: Sequence[Stray], now: float) -> None:
    if strays:
        rows = (clean_row(stray_columns(one.report, kind, now)) for one, kind in strays)
        await change(connection, "insert_strays", tuple(columns(rows)))


async def _remember_results(connection: Connection, settlements: Sequence[Settlement], now: float) -> None:
    """Also those of strays: the work was done, whoever may use it."""
    kept = {
        one.cache_key: encode_result(one.report.result) or b""
        for one in settlements
        if one.cache_key is not None and one.state is TaskState.DONE
    }
    if kept:
        await change(connection, "remember_results", (now, list(kept), list(kept.values())))


async def _settle_joins(connection: Connection, held: HeldFlow, finals: Sequence[Settlement]) -> None:
    """Steps side by side: one less is waited for."""
    parts = Counter(
        (one.effects.phase, one.effects.file_no) for one in finals if isinstance(one.effects, JoinPart)
    )
    if not parts:
        return
    values = (*columns((*place, count) for place, count in parts.items()), held.batch_no)
    for phase, branches in await all_rows(connection, "flow_settle_joins", values):
        if branches <= 0:
            held.complete_join(phase)


async def _unblock(connection: Connection, batch_no: int, finals: Sequence[Settlement]) -> bool:
    """Folders above those whose task has settled. True when there may be some."""
    units = [one.report.task_no for one in finals if isinstance(one.effects, Effects) and one.effects.of_unit]
    if units:
        await change(connection, "flow_unblock", {"no": batch_no, "tasks": units})
        await change(connection, "set_alarm", (0.0, batch_no))
    return bool(units)


async def _send_requests(connection: Connection, applied: Sequence[Settlement], now: float) -> bool:
    """Requests to those who will complete a task: in the transaction that says an answer may come. True when
    there are some.
    """
    sent = False
    for one in applied:
        report = one.report
        if one.state is TaskState.EXTERNAL and report.request is not None and report.request.queue:
            name = f"task-{report.batch_no}-{report.task_no}-{report.attempt}"
            message = OutboxMessage(queue=report.request.queue, message_id=name, body=report.request.body)
            await add_outbox_message(connection, message, now)
            sent = True
    return sent
