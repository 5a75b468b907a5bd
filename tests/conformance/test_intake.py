"""The suite of the intake on every ledger."""

import pytest
from tests.servers.postgres import fresh_schema
from tests.suites.intake_suite import IntakeSuite

from quire.database.postgres import PostgresDatabase
from quire.database.sqlite import SqliteDatabase
from quire.ledger.postgres import PostgresLedger
from quire.ledger.sqlite import SqliteLedger


class TestSqlite(IntakeSuite):
    @pytest.fixture
    async def ledger(self, tmp_path):
        database = SqliteDatabase(tmp_path / "quire.db")
        await database.open()
        ledger = SqliteLedger(database)
        await ledger.prepare()
        yield ledger
        await database.close()


@pytest.mark.service
class TestPostgres(IntakeSuite):
    @pytest.fixture
    async def ledger(self, postgres_server):
        database = PostgresDatabase(fresh_schema(postgres_server))
        await database.open()
        ledger = PostgresLedger(database)
        await ledger.prepare()
        yield ledger
        await database.close()
