"""A database as a statement sees it, to compare what migrations make with what `schema.sql` shows."""

import re
import sqlite3
from importlib import resources
from typing import Any


def shown_schema(package: str) -> str:
    """The whole schema of a room as it is written for people."""
    return resources.files(package).joinpath("schema.sql").read_text(encoding="utf-8")


def sqlite_tables(connection: sqlite3.Connection) -> dict[str, Any]:
    """Everything about tables, indexes and views that a statement could see."""
    found: dict[str, Any] = {}
    for kind, name, text in connection.execute(
        "SELECT type, name, sql FROM sqlite_master "
        "WHERE name NOT LIKE 'sqlite%' AND name <> 'migrations' AND tbl_name <> 'migrations'"
    ).fetchall():
        if kind == "table":
            found[name] = (
                connection.execute(f"PRAGMA table_info({name})").fetchall(),
                sorted(row[1:] for row in connection.execute(f"PRAGMA index_list({name})")),
                connection.execute("SELECT wr FROM pragma_table_list WHERE name = ?", (name,)).fetchall(),
                "AUTOINCREMENT" in text,
            )
        else:
            found[name] = re.sub(r"\s+", " ", text)
    return found


async def postgres_tables(connection: Any) -> dict[str, Any]:
    """Everything that a statement could see: tables, indexes, views, sequences; schema names left out."""

    async def rows(query: str) -> list[Any]:
        return sorted(await (await connection.execute(query)).fetchall())

    return {
        "columns": await rows(
            "SELECT table_name::text, ordinal_position::int, column_name::text, data_type::text, "
            "is_nullable::text, coalesce(column_default, ''), is_identity::text, "
            "coalesce(identity_generation, ''), coalesce(collation_name, '')::text "
            "FROM information_schema.columns "
            "WHERE table_schema = current_schema() AND table_name <> 'migrations'"
        ),
        "indexes": await rows(
            "SELECT replace(indexdef, current_schema() || '.', '') FROM pg_indexes "
            "WHERE schemaname = current_schema() AND tablename <> 'migrations'"
        ),
        "constraints": await rows(
            "SELECT r.relname::text, c.conname::text, pg_get_constraintdef(c.oid) "
            "FROM pg_constraint c JOIN pg_class r ON r.oid = c.conrelid "
            # What may be NULL is told by the columns; newer servers give it a name too, after an old column.
            "WHERE c.connamespace = current_schema()::regnamespace AND r.relname <> 'migrations' "
            "AND c.contype <> 'n'"
        ),
        "views": await rows(
            "SELECT viewname::text, definition FROM pg_views WHERE schemaname = current_schema()"
        ),
        "sequences": await rows(
            "SELECT sequencename::text, data_type::text, coalesce(last_value, 0) FROM pg_sequences "
            "WHERE schemaname = current_schema()"
        ),
    }
