"""The suite of webhooks on every adapter, and several processes that send deliveries at once."""

import asyncio

import pytest
from tests.servers.postgres import fresh_schema
from tests.suites.webhooks_suite import WebhookSuite, hook

from quire.database.postgres import PostgresDatabase
from quire.database.sqlite import SqliteDatabase
from quire.events.postgres import PostgresWebhookStore
from quire.events.sqlite import SqliteWebhookStore
from quire.ledger.postgres import PostgresLedger
from quire.ledger.sqlite import SqliteLedger
from quire.testing.factories import draft

EVENTS = 60


class TestSqlite(WebhookSuite):
    @pytest.fixture
    async def database(self, tmp_path):
        database = SqliteDatabase(tmp_path / "quire.db")
        await database.open()
        await SqliteLedger(database).prepare()
        yield database
        await database.close()

    @pytest.fixture
    def ledger(self, database):
        return SqliteLedger(database)

    @pytest.fixture
    def webhooks(self, database):
        return SqliteWebhookStore(database)


@pytest.mark.service
class TestPostgres(WebhookSuite):
    @pytest.fixture
    async def databases(self, postgres_server):
        dsn = fresh_schema(postgres_server)
        both = [PostgresDatabase(dsn) for _ in range(2)]
        for database in both:
            await database.open()
        await PostgresLedger(both[0]).prepare()
        yield both
        for database in both:
            await database.close()

    @pytest.fixture
    def ledger(self, databases):
        return PostgresLedger(databases[0])

    @pytest.fixture
    def webhooks(self, databases):
        return PostgresWebhookStore(databases[0])

    async def test_a_delivery_is_leased_to_one_sender_alone(self, ledger, webhooks, databases):
        await webhooks.add_webhook(hook(kinds=("batch_opened",)))
        for number in range(EVENTS):
            await ledger.open_batch(draft(f"B{number:03}", now=1.0))
        senders = [webhooks, PostgresWebhookStore(databases[1])]
        calls = [
            sender.lease_deliveries(limit=7, now=10.0, lease_seconds=60.0)
            for _ in range(6)
            for sender in senders
        ]
        leased = [one for page in await asyncio.gather(*calls) for one in page]
        assert len({one.no for one in leased}) == len(leased)
        left = await webhooks.lease_deliveries(limit=EVENTS, now=10.0, lease_seconds=60.0)
        assert len(leased) + len(left) == EVENTS
        assert {one.tries for one in leased} == {1}

    async def test_an_event_with_a_delivery_wakes_senders(self, ledger, webhooks, databases):
        heard = asyncio.Event()
        await databases[1].listen(heard.set)
        await webhooks.add_webhook(hook(kinds=("batch_opened",)))
        await ledger.open_batch(draft())
        async with asyncio.timeout(20):
            await heard.wait()
