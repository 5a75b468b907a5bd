"""The named queries of this adapter and how they are asked."""

import json
from typing import Any

from quire.database.postgres import Connection
from quire.database.sql import queries
from quire.queues.port import DeadLetter
from quire.queues.rows import Row, dead_letter_of

# As bytes: psycopg takes text only where it is written out in the code.
SQL = {name: text.encode() for name, text in queries("quire.queues.postgres.sql", "queries.sql").items()}


async def all_rows(
    connection: Connection, query: str, values: dict[str, Any], *, prepare: bool | None = None
) -> list[Row]:
    # In binary: bodies would come as hexadecimal text, twice as long and to be read again.
    cursor = connection.cursor(binary=True)
    return await (await cursor.execute(SQL[query], values, prepare=prepare)).fetchall()


async def change(connection: Connection, query: str, values: dict[str, Any]) -> int:
    """How many rows it changed."""
    return (await connection.execute(SQL[query], values)).rowcount


def letter_of(queue: str, row: Row) -> DeadLetter:
    """From the columns of `dead`, up to the history."""
    return dead_letter_of(queue, (*row[:8], [json.loads(one) for one in row[8]]))
