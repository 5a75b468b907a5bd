"""Damaged messages on every adapter: a bit of what is stored is changed beside the port."""

import re
import uuid

import msgspec
import pytest
import redis.asyncio as redis
from tests.servers.postgres import fresh_schema

from quire.database.postgres import PostgresDatabase
from quire.database.sqlite import SqliteDatabase
from quire.queues.checksums import UNCHECKED, compute_checksum, seal, unseal
from quire.queues.port import DAMAGED, Message
from quire.queues.postgres import PostgresQueues
from quire.queues.redis_streams import RedisStreamQueues
from quire.queues.sqlite import SqliteQueues
from quire.testing.memory_queues import MemoryQueues
from quire.testing.queues_damage_suite import DamagedMessagesSuite
from quire.testing.time import CountingIds


def flip(data, bit=11):
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


# In bits from where the body begins in what is stored; the checksum is in front of it.
PLACES = {"body": 11, "checksum": -3}
# Of the checksum at the end of a dump: the reflected polynomial of Redis.
POLYNOMIAL = 0x95AC9329AC4BC9B5


def renew(dumped):
    """The dump of a key with the checksum that belongs to its bytes."""
    total = 0
    for byte in dumped[:-8]:
        total ^= byte
        for _ in range(8):
            total = total >> 1 ^ POLYNOMIAL * (total & 1)
    return dumped[:-8] + total.to_bytes(8, "little")


class TestMemory(DamagedMessagesSuite):
    @pytest.fixture
    async def queues(self):
        return MemoryQueues()

    @pytest.fixture
    def damage(self, queues):
        async def change(queue, message_id, part):
            state = queues._find_queue(queue)
            if message_id in state.dead:
                letter = state.dead[message_id]
                state.dead[message_id] = msgspec.structs.replace(letter, body=flip(letter.body))
                return
            entry = state.messages[message_id]
            if part == "checksum":
                entry.checksum ^= 4
            else:
                entry.message = Message(id=message_id, body=flip(entry.message.body))

        return change


class TestSqlite(DamagedMessagesSuite):
    @pytest.fixture
    async def database(self, tmp_path):
        database = SqliteDatabase(tmp_path / "quire.db")
        await database.open()
        yield database
        await database.close()

    @pytest.fixture
    async def queues(self, database):
        queues = SqliteQueues(database, CountingIds())
        await queues.prepare()
        return queues

    @pytest.fixture
    def damage(self, database):
        async def change(queue, message_id, part):
            def work(connection):
                named = (queue, message_id)
                where = "WHERE queue = ? AND id = ?"
                body, checksum = connection.execute(
                    f"SELECT body, checksum FROM messages {where}",  # noqa: S608
                    named,
                ).fetchone()
                if part == "body":
                    body = flip(body)
                else:
                    checksum ^= 4
                connection.execute(
                    f"UPDATE messages SET body = ?, checksum = ? {where}",  # noqa: S608
                    (body, checksum, *named),
                )

            await database.write(work)

        return change

    @pytest.mark.parametrize("value", [None, "text", b"\0", 1.5])
    async def test_a_row_without_a_valid_checksum_is_damaged(self, database, queues, value):
        await queues.send("q", [Message(id="m", body=b"x")], now=0)
        await database.write(
            lambda connection: connection.execute("UPDATE messages SET checksum = ?", (value,))
        )
        assert await queues.lease("q", limit=1, seconds=9, now=1) == []
        assert await queues.count_dead_letters("q") == {DAMAGED: 1}

    @pytest.mark.parametrize("column", ["id", "body", "sent_at"])
    async def test_a_row_that_holds_values_of_other_types_is_damaged(self, database, queues, column):
        await queues.send("q", [Message(id="m", body=b"x")], now=0)
        await database.write(
            lambda connection: connection.execute(f"UPDATE messages SET {column} = x'0102'")  # noqa: S608
        )
        assert await queues.lease("q", limit=1, seconds=9, now=1) == []
        assert await queues.count_dead_letters("q") == {DAMAGED: 1}


@pytest.mark.service
class TestPostgres(DamagedMessagesSuite):
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
    def damage(self, database):
        async def change(queue, message_id, part):
            changed = "body = set_bit(body, 11, 1 - get_bit(body, 11))"
            if part == "checksum":
                changed = "checksum = checksum # 4"
            statement = f"UPDATE messages SET {changed} WHERE queue = %s AND id = %s"  # noqa: S608
            await database.write(
                lambda connection: connection.execute(statement.encode(), (queue, message_id))
            )

        return change


@pytest.mark.service
class TestRedis(DamagedMessagesSuite):
    @pytest.fixture
    def prefix(self):
        return f"test-{uuid.uuid4().hex}"

    @pytest.fixture
    async def queues(self, redis_server, prefix):
        queues = RedisStreamQueues(redis_server, ids=CountingIds(), prefix=prefix)
        yield queues
        await queues.close()

    @pytest.fixture
    async def damage(self, redis_server, prefix):
        """Rewrites a key through its dump, whose own checksum is renewed."""
        client = redis.Redis.from_url(redis_server)
        await client.config_set("rdbcompression", "no")

        async def change(queue, message_id, part):
            marked = f"body of {message_id}".encode()
            found = 0
            for name in [key async for key in client.scan_iter(match=f"{{{prefix}:{queue}}}:*")]:
                dumped = await client.dump(name)
                # A stream keeps the bytes of deleted entries for a while: every copy is changed.
                for place in re.finditer(re.escape(marked), dumped):
                    dumped = flip(dumped, 8 * place.start() + PLACES[part])
                    found += 1
                await client.restore(name, 0, renew(dumped), replace=True)
            assert found

        yield change
        await client.aclose()

    async def test_a_message_of_an_earlier_version_is_delivered(self, queues):
        sent = ("0.0", "0.0", "old", b"body of old", 3)
        await queues._server.run("send", queues._keys.of("q"), *sent)
        (leased,) = await queues.lease("q", limit=9, seconds=9, now=1)
        assert (leased.id, leased.body) == ("old", b"body of old")


async def test_a_seal_that_is_nearly_one_is_a_damaged_one():
    sealed = seal(b"{}", compute_checksum("q", "m", 3, 0, b"{}"))
    for bit in range(64):
        stored = flip(sealed, bit)
        assert unseal(stored) == (stored, None)
    for body in (
        b"",
        b"{}",
        b'{"batch_id":"x"}',
        "{\U0001f600é}".encode() * 3,
        b"\xff\xd8\xff\xe0\0\x10JFIF",
    ):
        assert unseal(body) == (body, UNCHECKED)
