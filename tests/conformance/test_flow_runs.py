"""Whole batches that flow, as in the tests of the engine, with the ledger on PostgreSQL."""

import pytest
from tests.servers.postgres import fresh_schema
from tests.unit.engine import test_flow_runs
from tests.unit.engine.conftest import SmallEngine
from tests.unit.engine.test_flow_runs import Runs

from quire.database.postgres import PostgresDatabase
from quire.database.sqlite import SqliteDatabase
from quire.ledger.postgres import PostgresLedger

pytestmark = pytest.mark.service
FILES = """SELECT path, listed FROM files
WHERE batch_no = %s AND gone IS NULL AND role <> 'unit' ORDER BY path COLLATE "C", tags"""

globals().update(
    {name: test for name, test in vars(test_flow_runs).items() if name.lower().startswith("test")}
)


class PostgresRuns(Runs):
    async def files(self, batch):
        async def work(connection):
            return await (await connection.execute(FILES, (batch.no,))).fetchall()

        return await self.small.ledger._database.read(work)


@pytest.fixture
async def small(tmp_path, postgres_server):
    """The queues stay on SQLite."""
    beside = SqliteDatabase(tmp_path / "quire.db")
    database = PostgresDatabase(fresh_schema(postgres_server))
    await beside.open()
    await database.open()
    house = SmallEngine(beside, tmp_path)
    house.ledger = PostgresLedger(database)
    await house.ledger.prepare()
    await house.queues.prepare()
    yield house
    await database.close()
    await beside.close()


@pytest.fixture
def runs(small):
    return PostgresRuns(small)
