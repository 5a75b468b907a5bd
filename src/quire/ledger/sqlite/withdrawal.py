"""What a new round takes back: tasks are superseded, what they made leaves the list. Nothing is deleted."""

import json
import sqlite3
from collections.abc import Collection

from quire.ledger.sqlite.rows import SQL, fetch_numbers


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
