"""The ledger, API keys, webhooks and queues, on the database that the settings name."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from quire.access.port import ApiKeyStore
from quire.access.sqlite import SqliteApiKeyStore
from quire.assembly.database import ledger_address, open_database
from quire.assembly.queues import open_queues
from quire.database.sqlite import LISTEN_SECONDS, SqliteDatabase
from quire.events.port import WebhookStore
from quire.events.sqlite import SqliteWebhookStore
from quire.ledger.intake import IntakeStore
from quire.ledger.port import (
    BatchStore,
    ControlStore,
    FlowStore,
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
from quire.recipes.port import RecipeStore
from quire.recipes.sqlite import SqliteRecipeStore
from quire.settings import Settings

if TYPE_CHECKING:
    from quire.database.postgres import PostgresDatabase
    from quire.ledger.postgres import PostgresLedger
    from quire.recipes.postgres import PostgresRecipeStore

Listen = Callable[[Callable[[], None]], Awaitable[None]]


class Stores(Struct, frozen=True, kw_only=True):
    """The ledger's ports, and the queues. `listen` has a function called whenever another process has changed
    something.
    """

    batches: BatchStore
    uploads: UploadStore
    submissions: SubmissionStore
    intake: IntakeStore
    tasks: TaskStore
    flow: FlowStore
    outbox: OutboxStore
    members: MemberStore
    control: ControlStore
    records: RecordStore
    api_keys: ApiKeyStore
    webhooks: WebhookStore
    recipes: RecipeStore
    queues: QueueStore
    listen: Listen
    warnings: tuple[str, ...] = ()


@asynccontextmanager
async def open_stores(settings: Settings, ids: Ids, *, thorough: bool = False) -> AsyncIterator[Stores]:
    """`thorough`: for processes that work with the ledger for long."""
    async with open_database(ledger_address(settings), thorough=thorough) as database:
        adapters = _choose_adapters(database)
        ledger = adapters.ledger
        await ledger.prepare()
        await adapters.recipes.prepare()
        async with open_queues(settings, ids, database) as opened:
            yield Stores(
                batches=ledger,
                uploads=ledger,
                submissions=ledger,
                intake=ledger,
                tasks=ledger,
                flow=ledger,
                outbox=ledger,
                members=ledger,
                control=ledger,
                records=ledger,
                api_keys=adapters.api_keys,
                webhooks=adapters.webhooks,
                recipes=adapters.recipes,
                queues=opened.queues,
                listen=adapters.listen,
                warnings=(*database.warnings, *opened.warnings),
            )


def choose_records(database: "SqliteDatabase | PostgresDatabase") -> RecordStore:
    """Only to look at what is there: tables are neither created nor changed."""
    return _choose_adapters(database).ledger


class _Adapters(NamedTuple):
    ledger: "SqliteLedger | PostgresLedger"
    api_keys: ApiKeyStore
    webhooks: WebhookStore
    recipes: "SqliteRecipeStore | PostgresRecipeStore"
    listen: Listen


def _choose_adapters(database: "SqliteDatabase | PostgresDatabase") -> _Adapters:
    if isinstance(database, SqliteDatabase):
        # Any write of another process wakes the listener, also one that means nothing to it.
        listen = partial(database.listen, apart_seconds=LISTEN_SECONDS)
        api_keys, webhooks = SqliteApiKeyStore(database), SqliteWebhookStore(database)
        recipes = SqliteRecipeStore(database)
        return _Adapters(SqliteLedger(database), api_keys, webhooks, recipes, listen)
    from quire.access.postgres import PostgresApiKeyStore
    from quire.events.postgres import PostgresWebhookStore
    from quire.ledger.postgres import PostgresLedger
    from quire.recipes.postgres import PostgresRecipeStore

    return _Adapters(
        PostgresLedger(database),
        PostgresApiKeyStore(database),
        PostgresWebhookStore(database),
        PostgresRecipeStore(database),
        database.listen,
    )
