"""The queue suite on every adapter."""

import json

import psycopg
import pytest

from quire.database.postgres import PostgresDatabase
from quire.database.sqlite import SqliteDatabase
from quire.model.errors import Lost
from quire.queues.port import Message
from quire.queues.postgres import PostgresQueues
from quire.queues.sqlite import SqliteQueues
from quire.testing.postgres_server import fresh_schema
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

    async def test_sending_nothing_is_nothing(self, queues):
        await queues.send("q", [], now=0)
        assert (await queues.depth("q", now=0)).waiting == 0

    async def test_a_body_may_hold_any_byte(self, queues):
        every = bytes(range(256))
        await queues.send("q", [Message(id="m", body=every), Message(id="n", body=b"")], now=0)
        assert [one.body for one in await queues.lease("q", limit=9, seconds=1, now=0)] == [every, b""]

    async def test_messages_of_one_sending_are_delivered_as_given_and_not_by_id(self, queues):
        await queues.send("q", [Message(id=name, body=b"") for name in ("c", "a", "d", "b")], now=0)
        leased = await queues.lease("q", limit=9, seconds=1, now=0)
        assert [one.id for one in leased] == ["c", "a", "d", "b"]

    async def test_what_was_due_first_is_delivered_first_also_when_it_was_sent_last(self, queues):
        await queues.send("q", [Message(id="late", body=b"")], now=0, delay_seconds=9)
        await queues.send("q", [Message(id="soon", body=b"")], now=1)
        leased = await queues.lease("q", limit=9, seconds=1, now=10)
        assert [one.id for one in leased] == ["soon", "late"]

    async def test_a_lease_that_ran_out_cannot_be_extended_but_its_work_still_counts(self, queues):
        await queues.send("q", [Message(id="m", body=b"")], now=0)
        (leased,) = await queues.lease("q", limit=1, seconds=1, now=0)
        with pytest.raises(Lost):
            await queues.extend(leased, seconds=9, now=1)
        await queues.acknowledge(leased, now=2)

    async def test_every_release_and_the_burial_stay_in_the_history(self, queues, database):
        await queues.send("q", [Message(id="m", body=b"")], now=0)
        (first,) = await queues.lease("q", limit=1, seconds=10, now=1)
        await queues.release(first, now=2, delay_seconds=0, error="cut\0off")
        (second,) = await queues.lease("q", limit=1, seconds=10, now=3)
        await queues.bury(second, now=4, reason="poison \udcff")

        async def errors(connection):
            return await (await connection.execute("SELECT errors FROM messages")).fetchone()

        (entries,) = await database.read(errors)
        assert [json.loads(entry) for entry in entries] == [
            {"delivery": 1, "at": 2, "error": "cut\0off"},
            {"delivery": 2, "at": 4, "error": "poison \udcff"},
        ]

    async def test_who_listens_is_told_of_sent_and_released_messages_and_of_nothing_else(self, queues, told):
        messages = [Message(id=str(n), body=b"") for n in range(3)]
        await queues.send("q", messages, now=0)
        assert await told() == [""]
        await queues.send("q", messages, now=0)
        first, second, third = await queues.lease("q", limit=3, seconds=10, now=1)
        await queues.extend(first, seconds=20, now=2)
        await queues.acknowledge(first, now=2)
        await queues.bury(second, now=2, reason="x")
        assert await told() == []
        await queues.release(third, now=2, delay_seconds=0, error="x")
        assert await told() == [""]
