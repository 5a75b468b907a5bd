"""The named queries of this adapter and the few statements that every door needs."""

import json
import sqlite3
from collections.abc import Sequence

from quire.database.sql import queries
from quire.queues.port import DeadLetter, Happening
from quire.queues.rows import Row, dead_letter_of, minute

SQL = queries("quire.queues.sqlite.sql", "queries.sql")


def numbers(given: Sequence[int]) -> str:
    """Many numbers as one value: a statement is the same for any count of them."""
    return json.dumps(given)


def count(
    connection: sqlite3.Connection, queue: str, happening: Happening, number: int, *, now: float
) -> None:
    if number:
        connection.execute(SQL["count"], (queue, minute(now), happening.value, number))


def letter_of(queue: str, row: Row) -> DeadLetter:
    """From the columns of `dead`, up to the history."""
    return dead_letter_of(queue, (*row[:8], json.loads(row[8])))
