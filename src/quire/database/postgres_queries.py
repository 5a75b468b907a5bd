"""The named queries of an adapter on PostgreSQL, and how they are run.

Must not know: tables, and what the rows mean.
"""

from typing import Any

from quire.database.postgres import Connection
from quire.database.sql import load_queries

Row = tuple[Any, ...]
Values = tuple[Any, ...] | dict[str, Any]


class PostgresQueries:
    """The queries of some `.sql` files of a package. `texts` has each by its name."""

    def __init__(self, package: str, *files: str, binary: bool = False) -> None:
        """`binary`: for rows with bytes, which come as hexadecimal digits otherwise, twice as long."""
        # As bytes: psycopg takes text only where it is written out in the code.
        self.texts = {name: text.encode() for name, text in load_queries(package, *files).items()}
        self._binary = binary

    async def all_rows(
        self, connection: Connection, query: str, values: Values, *, prepare: bool | None = None
    ) -> list[Row]:
        cursor = connection.cursor(binary=self._binary)
        return await (await cursor.execute(self.texts[query], values, prepare=prepare)).fetchall()

    async def one_row(self, connection: Connection, query: str, values: Values) -> Row | None:
        return await (await connection.execute(self.texts[query], values)).fetchone()

    async def numbers(self, connection: Connection, query: str, values: Values) -> list[Any]:
        """The first column."""
        return [row[0] for row in await self.all_rows(connection, query, values)]

    async def change(self, connection: Connection, query: str, values: Values) -> int:
        """How many rows the query changed. Inside a pipeline that is not known yet: there the answer means
        nothing.
        """
        return (await connection.execute(self.texts[query], values)).rowcount


def clean_text(text: str | None) -> str | None:
    """Without the one character that PostgreSQL refuses: the error text of a tool may hold anything."""
    return text.replace("\0", "\ufffd") if text else text


def clean_row(row: Row) -> Row:
    """Text that PostgreSQL takes: members of enumerations as plain strings, no refused character."""
    return tuple(clean_text(str(value)) if isinstance(value, str) else value for value in row)
