"""A new round of a batch that flows: failed tasks run again in their own rows, and what was made of their
documents since is withdrawn. Nothing is deleted; branches that are done keep their results.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from quire.ledger.flow_rows import judge_roots
from quire.ledger.sqlite.flow_settlement import advance
from quire.ledger.sqlite.rows import SQL, fetch_numbers, record_event
from quire.ledger.sqlite.withdrawal import supersede_tasks, withdraw_files
from quire.ledger.values import TaskSelection
from quire.model.batch import Batch
from quire.model.errors import Stale
from quire.model.pipelines import stored_plan

Row = tuple[Any, ...]


def retry(
    connection: sqlite3.Connection,
    batch: Batch,
    selection: TaskSelection,
    waiting: Sequence[int],
    names: Sequence[str],
    now: float,
) -> int:
    """How many tasks run again. `waiting` are the phases about folders or the batch, `names` of all phases.
    Raises Stale when the batch is no longer where it was seen.
    """
    no = batch.no
    connection.execute(SQL["adoption_attempts_of_failed"], (no,))
    connection.execute(SQL["adoption_failed"], (no,))
    connection.execute(SQL["again_drop_chosen"])  # of one that was rolled back
    connection.execute(SQL["again_select"], (no, selection.error_class, selection.path))
    chosen = connection.execute(SQL["flow_chosen"]).fetchall()
    connection.execute(SQL["again_drop_chosen"])
    if not chosen:
        raise Stale(f"batch {no}: there is nothing to retry any more", code="wrong_state")
    first = min(phase for _, _, phase, _, _ in chosen)
    waits_at = next((at for at in waiting if at >= first), None)
    values = (first, names[first - 1], waits_at, now, no, batch.position.round)
    if not connection.execute(SQL["flow_retry_batch"], values).rowcount:
        raise Stale(f"batch {no}: it has been started again", code="wrong_state")
    started = {"phase": names[first - 1], "round": batch.position.round + 1}
    record_event(connection, no, now, "phase_started", started)
    touched = _withdraw_units(connection, no, waits_at) if waits_at is not None else set()
    for _, file_no, phase, role, _ in chosen:
        if role != "unit":
            _withdraw_since(connection, no, file_no, phase)
    again = _still_failed(connection, no, [task_no for task_no, _, _, role, _ in chosen if role != "unit"])
    _try_again(connection, no, again)
    documents = Counter(root for root, _ in {(root, file_no) for _, file_no, _, root, _ in again})
    rejudge(connection, batch, {root for *_, root in chosen if root} | touched, documents)
    connection.execute(SQL["flow_recount_open"], (no,))
    connection.execute(SQL["set_alarm"], (0, no))
    advance(connection, no, now)
    return len(chosen)


def rejudge(
    connection: sqlite3.Connection, batch: Batch, roots: Collection[int], documents: Counter[int]
) -> None:
    """What is left of these inputs' tasks says how they stand; `documents` are on their way again."""
    batch_no, wanted = batch.no, json.dumps(sorted(roots))
    failed = connection.execute(SQL["flow_failures_of_roots"], (batch_no, wanted)).fetchall()
    done = set(fetch_numbers(connection, "flow_has_done", (batch_no, wanted)))
    rows = judge_roots(stored_plan(batch), sorted(roots), failed, done, documents)
    connection.executemany(SQL["flow_rejudge"], ((batch_no, *row) for row in rows))


def _withdraw_units(connection: sqlite3.Connection, batch_no: int, phase: int) -> set[int]:
    """All units from this phase on, with what was made of them; the inputs whose end they have told."""
    units = fetch_numbers(connection, "flow_units_from", (batch_no, phase))
    if not units:
        return set()
    wanted = json.dumps(units)
    touched = set(fetch_numbers(connection, "roots_of_members", (batch_no, wanted)))
    withdraw_files(connection, batch_no, fetch_numbers(connection, "descendants_of", (batch_no, wanted)))
    return touched


def _withdraw_since(connection: sqlite3.Connection, batch_no: int, file_no: int, phase: int) -> None:
    made = fetch_numbers(connection, "flow_made_since", (batch_no, file_no, phase))
    withdraw_files(connection, batch_no, made)
    later = fetch_numbers(connection, "flow_tasks_after", (batch_no, file_no, phase))
    supersede_tasks(connection, batch_no, later)
    connection.execute(SQL["flow_back_in_list"], (batch_no, file_no, phase))


def _still_failed(connection: sqlite3.Connection, batch_no: int, tasks: Collection[int]) -> list[Row]:
    """Those that an earlier one of the same document did not supersede."""
    values = (batch_no, json.dumps(list(tasks)))
    return connection.execute(SQL["flow_still_failed"], values).fetchall()


def _try_again(connection: sqlite3.Connection, batch_no: int, again: Sequence[Row]) -> None:
    for task_no, file_no, phase, _, error_class in again:
        connection.execute(SQL["keep_attempt"], (batch_no, task_no))
        connection.execute(SQL["flow_try_again"], (batch_no, task_no))
        connection.execute(SQL["flow_uncount_failed"], (1, batch_no, phase))
        connection.execute(SQL["count_failures"], (batch_no, error_class, -1))
        connection.execute(SQL["flow_rejoin"], (batch_no, phase, file_no))
