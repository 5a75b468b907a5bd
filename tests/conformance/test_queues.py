"""The queue suite on every adapter."""

import pytest

from quire.database.sqlite import SqliteDatabase
from quire.queues.sqlite import SqliteQueues
from quire.testing.queues_suite import QueuesSuite
from quire.testing.time import CountingIds


class TestSqlite(QueuesSuite):
    @pytest.fixture
    async def queues(self, tmp_path):
        database = SqliteDatabase(tmp_path / "quire.db")
        await database.open()
        queues = SqliteQueues(database, CountingIds())
        await queues.prepare()
        yield queues
        await database.close()
