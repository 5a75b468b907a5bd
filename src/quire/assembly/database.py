"""Databases from settings: the one place that chooses between SQLite and PostgreSQL and opens them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from quire.database.sqlite import SqliteDatabase
from quire.model.errors import Misconfigured
from quire.model.probe import Probe
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
    address: SqliteFile | PostgresServer, *, thorough: bool = False
) -> "AsyncIterator[SqliteDatabase | PostgresDatabase]":
    """`thorough`: for processes that work with it for long."""
    database = _build_database(address, thorough=thorough)
    await database.open()
    try:
        yield database
    finally:
        await database.close()


async def probe_server(settings: Settings) -> list[Probe]:
    """What the PostgreSQL server protects from. Raises QuireError when it cannot be used."""
    async with open_database(PostgresServer(settings.postgres.dsn.reveal(), 1)) as database:
        if isinstance(database, SqliteDatabase):
            raise Misconfigured("the ledger of these settings is on SQLite")
        warnings = "; ".join(database.warnings)
        return [Probe(name="page checksums", ok=not warnings, detail=warnings or database.name, needed=False)]


def _build_database(
    address: SqliteFile | PostgresServer, *, thorough: bool
) -> "SqliteDatabase | PostgresDatabase":
    if isinstance(address, SqliteFile):
        return SqliteDatabase(address.path, thorough=thorough)
    from quire.database.postgres import PostgresDatabase

    return PostgresDatabase(address.dsn, connections=address.connections)
