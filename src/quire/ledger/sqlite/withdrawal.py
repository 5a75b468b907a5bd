"""What a new round takes back: tasks are superseded, what they made leaves the list. Nothing is deleted."""

import json
import sqlite3
from collections.abc import Collection

from quire.ledger.sqlite.rows import SQL, fetch_numbers
from quire.ledger.values import Unit
from quire.model.batch import Position


def supersede_tasks(connection: sqlite3.Connection, batch_no: int, tasks: Collection[int]) -> None:
    """These tasks count no longer."""
    wanted = json.dumps(list(tasks))
    for query in ("uncount_tasks", "uncount_failures"):
        connection.execute(SQL[query], (batch_no, wanted))
    connection.execute(SQL["supersede_tasks"], (batch_no, wanted))


def withdraw_files(connection: sqlite3.Connection, batch_no: int, files: Collection[int]) -> None:
    """These files, and all tasks on them."""
    wanted = json.dumps(list(files))
    supersede_tasks(connection, batch_no, fetch_numbers(connection, "tasks_of_files", (batch_no, wanted)))
    connection.execute(SQL["withdraw_files"], (batch_no, wanted))


def reset_units(connection: sqlite3.Connection, batch_no: int, to: Position, unit: Unit) -> None:
    """Units of earlier rounds whose directories have changed, with all that was made of them."""
    old = fetch_numbers(connection, "regathered_units", (batch_no, to.phase, to.round, unit))
    if not old:
        return
    units = json.dumps(old)
    withdraw_files(connection, batch_no, fetch_numbers(connection, "descendants_of", (batch_no, units)))
    recompute_outcomes(connection, batch_no, fetch_numbers(connection, "roots_of_members", (batch_no, units)))


def recompute_outcomes(connection: sqlite3.Connection, batch_no: int, roots: Collection[int]) -> None:
    """What is left of these inputs' tasks says how they stand."""
    connection.execute(SQL["judge_anew"], (batch_no, json.dumps(list(roots))))
