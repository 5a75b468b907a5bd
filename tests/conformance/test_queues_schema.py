"""The queues' tables: migrations make what `schema.sql` shows, old messages go on, leasing stays short."""

import json

import pytest
from tests.servers.postgres import fresh_schema
from tests.situations.schemas import postgres_tables, shown_schema, sqlite_tables

from quire.database.postgres import PostgresDatabase
from quire.database.sql import load_migrations, load_queries
from quire.database.sqlite import SqliteDatabase, split_statements
from quire.queues.port import FailedDelivery, Message
from quire.queues.postgres import PostgresQueues
from quire.queues.sqlite import SqliteQueues
from quire.testing.time import CountingIds

SCHEMA_SQLITE = shown_schema("quire.queues.sqlite.sql")
SCHEMA_POSTGRES = shown_schema("quire.queues.postgres.sql")
DELAYED = 100_000


@pytest.fixture
async def sqlite(tmp_path):
    database = SqliteDatabase(tmp_path / "quire.db")
    await database.open()
    yield database
    await database.close()


@pytest.fixture
async def postgres(postgres_server):
    database = PostgresDatabase(fresh_schema(postgres_server))
    await database.open()
    yield database
    await database.close()


async def test_migrations_make_what_the_schema_shows_on_sqlite(sqlite, tmp_path):
    await SqliteQueues(sqlite, CountingIds()).prepare()
    shown = SqliteDatabase(tmp_path / "shown.db")
    await shown.open()
    await shown.write(lambda connection: [connection.execute(one) for one in split_statements(SCHEMA_SQLITE)])
    expected, made = await shown.read(tables_and_burials), await sqlite.read(tables_and_burials)
    await shown.close()
    assert expected
    assert made == expected


def tables_and_burials(connection):
    """The numbering of burials begins with a row."""
    return {
        **sqlite_tables(connection),
        "burials now": connection.execute("SELECT * FROM burials").fetchall(),
    }


@pytest.mark.service
async def test_migrations_make_what_the_schema_shows_on_postgres(postgres, postgres_server):
    await PostgresQueues(postgres, CountingIds()).prepare()
    shown = PostgresDatabase(fresh_schema(postgres_server))
    await shown.open()
    await shown.write(lambda connection: connection.execute(SCHEMA_POSTGRES.encode()))
    expected, made = await shown.read(postgres_tables), await postgres.read(postgres_tables)
    await shown.close()
    assert expected["columns"]
    assert made == expected


COLUMNS = "queue, id, body, state, due_at, token, deliveries, sent_at, ended_at, errors"


def old_rows():
    """Messages of the first schema, as the first queues left them."""
    released = {"delivery": 1, "at": 2.0, "error": "not\0yet"}
    yield "q", "waits", b"1", "waiting", 1.0, None, 0, 1.0, None, []
    yield "q", "out", b"2", "waiting", 50.0, "T", 2, 1.0, None, [released]
    yield "q", "known", b"", "acknowledged", 1.0, None, 1, 1.0, 5.0, [released]
    buried = {"delivery": 2, "at": 9.0, "error": "poison"}
    yield "q", "dead late", b"3", "dead", 1.0, None, 2, 1.0, 9.0, [released, buried]
    yield "q", "dead soon", b"4", "dead", 1.0, None, 1, 1.0, 8.0, [{"delivery": 1, "at": 8.0, "error": "x"}]


class OldMessages:
    async def test_what_waited_or_was_out_is_delivered(self, queues):
        (first,) = await queues.lease("q", limit=9, seconds=9, now=10)
        assert (first.id, first.body, first.deliveries, first.priority) == ("waits", b"1", 1, 3)
        await queues.acknowledge([first], now=11)
        (second,) = await queues.lease("q", limit=9, seconds=9, now=50)
        assert (second.id, second.body, second.deliveries) == ("out", b"2", 3)
        await queues.dead_letter(second, now=51, reason="no")
        assert (await queues.get_dead_letter("q", "out")).history == (
            FailedDelivery(delivery=1, at=2.0, ending="released", error="not\0yet"),
            FailedDelivery(delivery=2, at=50, ending="expired"),
            FailedDelivery(delivery=3, at=51, ending="buried", error="no"),
        )

    async def test_dead_letters_are_in_order_with_their_history(self, queues):
        soon, late = await queues.list_dead_letters("q", limit=9)
        assert (soon.id, soon.reason, soon.buried_at) == ("dead soon", "x", 8.0)
        assert (late.id, late.reason, late.deliveries, late.body) == ("dead late", "poison", 2, b"3")
        assert late.history == (
            FailedDelivery(delivery=1, at=2.0, ending="released", error="not\0yet"),
            FailedDelivery(delivery=2, at=9.0, ending="buried", error="poison"),
        )
        (leased,) = await queues.lease("q", limit=1, seconds=9, now=10)
        await queues.dead_letter(leased, now=11, reason="new")
        assert [one.id for one in await queues.list_dead_letters("q", after=late.no, limit=9)] == ["waits"]

    async def test_what_was_known_is_known(self, queues):
        messages = [Message(id=name, body=b"") for name in ("waits", "out", "known", "dead late", "new")]
        assert await queues.send("q", messages, now=10) == 1
        assert await queues.sweep(now=10**6) == 1


class TestOldSqliteMessages(OldMessages):
    @pytest.fixture
    async def queues(self, sqlite):
        first, *_ = load_migrations("quire.queues.sqlite.sql")
        await sqlite.migrate("queues", [first])
        insert = f"INSERT INTO messages ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
        rows = [(*row[:-1], json.dumps(row[-1])) for row in old_rows()]
        await sqlite.write(lambda connection: connection.executemany(insert, rows))
        queues = SqliteQueues(sqlite, CountingIds())
        await queues.prepare()
        return queues


@pytest.mark.service
class TestOldPostgresMessages(OldMessages):
    @pytest.fixture
    async def queues(self, postgres):
        first, *_ = load_migrations("quire.queues.postgres.sql")
        await postgres.migrate("queues", [first])
        insert = f"INSERT INTO messages ({COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"  # noqa: S608

        async def work(connection):
            for row in old_rows():
                errors = [json.dumps(one) for one in row[-1]]
                await connection.execute(insert.encode(), (*row[:-1], errors))

        await postgres.write(work)
        queues = PostgresQueues(postgres, CountingIds())
        await queues.prepare()
        return queues


async def fill(queues):
    """Many that are delayed, of each priority, and a few that are due behind them."""
    for first in range(0, DELAYED, 10_000):
        numbers = range(first, first + 10_000)
        messages = [Message(id=f"{number}", body=b"", priority=1 + number % 5) for number in numbers]
        await queues.send("q", messages, now=0, delay_seconds=10**6)
    await queues.send("q", [Message(id=f"due {number}", body=b"") for number in range(20)], now=1)


@pytest.mark.slow
async def test_on_sqlite_leasing_passes_nothing_over_that_is_delayed(sqlite):
    queues = SqliteQueues(sqlite, CountingIds())
    await queues.prepare()
    await fill(queues)
    steps = []

    def watch(connection):
        # A statement that walks over the delayed ones takes millions of steps.
        connection.set_progress_handler(lambda: steps.append(1), 1000)

    await sqlite.write(watch)
    assert len(await queues.lease("q", limit=10, seconds=10, now=1)) == 10
    await sqlite.write(lambda connection: connection.set_progress_handler(None, 0))
    assert len(steps) < 10


@pytest.mark.slow
@pytest.mark.service
async def test_on_postgres_nothing_that_is_delayed_is_looked_at(postgres):
    queues = PostgresQueues(postgres, CountingIds())
    await queues.prepare()
    await fill(queues)
    sql = load_queries("quire.queues.postgres.sql", "queries.sql")
    lease = {"queue": "q", "limit": 10, "token": "t", "worker": "", "until": 11.0, "now": 1.0, "minute": 0}
    nos = list(range(DELAYED + 1, DELAYED + 11))
    ended = {"nos": nos, "tokens": ["t"] * 10, "until": 20.0, "now": 1.0, "minute": 0}

    async def pages(connection):
        """Of leasing, extending and acknowledging ten."""
        found = []
        for name, values in (("lease", lease), ("extend", ended), ("acknowledge", ended)):
            explained = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql[name]}".encode()
            ((plan,),) = await (await connection.execute(explained, values, prepare=False)).fetchall()
            assert plan[0]["Plan"]["Actual Rows"] == 10
            found.append(plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"])
        return found

    # With what the server knows by itself of a table that has just grown, and with statistics.
    assert max(await postgres.read(pages)) < 500
    await postgres.write(lambda connection: connection.execute("ANALYZE messages"))
    assert max(await postgres.read(pages)) < 500
