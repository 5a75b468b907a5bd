"""The named queries of this adapter, how they are asked, and the two statements that every door needs."""

import json
from collections.abc import Iterable
from typing import Any

from quire.database.postgres import Connection
from quire.database.sql import queries
from quire.ledger.port import Letter
from quire.ledger.rows import Row

# As bytes: psycopg takes text only where it is written out in the code.
SQL = {name: text.encode() for name, text in queries("quire.ledger.sql", "postgres/queries.sql").items()}

Values = tuple[Any, ...] | dict[str, Any]


async def all_rows(connection: Connection, query: str, values: Values) -> list[Row]:
    return await (await connection.execute(SQL[query], values)).fetchall()


async def one_row(connection: Connection, query: str, values: Values) -> Row | None:
    return await (await connection.execute(SQL[query], values)).fetchone()


async def change(connection: Connection, query: str, values: Values) -> int:
    """How many rows it changed."""
    return (await connection.execute(SQL[query], values)).rowcount


def columns(rows: Iterable[Row]) -> list[list[Any]]:
    """Rows as the arrays that `unnest` takes. Not for no rows: their columns cannot be known."""
    return [list(column) for column in zip(*rows, strict=True)]


def readable(text: str | None) -> str | None:
    """Without the one character that PostgreSQL refuses: a tool's last words may hold anything."""
    return text.replace("\0", "\ufffd") if text else text


async def note(connection: Connection, batch_no: int, at: float, kind: str, data: dict[str, object]) -> None:
    await connection.execute(SQL["insert_event"], (batch_no, at, kind, json.dumps(data)))


async def send(connection: Connection, letter: Letter, now: float) -> None:
    await connection.execute(SQL["insert_letter"], (letter.queue, letter.message_id, letter.body, now))
