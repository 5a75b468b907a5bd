"""The books of the house: ledger and queues on the database that the settings name."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

from msgspec import Struct

from quire.assembly.queues import open_queues
from quire.database.sqlite import LISTEN_SECONDS, SqliteDatabase
from quire.ledger.port import Ledger
from quire.ledger.sqlite import SqliteLedger
from quire.model.ids import Ids
from quire.queues.port import QueueStore
from quire.queues.sqlite import SqliteQueues
from quire.settings import Settings


class Books(Struct, frozen=True):
    """`listen` has a function called whenever another process has changed something."""

    ledger: Ledger
    queues: QueueStore
    listen: Callable[[Callable[[], None]], Awaitable[None]]
    warnings: tuple[str, ...] = ()


@asynccontextmanager
async def open_books(settings: Settings, ids: Ids) -> AsyncIterator[Books]:
    if settings.ledger == "postgres":
        async with _on_postgres(settings, ids) as books:
            yield books
        return
    database = SqliteDatabase(settings.home / "quire.db")
    await database.open()
    try:
        ledger, queues = SqliteLedger(database), SqliteQueues(database, ids)
        await ledger.prepare()
        await queues.prepare()
        async with open_queues(settings, ids, queues) as opened:
            # Any write of another process wakes it, also one that is no news to it.
            listen = partial(database.listen, apart_seconds=LISTEN_SECONDS)
            yield Books(ledger, opened.queues, listen, opened.warnings)
    finally:
        await database.close()


@asynccontextmanager
async def _on_postgres(settings: Settings, ids: Ids) -> AsyncIterator[Books]:
    from quire.database.postgres import PostgresDatabase
    from quire.ledger.postgres import PostgresLedger
    from quire.queues.postgres import PostgresQueues

    chosen = settings.postgres
    database = PostgresDatabase(chosen.dsn.reveal(), connections=chosen.connections)
    await database.open()
    try:
        ledger, queues = PostgresLedger(database), PostgresQueues(database, ids)
        await ledger.prepare()
        await queues.prepare()
        async with open_queues(settings, ids, queues) as opened:
            yield Books(ledger, opened.queues, database.listen, opened.warnings)
    finally:
        await database.close()
