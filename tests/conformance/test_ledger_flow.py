"""The suites of batches that flow, on every adapter of the ledger."""

import pytest
from tests.servers.postgres import fresh_schema
from tests.suites.ledger_adoption_suite import AdoptionSuite
from tests.suites.ledger_flow_control_suite import FlowControlSuite
from tests.suites.ledger_flow_joins_suite import FlowJoinSuite
from tests.suites.ledger_flow_settle_suite import FlowExternalSuite, FlowLateSuite, FlowSettleSuite
from tests.suites.ledger_flow_suite import FlowClaimSuite, FlowIntakeSuite
from tests.suites.ledger_flow_units_suite import FlowUnitSuite

from quire.database.postgres import PostgresDatabase
from quire.database.sqlite import SqliteDatabase
from quire.ledger.postgres import PostgresLedger
from quire.ledger.sqlite import SqliteLedger


class FlowSuites(
    FlowIntakeSuite,
    FlowClaimSuite,
    FlowSettleSuite,
    FlowLateSuite,
    FlowExternalSuite,
    FlowJoinSuite,
    FlowUnitSuite,
    FlowControlSuite,
    AdoptionSuite,
):
    """Needs `select` and `execute` beside `ledger`: a query gives its rows, a statement is run."""


class TestSqlite(FlowSuites):
    @pytest.fixture
    async def ledger(self, tmp_path):
        database = SqliteDatabase(tmp_path / "quire.db")
        await database.open()
        ledger = SqliteLedger(database)
        await ledger.prepare()
        yield ledger
        await database.close()

    @pytest.fixture
    def select(self, ledger):
        return lambda query: ledger._database.read(lambda connection: connection.execute(query).fetchall())

    @pytest.fixture
    def execute(self, ledger):
        return lambda statement: ledger._database.write(lambda connection: connection.execute(statement))


@pytest.mark.service
class TestPostgres(FlowSuites):
    @pytest.fixture
    async def ledger(self, postgres_server):
        database = PostgresDatabase(fresh_schema(postgres_server))
        await database.open()
        ledger = PostgresLedger(database)
        await ledger.prepare()
        yield ledger
        await database.close()

    @pytest.fixture
    def select(self, ledger):
        async def rows(query):
            async def work(connection):
                return await (await connection.execute(query)).fetchall()

            return await ledger._database.read(work)

        return rows

    @pytest.fixture
    def execute(self, ledger):
        return lambda statement: ledger._database.write(lambda connection: connection.execute(statement))
