"""What a new round takes back: tasks are superseded, files made by them leave the list. Nothing is deleted."""

import json
import sqlite3
from collections.abc import Collection

from quire.ledger.sqlite.rows import SQL
from quire.model.batch import Position
from quire.model.pipeline import Unit


def supersede(connection: sqlite3.Connection, batch_no: int, tasks: Collection[int]) -> None:
    """These tasks count no longer."""
    wanted = json.dumps(list(tasks))
    for query in ("uncount_tasks", "uncount_failures"):
        connection.execute(SQL[query], (batch_no, wanted))
    connection.execute(SQL["supersede_tasks"], (batch_no, wanted))


def withdraw(connection: sqlite3.Connection, batch_no: int, files: Collection[int]) -> None:
    """These files, and all tasks on them."""
    wanted = json.dumps(list(files))
    tasks = connection.execute(SQL["tasks_of_files"], (batch_no, wanted)).fetchall()
    supersede(connection, batch_no, [row[0] for row in tasks])
    connection.execute(SQL["withdraw_files"], (batch_no, wanted))


def regather(connection: sqlite3.Connection, batch_no: int, to: Position, unit: Unit) -> None:
    """Units of earlier rounds whose directories have changed, with all that was made of them."""
    old = connection.execute(SQL["regathered_units"], (batch_no, to.phase, to.round, unit)).fetchall()
    if not old:
        return
    units = json.dumps([row[0] for row in old])
    made = connection.execute(SQL["descendants_of"], (batch_no, units)).fetchall()
    withdraw(connection, batch_no, [row[0] for row in made])
