"""Queues from settings or a URL: in a database or on Redis; and their policies.

Every way to open queues goes through `_open`, which alone chooses the backend.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from quire.assembly.database import PostgresServer, SqliteFile, ledger_address, open_database
from quire.assembly.redis_lists import open_routed
from quire.database.sqlite import SqliteDatabase
from quire.model.errors import Misconfigured
from quire.model.ids import Ids
from quire.model.queues import KNOWN_QUEUES, QueuePolicy, policy_for
from quire.queues.port import QueueStore
from quire.settings import Settings

if TYPE_CHECKING:
    from quire.database.postgres import PostgresDatabase
    from quire.queues.postgres import PostgresQueues
    from quire.queues.sqlite import SqliteQueues

CONNECTIONS = 2  # of a process that opens a PostgreSQL database for its queues alone
_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql://", "postgres://")
_REDIS = ("redis://", "rediss://", "unix://")
_WITHDRAWN = "file:"  # queues of objects in a folder, which once could be tried


class OpenQueues(Struct, frozen=True):
    """`warnings`: what the backend may lose, one text each."""

    queues: QueueStore
    warnings: tuple[str, ...] = ()


def queue_policies(settings: Settings) -> Mapping[str, QueuePolicy]:
    """The policies of the known queues and of all queues with a table in the settings."""
    policies = dict(KNOWN_QUEUES)
    for name in settings.queues:
        policies[name] = apply_table(policy_for(name), name, settings)
    return policies


def apply_table(policy: QueuePolicy, name: str, settings: Settings) -> QueuePolicy:
    """The policy under this name, changed as the queue's table in the settings says."""
    table = msgspec.structs.asdict(settings.queues[name]) if name in settings.queues else {}
    chosen = {key: value for key, value in table.items() if value is not None}
    if "first_delay_seconds" in chosen or "longest_delay_seconds" in chosen:
        # A table that sets the backoff replaces the exact delays that the queue has otherwise.
        chosen.setdefault("delays_seconds", ())
    return msgspec.structs.replace(policy, name=name, **chosen)


class RedisServer(Struct, frozen=True):
    url: str
    prefix: str = "quire"


@asynccontextmanager
async def open_queues(
    settings: Settings, ids: Ids, database: "SqliteDatabase | PostgresDatabase"
) -> AsyncIterator[OpenQueues]:
    """For a process that has the ledger's `database` open; queues that are kept there share it."""
    async with (
        _open(_configured_address(settings), ids, database) as opened,
        open_routed(settings, ids, opened.queues) as queues,
    ):
        yield OpenQueues(queues, opened.warnings)


@asynccontextmanager
async def open_queues_alone(settings: Settings, ids: Ids) -> AsyncIterator[OpenQueues]:
    """For a process without a ledger; with Redis no database is opened."""
    async with _open(_configured_address(settings), ids, thorough=True) as opened:
        yield opened


@asynccontextmanager
async def open_queues_at(url: str, ids: Ids) -> AsyncIterator[OpenQueues]:
    """Queues on any backend. A SQLite file that did not exist is removed afterwards."""
    address = _parse_url(url)
    new_file = address.path if isinstance(address, SqliteFile) and not address.path.exists() else None
    try:
        async with _open(address, ids) as opened:
            yield opened
    finally:
        if new_file is not None:
            for ending in ("", "-wal", "-shm"):
                new_file.with_name(new_file.name + ending).unlink(missing_ok=True)


@asynccontextmanager
async def _open(
    address: SqliteFile | PostgresServer | RedisServer,
    ids: Ids,
    database: "SqliteDatabase | PostgresDatabase | None" = None,
    *,
    thorough: bool = False,
) -> AsyncIterator[OpenQueues]:
    """Chooses the backend. `database` is used instead of opening the one at `address`."""
    if isinstance(address, RedisServer):
        from quire.queues.redis_streams import RedisStreamQueues

        on_redis = RedisStreamQueues(address.url, ids=ids, prefix=address.prefix)
        try:
            found = await on_redis.probe()
            yield OpenQueues(
                on_redis, tuple("; ".join(filter(None, (one.detail, one.advice))) for one in found)
            )
        finally:
            await on_redis.close()
        return
    warnings: tuple[str, ...] = ()
    async with AsyncExitStack() as stack:
        if database is None:
            database = await stack.enter_async_context(open_database(address, thorough=thorough))
            warnings = database.warnings
        queues = _build_adapter(database, ids)
        await queues.prepare()
        yield OpenQueues(queues, warnings)


def _build_adapter(
    database: "SqliteDatabase | PostgresDatabase", ids: Ids
) -> "SqliteQueues | PostgresQueues":
    if isinstance(database, SqliteDatabase):
        from quire.queues.sqlite import SqliteQueues

        return SqliteQueues(database, ids)
    from quire.queues.postgres import PostgresQueues

    return PostgresQueues(database, ids)


def _configured_address(settings: Settings) -> SqliteFile | PostgresServer | RedisServer:
    if settings.queue_store == "redis":
        return RedisServer(settings.redis.url.reveal(), settings.redis.prefix)
    address = ledger_address(settings)
    if isinstance(address, PostgresServer):
        return PostgresServer(address.dsn, CONNECTIONS)
    return _check_folder(address)


def _parse_url(url: str) -> SqliteFile | PostgresServer | RedisServer:
    if url.startswith(_SQLITE):
        return _check_folder(SqliteFile(Path(unquote(url.removeprefix(_SQLITE)))))
    if url.startswith(_POSTGRES):
        return PostgresServer(url, CONNECTIONS)
    if url.startswith(_REDIS):
        return RedisServer(url)
    # The URL is not quoted: it may hold a password.
    wrong = (
        "queues in a folder are no longer supported"
        if url.startswith(_WITHDRAWN)
        else "this is not the URL of a queue backend"
    )
    raise Misconfigured(
        f"{wrong}: write sqlite:///folder/file.db (four slashes for an absolute path), "
        "postgresql://user@host/database or redis://host:6379/0"
    )


def _check_folder(file: SqliteFile) -> SqliteFile:
    if not file.path.name or not file.path.parent.is_dir():
        raise Misconfigured(
            f"there is no folder {file.path.parent} for the database; create it, or correct the URL"
        )
    return file
