"""The ledger suite on every adapter."""

import pytest
from msgspec import structs

from quire.database.postgres import PostgresDatabase
from quire.database.sqlite import SqliteDatabase
from quire.ledger.postgres import PostgresLedger
from quire.ledger.sqlite import SqliteLedger
from quire.testing.ledger_situations import ME, erred, started
from quire.testing.ledger_suite import LedgerSuite
from quire.testing.postgres_server import fresh_schema


class TestSqlite(LedgerSuite):
    @pytest.fixture
    async def ledger(self, tmp_path):
        database = SqliteDatabase(tmp_path / "quire.db")
        await database.open()
        ledger = SqliteLedger(database)
        await ledger.prepare()
        yield ledger
        await database.close()


@pytest.mark.service
class TestPostgres(LedgerSuite):
    @pytest.fixture
    async def ledger(self, postgres_server):
        database = PostgresDatabase(fresh_schema(postgres_server))
        await database.open()
        ledger = PostgresLedger(database)
        await ledger.prepare()
        yield ledger
        await database.close()

    async def test_a_reason_may_hold_what_the_server_refuses(self, ledger):
        batch = await started(ledger, files=1)
        (claim,) = await ledger.claim(batch.no, member=ME, limit=1, now=10.0)
        failed = erred(claim, due_at=None)
        told = structs.replace(failed.report, error="cut\0off")
        await ledger.settle(batch.no, [structs.replace(failed, report=told)], now=11.0)
        (task,) = await ledger.settled_tasks(batch, after=0, limit=9)
        assert task.error == "cut\ufffdoff"
