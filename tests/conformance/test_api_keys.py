"""The suite of API keys on every adapter, and several processes that record uses at once."""

import asyncio

import pytest
from tests.servers.postgres import fresh_schema
from tests.suites.api_keys_suite import ApiKeySuite, key

from quire.access.postgres import PostgresApiKeyStore
from quire.access.sqlite import SqliteApiKeyStore
from quire.database.postgres import PostgresDatabase
from quire.database.sqlite import SqliteDatabase
from quire.ledger.postgres import PostgresLedger
from quire.ledger.sqlite import SqliteLedger


class TestSqlite(ApiKeySuite):
    @pytest.fixture
    async def api_keys(self, tmp_path):
        database = SqliteDatabase(tmp_path / "quire.db")
        await database.open()
        await SqliteLedger(database).prepare()
        yield SqliteApiKeyStore(database)
        await database.close()


@pytest.fixture
async def databases(postgres_server):
    dsn = fresh_schema(postgres_server)
    both = [PostgresDatabase(dsn) for _ in range(2)]
    for database in both:
        await database.open()
    await PostgresLedger(both[0]).prepare()
    yield both
    for database in both:
        await database.close()


@pytest.mark.service
class TestPostgres(ApiKeySuite):
    @pytest.fixture
    def api_keys(self, databases):
        return PostgresApiKeyStore(databases[0])

    async def test_several_processes_record_uses_of_the_same_keys_at_once(self, databases):
        stores = [PostgresApiKeyStore(database) for database in databases]
        ids = [f"key_{number}" for number in range(20)]
        for one in ids:
            await stores[0].add_key(key(one))
        orders = [ids, ids[::-1]]
        calls = [
            stores[number % 2].record_uses(dict.fromkeys(orders[number % 2], float(number)))
            for number in range(1, 41)
        ]
        await asyncio.gather(*calls)
        assert {one.last_used_at for one in await stores[0].list_keys()} == {40.0}
