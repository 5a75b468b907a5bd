"""The named queries of this adapter, and the two statements that every door needs."""

import json
import sqlite3
from typing import Any

from quire.database.sql import load_queries
from quire.ledger.port import Known, Only
from quire.ledger.rows import OVER_BUDGET, read_batch
from quire.model.batch import Batch

FILES = ("queries", "submissions", "flow", "intake", "adoption")
SQL = load_queries("quire.ledger.sqlite.sql", *(f"{name}.sql" for name in FILES))


def load_batch(connection: sqlite3.Connection, no: int) -> Batch:
    return read_batch(connection.execute(SQL["batch_by_no"], (no,)).fetchone(), no)


def fetch_numbers(connection: sqlite3.Connection, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
    """The first column."""
    return [row[0] for row in connection.execute(SQL[query], values).fetchall()]


def record_event(
    connection: sqlite3.Connection, batch_no: int, at: float, kind: str, data: dict[str, object]
) -> None:
    """An event, with the deliveries to those who want to be told of it."""
    event_no = connection.execute(SQL["insert_event"], (batch_no, at, kind, json.dumps(data))).lastrowid
    connection.execute(SQL["insert_deliveries"], (event_no, batch_no, at, kind))


def hold_over_budget(connection: sqlite3.Connection, batch_no: int, now: float) -> None:
    if connection.execute(SQL["hold_over_budget"], (OVER_BUDGET, batch_no)).rowcount:
        record_event(connection, batch_no, now, "batch_held", {"reason": OVER_BUDGET})


def encode_batch_numbers(only: Only) -> str | None:
    """A choice of batches as statements take it; NULL is all."""
    return None if only is None else json.dumps(sorted(only))


def encode_pipelines(known: Known) -> str | None:
    """A choice of pipelines as statements take it; NULL is all."""
    return None if known is None else json.dumps(sorted(known))


def is_removed(connection: sqlite3.Connection, member: int) -> bool:
    """Taken for dead by others: what it took now would be nobody's when it dies indeed."""
    return connection.execute(SQL["was_dismissed"], (member,)).fetchone() is not None
