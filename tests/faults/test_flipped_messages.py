"""Bits that flip at random in stored messages: none of them is ever delivered, and every one is noticed.

On SQLite and PostgreSQL bits of the rows change, of what is sent as well as of its checksum; on SQLite also
bits of the file of a database that has no checksums of its pages; on Redis bits of its append-only file,
which has none either, while the server is down. `FLIPS` is the number of flips in each; `make soak` has more.
"""

import asyncio
import os
import random
import sys
from collections import Counter
from contextlib import asynccontextmanager

import pytest
from tests.servers.postgres import fresh_schema
from tests.servers.redis import restartable_server

from quire.database.postgres import PostgresDatabase
from quire.database.sqlite import SqliteDatabase
from quire.model.errors import QuireError
from quire.queues.port import DAMAGED, Message
from quire.queues.postgres import PostgresQueues
from quire.queues.redis_streams import RedisStreamQueues
from quire.queues.sqlite import SqliteQueues
from quire.system import SystemIds

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
SEED = int(os.environ.get("FLIP_SEED", "20261118"))
FLIPS = int(os.environ.get("FLIPS", "40"))
MESSAGES = 60
SENT = {
    f"m{no:02}": f'{{"number": {no}, "text": "{"words " * (no % 7)}"}}'.encode() for no in range(MESSAGES)
}


def say(text):
    sys.stdout.write(text + "\n")


async def send_all(queues):
    await queues.send("q", [Message(id=name, body=body) for name, body in SENT.items()], now=1.5)


async def lease_all(queues):
    """The ids of what is delivered; the test fails when it is anything else than what was sent."""
    delivered = []
    for one in await queues.lease("q", limit=2 * MESSAGES, seconds=60, now=10):
        assert SENT.get(one.id) == one.body, (SEED, one)
        assert (one.queue, one.priority, one.sent_at) == ("q", 3, 1.5), (SEED, one)
        delivered.append(one.id)
    return delivered


def flip(data, chance):
    changed = bytearray(data)
    bit = chance.randrange(8 * len(changed))
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@asynccontextmanager
async def on_sqlite(path, **more):
    database = SqliteDatabase(path, **more)
    await database.open()
    try:
        queues = SqliteQueues(database, SystemIds())
        await queues.prepare()
        yield database, queues
    finally:
        await database.close()


async def test_flipped_bits_in_rows_on_sqlite(tmp_path):
    """Of FLIPS messages one each: all of these, and no others, become dead letters."""
    chance = random.Random(SEED)
    async with on_sqlite(tmp_path / "quire.db") as (database, queues):
        for number in range(-(-FLIPS // MESSAGES)):
            await send_all(queues)
            chosen = chance.sample(sorted(SENT), min(MESSAGES, FLIPS - number * MESSAGES))

            def change(connection, chosen=chosen):
                for name in chosen:
                    part = chance.choice(["body", "checksum"])
                    read = f"SELECT {part} FROM messages WHERE id = ?"  # noqa: S608
                    (value,) = connection.execute(read, (name,)).fetchone()
                    changed = flip(value, chance) if part == "body" else value ^ 1 << chance.randrange(32)
                    connection.execute(
                        f"UPDATE messages SET {part} = ? WHERE id = ?",  # noqa: S608
                        (changed, name),
                    )

            await database.write(change)
            assert sorted(await lease_all(queues)) == sorted(set(SENT) - set(chosen))
            letters = await queues.list_dead_letters("q", limit=MESSAGES)
            assert {one.id for one in letters} == set(chosen)
            assert all(one.error_class == DAMAGED and one.is_damaged for one in letters)
            await database.write(lambda connection: connection.execute("DELETE FROM messages"))


@pytest.mark.service
async def test_flipped_bits_in_rows_on_postgres(postgres_server):
    chance = random.Random(SEED + 1)
    database = PostgresDatabase(fresh_schema(postgres_server))
    await database.open()
    queues = PostgresQueues(database, SystemIds())
    await queues.prepare()
    for number in range(-(-FLIPS // MESSAGES)):
        await send_all(queues)
        chosen = chance.sample(sorted(SENT), min(MESSAGES, FLIPS - number * MESSAGES))

        async def change(connection, chosen=chosen):
            for name in chosen:
                if chance.random() < 0.3:
                    changed, bit = "checksum = checksum # %s::bigint", 1 << chance.randrange(32)
                else:
                    changed, bit = "body = %s::bytea", flip(SENT[name], chance)
                statement = f"UPDATE messages SET {changed} WHERE id = %s"  # noqa: S608
                await connection.execute(statement.encode(), (bit, name))

        await database.write(change)
        assert sorted(await lease_all(queues)) == sorted(set(SENT) - set(chosen))
        assert {one.id for one in await queues.list_dead_letters("q", limit=MESSAGES)} == set(chosen)
        await database.write(lambda connection: connection.execute("DELETE FROM messages"))
    await database.close()


async def test_flipped_bits_in_the_file_of_an_unprotected_database(tmp_path):
    """Not every flip can be noticed there, but a message that is not what was sent is never delivered."""
    chance, counts = random.Random(SEED + 2), Counter()
    origin, path = tmp_path / "origin.db", tmp_path / "quire.db"
    async with on_sqlite(origin) as (_, queues):
        await send_all(queues)
    whole = origin.read_bytes()
    for _ in range(2 * FLIPS):
        for ending in ("", "-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)
        path.write_bytes(flip(whole, chance))
        counts[await lease_from(path)] += 1
    say(f"{2 * FLIPS} trials with the file of an unprotected database: {dict(counts)}")


async def lease_from(path):
    try:
        async with on_sqlite(path) as (_, queues):
            delivered = await lease_all(queues)
            dead = await queues.count_dead_letters("q")
    except QuireError as error:
        return error.code
    return name_outcome(delivered, dead)


def name_outcome(delivered, dead):
    """Delivery is at least once: a damaged index may bring a message twice."""
    if dead:
        return "dead letter"
    return "all delivered" if set(delivered) == set(SENT) else "some not found"


@pytest.mark.service
def test_flipped_bits_in_the_append_only_file_of_redis(redis_program):
    chance, counts = random.Random(SEED + 3), Counter()
    with restartable_server(redis_program) as server:
        asyncio.run(fill_redis(server.url))
        server.stop()
        (log,) = server.home.rglob("*.aof")
        whole = log.read_bytes()
        for _ in range(max(6, FLIPS // 5)):
            log.write_bytes(flip(whole, chance))
            counts[start_and_lease(server)] += 1
            server.stop()
        log.write_bytes(whole)
        server.start()
        assert asyncio.run(lease_from_redis(server.url)) == "all delivered"
    say(f"{max(6, FLIPS // 5)} trials with the append-only file of Redis: {dict(counts)}")


async def fill_redis(url):
    queues = RedisStreamQueues(url, ids=SystemIds())
    await send_all(queues)
    await queues.close()


def start_and_lease(server):
    try:
        server.start()
    except RuntimeError:
        return "the server refuses"
    return asyncio.run(lease_from_redis(server.url))


async def lease_from_redis(url):
    queues = RedisStreamQueues(url, ids=SystemIds())
    try:
        delivered = await lease_all(queues)
        dead = await queues.count_dead_letters("q")
    finally:
        await queues.close()
    return name_outcome(delivered, dead)
