"""Databases from settings: the one place that chooses between SQLite and PostgreSQL and opens them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from quire.database.sqlite import SqliteDatabase
from quire.settings import Settings

if TYPE_CHECKING:
    from quire.database.postgres import PostgresDatabase


class SqliteFile(Struct, frozen=True):
    path: Path


class PostgresServer(Struct, frozen=True):
    dsn: str
    connections: int


def ledger_address(settings: Settings) -> SqliteFile | PostgresServer:
    """Where the ledger of these settings is."""
    if settings.ledger == "postgres":
        return PostgresServer(settings.postgres.dsn.reveal(), settings.postgres.connections)
    return SqliteFile(settings.home / "quire.db")


@asynccontextmanager
async def open_database(
    address: SqliteFile | PostgresServer,
) -> "AsyncIterator[SqliteDatabase | PostgresDatabase]":
    database = _build_database(address)
    await database.open()
    try:
        yield database
    finally:
        await database.close()


def _build_database(address: SqliteFile | PostgresServer) -> "SqliteDatabase | PostgresDatabase":
    if isinstance(address, SqliteFile):
        return SqliteDatabase(address.path)
    from quire.database.postgres import PostgresDatabase

    return PostgresDatabase(address.dsn, connections=address.connections)
