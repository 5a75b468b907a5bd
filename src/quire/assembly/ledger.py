"""Ledger and queues on the database that the settings name."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from quire.access.port import ApiKeyStore
from quire.assembly.queues import open_queues
from quire.database.sqlite import LISTEN_SECONDS, SqliteDatabase
from quire.events.port import WebhookStore
from quire.ledger.port import (
    BatchStore,
    ControlStore,
    FileStore,
    MemberStore,
    OutboxStore,
    RecordStore,
    SubmissionStore,
    TaskStore,
    UploadStore,
)
from quire.ledger.sqlite import SqliteLedger
from quire.model.ids import Ids
from quire.queues.port import QueueStore
from quire.queues.sqlite import SqliteQueues
from quire.settings import Settings

Listen = Callable[[Callable[[], None]], Awaitable[None]]

if TYPE_CHECKING:
    from quire.ledger.postgres import PostgresLedger


class Stores(Struct, frozen=True, kw_only=True):
    """The ledger's ports, and the queues. `listen` has a function called whenever another process has changed
    something.
    """

    batches: BatchStore
    files: FileStore
    uploads: UploadStore
    submissions: SubmissionStore
    tasks: TaskStore
    outbox: OutboxStore
    members: MemberStore
    control: ControlStore
    records: RecordStore
    api_keys: ApiKeyStore
    webhooks: WebhookStore
    queues: QueueStore
    listen: Listen
    warnings: tuple[str, ...] = ()


@asynccontextmanager
async def open_stores(settings: Settings, ids: Ids) -> AsyncIterator[Stores]:
    if settings.ledger == "postgres":
        async with _on_postgres(settings, ids) as stores:
            yield stores
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
            yield _stores(ledger, opened.queues, listen, opened.warnings)
    finally:
        await database.close()


@asynccontextmanager
async def _on_postgres(settings: Settings, ids: Ids) -> AsyncIterator[Stores]:
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
            yield _stores(ledger, opened.queues, database.listen, opened.warnings)
    finally:
        await database.close()


def _stores(
    ledger: "SqliteLedger | PostgresLedger",
    queues: QueueStore,
    listen: Listen,
    warnings: tuple[str, ...],
) -> Stores:
    return Stores(
        batches=ledger,
        files=ledger,
        uploads=ledger,
        submissions=ledger,
        tasks=ledger,
        outbox=ledger,
        members=ledger,
        control=ledger,
        records=ledger,
        api_keys=ledger,
        webhooks=ledger,
        queues=queues,
        listen=listen,
        warnings=warnings,
    )
