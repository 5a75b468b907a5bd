"""Settles and begets in one transaction: results, files that were made, the tasks that follow, counters, the
end of the batch. What follows was planned outside; here numbers are given and rows are written.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import groupby

from quire.ledger.flow_progress import FlowCounters, find_progress
from quire.ledger.flow_rows import EffectRows
from quire.ledger.flow_values import Effects, JoinPart, phase_of
from quire.ledger.port import OutboxMessage, Settlement, SettleResult
from quire.ledger.rows import Row, encode_result
from quire.ledger.settlement_rows import (
    classify_stray,
    count_settlements,
    is_plain_success,
    late_columns,
    settle_columns,
    stray_columns,
    success_columns,
)
from quire.ledger.sqlite.rows import SQL, hold_over_budget, record_event
from quire.ledger.sqlite.uploads import add_outbox_message
from quire.model.batch import Stage, TaskState
from quire.model.work import Outcome

FEW_TASKS = 8
_FINAL = frozenset({TaskState.DONE, TaskState.FAILED})


def settle(
    connection: sqlite3.Connection, batch_no: int, settlements: Sequence[Settlement], now: float
) -> SettleResult:
    row = connection.execute(SQL["flow_batch"], (batch_no,)).fetchone()
    stage, last_file, budgeted, _ = row or ("", 0, False, 0)
    given = len(settlements)
    remember_results(connection, settlements, now)
    if stage == Stage.FLOWING:
        applied = _apply_fence(connection, settlements, now)
    else:
        applied = []
        for settlement in settlements:
            _note_stray(connection, settlement, now)
    if not applied:
        return SettleResult(applied=0, strays=given, phase_ended=False)
    finals = [one for one in applied if one.state in _FINAL]
    rows = EffectRows(batch_no, last_file, read_cursors(connection, batch_no))
    rows.add(one.effects for one in finals if isinstance(one.effects, Effects))
    joins = [one.effects for one in finals if isinstance(one.effects, JoinPart)]
    connection.executemany(SQL["flow_settle_join"], ((batch_no, one.phase, one.file_no) for one in joins))
    _unblock(connection, batch_no, finals)
    write_effects(connection, batch_no, rows, settled=len(finals), now=now)
    _count(connection, batch_no, applied)
    _send_requests(connection, applied, now)
    ended = advance(connection, batch_no, now)
    if budgeted:
        hold_over_budget(connection, batch_no, now)
    return SettleResult(
        applied=len(applied), strays=given - len(applied), phase_ended=ended, created=bool(rows.tasks)
    )


def read_cursors(connection: sqlite3.Connection, batch_no: int) -> dict[int, int]:
    return dict(connection.execute(SQL["flow_cursors"], (batch_no,)).fetchall())


def write_effects(
    connection: sqlite3.Connection, batch_no: int, rows: EffectRows, *, settled: int, now: float
) -> None:
    """`settled`: how many tasks and joins were closed by the same transaction."""
    if rows.files:
        connection.executemany(SQL["flow_insert_file"], rows.files)
    if rows.left_list:
        connection.executemany(SQL["flow_leave_list"], rows.left_list)
    _insert_tasks(connection, rows.tasks)
    if rows.joins:
        connection.executemany(SQL["flow_insert_join"], rows.joins)
    for phase, count in rows.created.items():
        connection.execute(SQL["flow_count_new"], (count, batch_no, phase))
    connection.executemany(SQL["flow_spread"], ((batch_no, root, more) for root, more in rows.spread))
    for query, failures in (("flow_fail_root", rows.failures), ("flow_fail_members", rows.unit_failures)):
        connection.executemany(
            SQL[query],
            ((batch_no, number, why.error_class, why.reason, why.place) for number, why in failures),
        )
    for tries, roots in rows.ended.items():
        _end_walks(connection, batch_no, roots, tries)
    values = (rows.opened - settled, rows.last_file, now, batch_no)
    connection.execute(SQL["flow_count_open"], values)


def _insert_tasks(connection: sqlite3.Connection, tasks: Sequence[Row]) -> None:
    """Tasks that differ in nothing but their documents go in together, which takes half the time."""
    alone: list[Row] = []
    for alike, run in groupby(enumerate(tasks), _find_run):
        rows = [task for _, task in run]
        if alike is None or len(rows) < FEW_TASKS:
            alone += rows
        else:
            batch_no, first, phase, _, branch, tries, _ = rows[0]
            documents = json.dumps([row[3] for row in rows])
            connection.execute(SQL["flow_insert_tasks"], (batch_no, first, phase, documents, branch, tries))
    if alone:
        connection.executemany(SQL["flow_insert_task"], alone)


def _find_run(numbered: tuple[int, Row]) -> tuple[int, ...] | None:
    """Equal for tasks with numbers one after the other that are alike."""
    at, (_, task_no, phase, _, branch, tries, given) = numbered
    return None if given is not None else (task_no - at, phase, branch, tries)


def advance(connection: sqlite3.Connection, batch_no: int, now: float) -> bool:
    """Bring status and stage up to what the counters say; True when there is something for a scheduler."""
    stage, counters = read_counters(connection, batch_no)
    if stage != Stage.FLOWING:
        return False
    progress = find_progress(counters)
    for name in progress.started:
        record_event(connection, batch_no, now, "phase_started", {"phase": name, "round": counters.round})
    target = Stage.ENDING if progress.ends else Stage.FLOWING
    place = (progress.phase, progress.status, progress.wants_move, target, now, batch_no)
    connection.execute(SQL["flow_set_progress"], place)
    return progress.wants_move


def read_counters(connection: sqlite3.Connection, batch_no: int) -> tuple[str, FlowCounters]:
    """The batch's stage, and what its progress is told by."""
    row = connection.execute(SQL["flow_progress"], (batch_no,)).fetchone()
    stage, round_no, phase, sources, open_tasks, waits_at, gathers, has_manifest, joins_at = row
    counters = FlowCounters(
        round=round_no,
        phase=phase,
        sources=sources,
        open_tasks=open_tasks,
        waits_at=waits_at,
        gathers=gathers,
        has_manifest=bool(has_manifest),
        phases=connection.execute(SQL["flow_phases"], (batch_no,)).fetchall(),
        joins_at=joins_at,
    )
    return stage, counters


def remember_results(connection: sqlite3.Connection, settlements: Iterable[Settlement], now: float) -> None:
    """Also those of strays: the work was done, whoever may use it."""
    connection.executemany(
        SQL["remember_result"],
        (
            (one.cache_key, encode_result(one.report.result) or b"", now)
            for one in settlements
            if one.cache_key is not None and one.state is TaskState.DONE
        ),
    )


def _apply_fence(
    connection: sqlite3.Connection, settlements: Sequence[Settlement], now: float
) -> list[Settlement]:
    """Those of current attempts; the others are kept as strays."""
    connection.execute("SAVEPOINT fence")
    plain: list[Settlement] = []
    others: list[Settlement] = []
    for one in settlements:
        (plain if is_plain_success(one) else others).append(one)
    changed = 0
    if plain:
        changed += connection.executemany(SQL["settle_success"], map(success_columns, plain)).rowcount
    if others:
        changed += connection.executemany(SQL["settle_task"], map(settle_columns, others)).rowcount
    applied = list(settlements)
    if changed != len(settlements):
        # Rare: some are not current. Find them one by one, in order, so that a duplicate is seen too.
        connection.execute("ROLLBACK TO fence")
        applied = [one for one in settlements if _apply_one(connection, one, now)]
    connection.execute("RELEASE fence")
    return applied


def _apply_one(connection: sqlite3.Connection, settlement: Settlement, now: float) -> bool:
    if connection.execute(SQL["settle_task"], settle_columns(settlement)).rowcount:
        return True
    if _apply_late_success(connection, settlement):
        return True
    _note_stray(connection, settlement, now)
    return False


def _note_stray(connection: sqlite3.Connection, settlement: Settlement, now: float) -> None:
    report = settlement.report
    row = connection.execute(SQL["task_now"], (report.batch_no, report.task_no)).fetchone()
    kind = classify_stray(report, None if row is None else row[:2])
    connection.execute(SQL["insert_stray"], stray_columns(report, kind, now))


def _apply_late_success(connection: sqlite3.Connection, settlement: Settlement) -> bool:
    """A success of an attempt that was given up for lost time, while the task waits, or has failed and
    nothing that followed has started; beside other steps, while those have not all settled. Its failure is
    kept in the history.
    """
    report, effects = settlement.report, settlement.effects
    row = connection.execute(SQL["task_now"], (report.batch_no, report.task_no)).fetchone()
    if report.outcome is not Outcome.DONE or row is None:
        return False
    _, state, error_class = row
    if state not in {TaskState.WAITING, TaskState.FAILED}:
        return False
    if state == TaskState.FAILED and (effects is None or (isinstance(effects, Effects) and effects.of_unit)):
        return False  # the folder above may have begun
    connection.execute("SAVEPOINT late")
    connection.execute(SQL["keep_attempt"], (report.batch_no, report.task_no))
    taken = connection.execute(SQL["flow_late_success"], (*late_columns(settlement), state)).rowcount
    if taken and state == TaskState.FAILED and isinstance(effects, Effects):
        taken = _take_back_failure(connection, settlement, effects, error_class or "")
    elif taken and state == TaskState.FAILED and isinstance(effects, JoinPart):
        taken = _take_back_branch(connection, settlement, effects, error_class or "")
    if not taken:
        connection.execute("ROLLBACK TO late")
    connection.execute("RELEASE late")
    return bool(taken)


def _take_back_failure(
    connection: sqlite3.Connection, settlement: Settlement, effects: Effects, error_class: str
) -> bool:
    """The failure did not happen: what it let pass is superseded, the input is on its way again. Not when
    somebody has begun with what followed, or when the input has failed elsewhere too.
    """
    batch_no, task_no = settlement.report.batch_no, settlement.report.task_no
    values = (batch_no, effects.parent_no, effects.phase)
    followers = connection.execute(SQL["flow_late_followers"], values).fetchall()
    beside = connection.execute(
        SQL["flow_failed_beside"], (batch_no, effects.root_no, task_no, effects.phase)
    ).fetchone()
    if any(beside) or any(state != TaskState.READY for _, state, _ in followers):
        return False
    numbers = json.dumps([follower_no for follower_no, _, _ in followers])
    connection.execute(SQL["uncount_tasks"], (batch_no, numbers))
    connection.execute(SQL["supersede_tasks"], (batch_no, numbers))
    joins = sum(
        connection.execute(SQL["flow_drop_joins"], (batch_no, phase, effects.parent_no)).rowcount
        for phase in {phase for _, _, phase in followers}
    )
    last_file = connection.execute(SQL["flow_batch"], (batch_no,)).fetchone()[1]
    # The task itself will be counted as settled once more.
    connection.execute(SQL["flow_count_open"], (1 - len(followers) - joins, last_file, 0, batch_no))
    none = (0, -1, 0, 0.0, 0, 0, 0, 0, 0)
    connection.execute(SQL["flow_count_settled"], (*none, batch_no, effects.phase))
    connection.execute(SQL["count_failures"], (batch_no, error_class, -1))
    # Its tries were counted when its walk ended with the failure, and will be when it ends.
    tries = effects.tries or sum(one.tries for one in effects.followers)
    again = (0, 0) if followers else (1, tries)
    connection.execute(SQL["flow_unfail_root"], (batch_no, effects.root_no, *again))
    return True


def _take_back_branch(
    connection: sqlite3.Connection, settlement: Settlement, part: JoinPart, error_class: str
) -> bool:
    """The failure of a step beside others did not happen; what follows is decided when all have settled."""
    batch_no = settlement.report.batch_no
    if not connection.execute(SQL["flow_unsettle_branch"], (batch_no, part.phase, part.file_no)).rowcount:
        return False
    last_file = connection.execute(SQL["flow_batch"], (batch_no,)).fetchone()[1]
    connection.execute(SQL["flow_count_open"], (1, last_file, 0, batch_no))
    connection.execute(SQL["flow_count_settled"], (0, -1, 0, 0.0, 0, 0, 0, 0, 0, batch_no, part.phase))
    connection.execute(SQL["count_failures"], (batch_no, error_class, -1))
    return True


def _end_walks(connection: sqlite3.Connection, batch_no: int, roots: Sequence[int], tries: int) -> None:
    if len(set(roots)) == len(roots):
        connection.execute(SQL["flow_end_walks"], (batch_no, json.dumps(roots), tries))
    else:
        connection.executemany(SQL["flow_end_walk"], ((batch_no, root, tries) for root in roots))


def _unblock(connection: sqlite3.Connection, batch_no: int, finals: Sequence[Settlement]) -> None:
    """Folders above those whose task has settled."""
    units = [
        (batch_no, one.report.task_no)
        for one in finals
        if isinstance(one.effects, Effects) and one.effects.of_unit
    ]
    if units:
        connection.executemany(SQL["flow_unblock"], units)
        connection.executemany(SQL["flow_release_unblocked"], units)
        connection.execute(SQL["set_alarm"], (0, batch_no))


def _count(connection: sqlite3.Connection, batch_no: int, applied: Sequence[Settlement]) -> None:
    by_phase: dict[int, list[Settlement]] = {}
    for one in applied:
        by_phase.setdefault(phase_of(one.report.task_no), []).append(one)
    for phase, some in by_phase.items():
        sums = count_settlements(some)
        connection.execute(SQL["flow_count_settled"], (*sums.columns, batch_no, phase))
        connection.executemany(
            SQL["count_failures"], ((batch_no, kind, count) for kind, count in sums.failures.items())
        )
        if sums.due_at is not None:
            connection.execute(SQL["set_alarm"], (sums.due_at, batch_no))


def _send_requests(connection: sqlite3.Connection, applied: Sequence[Settlement], now: float) -> None:
    """Requests to those who will complete a task: in the transaction that says an answer may come."""
    for one in applied:
        report = one.report
        if one.state is TaskState.EXTERNAL and report.request is not None and report.request.queue:
            name = f"task-{report.batch_no}-{report.task_no}-{report.attempt}"
            message = OutboxMessage(queue=report.request.queue, message_id=name, body=report.request.body)
            add_outbox_message(connection, message, now)
