"""Random sequences of calls: every adapter answers as the queues in memory do."""

import asyncio
import itertools
import uuid
from contextlib import asynccontextmanager

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.servers.postgres import fresh_schema
from tests.simulation.shared.database import SimDatabase
from tests.situations.queue_model import played, plays

from quire.database.postgres import PostgresDatabase
from quire.database.sqlite import SqliteDatabase
from quire.queues.postgres import PostgresQueues
from quire.queues.redis_streams import RedisStreamQueues
from quire.queues.sqlite import SqliteQueues
from quire.testing.time import CountingIds

# Not made smaller when one fails: that takes minutes, and a sequence is short enough to be read.
SETTINGS = settings(
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@asynccontextmanager
async def prepared(database, make):
    await database.open()
    try:
        queues = make(database, CountingIds())
        await queues.prepare()
        yield queues
    finally:
        await database.close()


@asynccontextmanager
async def on_redis(url):
    queues = RedisStreamQueues(url, ids=CountingIds(), prefix=f"test-{uuid.uuid4().hex}")
    try:
        yield queues
    finally:
        await queues.close()


def play_many(opened, examples):
    """All in one store, each sequence in a queue of its own."""
    with asyncio.Runner() as runner:
        queues = runner.run(opened.__aenter__())
        numbers = itertools.count()

        @settings(SETTINGS, max_examples=examples)
        @given(calls=plays())
        def play(calls):
            runner.run(played(queues, calls, queue=f"q{next(numbers)}"))

        try:
            play()
        finally:
            runner.run(opened.__aexit__(None, None, None))


def test_sqlite_answers_as_the_model():
    """Without threads and disk, for many more sequences."""
    play_many(prepared(SimDatabase(), SqliteQueues), 50)


@pytest.mark.slow
def test_sqlite_on_disk_answers_as_the_model(tmp_path):
    play_many(prepared(SqliteDatabase(tmp_path / "quire.db"), SqliteQueues), 25)


@pytest.mark.service
@pytest.mark.slow
def test_postgres_answers_as_the_model(postgres_server):
    play_many(prepared(PostgresDatabase(fresh_schema(postgres_server)), PostgresQueues), 25)


@pytest.mark.service
@pytest.mark.slow
def test_redis_answers_as_the_model(redis_server):
    play_many(on_redis(redis_server), 50)
