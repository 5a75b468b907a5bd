"""Queues out of settings: in the ledger's database or on Redis; and their policies."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from quire.model.errors import Misconfigured
from quire.model.ids import Ids
from quire.model.queues import KNOWN_QUEUES, QueuePolicy, policy_for
from quire.queues.port import QueueStore
from quire.settings import Settings

_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql://", "postgres://")
_REDIS = ("redis://", "rediss://", "unix://")
_WITHDRAWN = "file:"  # queues of objects in a folder, which once could be tried


class Opened(Struct, frozen=True):
    """Queues with what their backend may lose, one text each."""

    queues: QueueStore
    warnings: tuple[str, ...] = ()


def queue_policies(settings: Settings) -> Mapping[str, QueuePolicy]:
    """Those of the known queues and of the queues that have a table, with what the tables say."""
    policies = dict(KNOWN_QUEUES)
    for name in settings.queues:
        policies[name] = tuned(policy_for(name), name, settings)
    return policies


def tuned(policy: QueuePolicy, name: str, settings: Settings) -> QueuePolicy:
    """The policy under this name, with what the queue's table says."""
    table = msgspec.structs.asdict(settings.queues[name]) if name in settings.queues else {}
    said = {key: value for key, value in table.items() if value is not None}
    if "first_delay_seconds" in said or "longest_delay_seconds" in said:
        # Who asks for backoff does not want the exact waits that the queue has otherwise.
        said.setdefault("delays_seconds", ())
    return msgspec.structs.replace(policy, name=name, **said)


@asynccontextmanager
async def open_queues(settings: Settings, ids: Ids, ledgers: QueueStore) -> AsyncIterator[Opened]:
    """`ledgers` are the queues in the ledger's own database: those that are used when nothing is said."""
    if settings.queue_store == "ledger":
        yield Opened(ledgers)
        return
    async with _redis(settings.redis.url.reveal(), ids, settings.redis.prefix) as opened:
        yield opened


@asynccontextmanager
async def open_queues_alone(settings: Settings, ids: Ids) -> AsyncIterator[Opened]:
    """The queues of the house without its ledger; with Redis no database is touched."""
    async with AsyncExitStack() as stack:
        if settings.queue_store == "redis":
            there = _redis(settings.redis.url.reveal(), ids, settings.redis.prefix)
        elif settings.ledger == "postgres":
            there = _postgres(settings.postgres.dsn.reveal(), ids)
        else:
            there = _sqlite(settings.home / "quire.db", ids, keep=True)
        yield await stack.enter_async_context(there)


@asynccontextmanager
async def open_queues_at(url: str, ids: Ids) -> AsyncIterator[Opened]:
    """Queues on any backend; a SQLite file that was not there is gone again afterwards."""
    async with AsyncExitStack() as stack:
        if url.startswith(_SQLITE):
            yield await stack.enter_async_context(_sqlite(Path(unquote(url.removeprefix(_SQLITE))), ids))
        elif url.startswith(_POSTGRES):
            yield await stack.enter_async_context(_postgres(url, ids))
        elif url.startswith(_REDIS):
            yield await stack.enter_async_context(_redis(url, ids, "quire"))
        elif url.startswith(_WITHDRAWN):
            raise Misconfigured(
                "queues in a folder are no longer there: write sqlite:///folder/file.db (four slashes "
                "for an absolute path), postgresql://user@host/database or redis://host:6379/0"
            )
        else:
            # Not quoted: a URL may hold a password.
            raise Misconfigured(
                "this is not the URL of a backend: write sqlite:///folder/file.db (four slashes for an "
                "absolute path), postgresql://user@host/database or redis://host:6379/0"
            )


@asynccontextmanager
async def _sqlite(path: Path, ids: Ids, *, keep: bool = False) -> AsyncIterator[Opened]:
    from quire.database.sqlite import SqliteDatabase
    from quire.queues.sqlite import SqliteQueues

    ours = not _there(path) and not keep
    database = SqliteDatabase(path)
    await database.open()
    try:
        queues = SqliteQueues(database, ids)
        await queues.prepare()
        yield Opened(queues)
    finally:
        await database.close()
        if ours:
            for ending in ("", "-wal", "-shm"):
                path.with_name(path.name + ending).unlink(missing_ok=True)


def _there(path: Path) -> bool:
    if not path.name or not path.parent.is_dir():
        raise Misconfigured(f"there is no folder {path.parent} for the database; make it, or correct the URL")
    return path.exists()


@asynccontextmanager
async def _postgres(dsn: str, ids: Ids) -> AsyncIterator[Opened]:
    from quire.database.postgres import PostgresDatabase
    from quire.queues.postgres import PostgresQueues

    database = PostgresDatabase(dsn, connections=2)
    await database.open()
    try:
        queues = PostgresQueues(database, ids)
        await queues.prepare()
        yield Opened(queues)
    finally:
        await database.close()


@asynccontextmanager
async def _redis(url: str, ids: Ids, prefix: str) -> AsyncIterator[Opened]:
    from quire.queues.redis_streams import RedisStreamQueues

    queues = RedisStreamQueues(url, ids=ids, prefix=prefix)
    try:
        yield Opened(queues, tuple(await queues.probe()))
    finally:
        await queues.close()
