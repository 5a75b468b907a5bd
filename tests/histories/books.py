"""The tables of a home, read and changed with nothing of ours in between."""

import sqlite3
from pathlib import Path
from typing import Any, Protocol


class Books(Protocol):
    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """A statement with `?` for each value; what it gives."""
        ...


class SqliteBooks:
    def __init__(self, home: Path) -> None:
        self._file = home / "quire.db"

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self._file, timeout=10)
        try:
            with connection:
                return connection.execute(query, values).fetchall()
        finally:
            connection.close()


class PostgresBooks:
    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        import psycopg

        with psycopg.connect(self._dsn) as connection:
            cursor = connection.execute(query.replace("?", "%s").encode(), values)
            return cursor.fetchall() if cursor.description else []


def load_dump(dsn: str, dump: Path) -> None:
    """A dump of pg_dump --inserts into an empty database."""
    import psycopg

    # Its lines with a backslash are words to psql.
    lines = (line for line in dump.read_text("utf-8").splitlines(keepends=True) if not line.startswith("\\"))
    with psycopg.connect(dsn) as connection:
        connection.execute("".join(lines).encode())
