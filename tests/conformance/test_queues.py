"""The queue suite on every adapter."""

import psycopg
import pytest
from tests.servers.postgres import fresh_schema

from quire.database.postgres import PostgresDatabase
from quire.database.sqlite import SqliteDatabase
from quire.queues.port import Message
from quire.queues.postgres import PostgresQueues
from quire.queues.sqlite import SqliteQueues
from quire.testing.memory_queues import MemoryQueues
from quire.testing.queues_suite import QueuesSuite
from quire.testing.time import CountingIds


class TestMemory(QueuesSuite):
    """The others are compared with it: it keeps the same promises."""

    @pytest.fixture
    async def queues(self):
        return MemoryQueues()


class TestSqlite(QueuesSuite):
    @pytest.fixture
    async def queues(self, tmp_path):
        database = SqliteDatabase(tmp_path / "quire.db")
        await database.open()
        queues = SqliteQueues(database, CountingIds())
        await queues.prepare()
        yield queues
        await database.close()

    async def test_preparing_may_be_repeated(self, queues):
        await queues.send("q", [Message(id="m", body=b"")], now=0)
        await queues.prepare()
        assert (await queues.depth("q", now=0)).waiting == 1


@pytest.mark.service
class TestPostgres(QueuesSuite):
    @pytest.fixture
    async def database(self, postgres_server):
        database = PostgresDatabase(fresh_schema(postgres_server))
        await database.open()
        yield database
        await database.close()

    @pytest.fixture
    async def queues(self, database):
        queues = PostgresQueues(database, CountingIds())
        await queues.prepare()
        return queues

    @pytest.fixture
    async def told(self, postgres_server):
        """What a listener has heard since it last asked."""
        connection = await psycopg.AsyncConnection.connect(postgres_server, autocommit=True)
        await connection.execute("LISTEN quire")

        async def heard():
            # Notifications come in the order of their commits: what was told before this mark has arrived.
            await connection.execute("NOTIFY quire, 'mark'")
            payloads = []
            async for notice in connection.notifies():
                if notice.payload == "mark":
                    break
                payloads.append(notice.payload)
            return payloads

        yield heard
        await connection.close()

    async def test_preparing_may_be_repeated(self, queues):
        await queues.send("q", [Message(id="m", body=b"")], now=0)
        await queues.prepare()
        assert (await queues.depth("q", now=0)).waiting == 1

    async def test_listeners_are_woken_by_new_messages_and_by_nothing_else(self, queues, told):
        messages = [Message(id=str(n), body=b"") for n in range(3)]
        await queues.send("q", messages, now=0)
        assert await told() == [""]
        await queues.send("q", messages, now=0)
        first, second, third = await queues.lease("q", limit=3, seconds=10, now=1)
        await queues.extend([first], seconds=20, now=2)
        await queues.acknowledge([first], now=2)
        await queues.dead_letter(second, now=2, reason="x")
        assert await told() == []
        await queues.release(third, now=2, delay_seconds=0, error="x")
        assert await told() == [""]
        await queues.replay("q", now=3, limit=9)
        assert await told() == [""]
        await queues.replay("q", now=3, limit=9)
        assert await told() == []
