"""The named queries of this adapter and the statements that every module needs."""

import json
import sqlite3
from collections.abc import Sequence

from quire.database.sql import load_queries
from quire.queues.port import DeadLetter, QueueCounter
from quire.queues.rows import Row, to_dead_letter, to_minute

SQL = load_queries("quire.queues.sqlite.sql", "queries.sql")


def numbers(given: Sequence[int]) -> str:
    """Many numbers as one value: a statement is the same for any count of them."""
    return json.dumps(given)


def count(
    connection: sqlite3.Connection, queue: str, happening: QueueCounter, number: int, *, now: float
) -> None:
    if number:
        connection.execute(SQL["count"], (queue, to_minute(now), happening.value, number))


def read_dead_letter(queue: str, row: Row) -> DeadLetter:
    """From the columns of `dead`, up to the history."""
    *columns, history = row
    return to_dead_letter(queue, (*columns, json.loads(history)))
