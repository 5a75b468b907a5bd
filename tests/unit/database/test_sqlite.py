"""One writer, group commit: what shares a transaction does not share its failures."""

import asyncio
import sqlite3

import pytest

from quire.database.sqlite import SqliteDatabase, statements
from quire.model.errors import Misconfigured


@pytest.fixture
async def database(tmp_path):
    database = SqliteDatabase(tmp_path / "x.db")
    await database.open()
    await database.write(lambda connection: connection.execute("CREATE TABLE t (n INTEGER PRIMARY KEY)"))
    yield database
    await database.close()


def insert(number):
    return lambda connection: connection.execute("INSERT INTO t VALUES (?)", (number,))


async def numbers(database):
    rows = await database.read(lambda connection: connection.execute("SELECT n FROM t ORDER BY n").fetchall())
    return [row[0] for row in rows]


async def test_a_failing_caller_takes_nothing_with_it(database):
    answers = await asyncio.gather(
        *(database.write(insert(number)) for number in (1, 2, 1, 3)), return_exceptions=True
    )
    assert [type(answer) for answer in answers].count(sqlite3.IntegrityError) == 1
    assert await numbers(database) == [1, 2, 3]


async def test_half_a_failed_callers_work_is_undone(database):
    def work(connection):
        connection.execute("INSERT INTO t VALUES (7)")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await database.write(work)
    assert await numbers(database) == []


async def test_callers_that_wait_together_share_commits(database):
    commits = []
    await database.write(lambda connection: connection.set_trace_callback(commits.append))
    await asyncio.gather(*(database.write(insert(number)) for number in range(200)))
    assert sum(text == "COMMIT" for text in commits) < 50
    assert len(await numbers(database)) == 200


async def test_an_answer_means_it_is_on_disk(database, tmp_path):
    await database.write(insert(5))
    other = sqlite3.connect(tmp_path / "x.db")
    assert other.execute("SELECT n FROM t").fetchall() == [(5,)]
    assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    other.close()
    level = await database.write(lambda connection: connection.execute("PRAGMA synchronous").fetchone())
    assert level == (2,)  # FULL


async def test_a_damaged_file_is_told_with_advice(tmp_path):
    (tmp_path / "bad.db").write_bytes(b"this is not a database, but it is long enough to be one" * 100)
    with pytest.raises(Misconfigured, match="damaged"):
        await SqliteDatabase(tmp_path / "bad.db").open()


async def test_a_closed_database_says_so(tmp_path):
    database = SqliteDatabase(tmp_path / "x.db")
    await database.open()
    await database.close()
    with pytest.raises(Misconfigured, match="not open"):
        await database.write(insert(1))


async def test_migrations_run_once_and_a_newer_schema_is_refused(database):
    script = [(1, "first", "CREATE TABLE a (n);\nCREATE TABLE b (n);\n")]
    await database.migrate("room", script)
    await database.migrate("room", script)
    await database.migrate("room", [*script, (2, "second", "CREATE TABLE c (n);")])
    with pytest.raises(Misconfigured, match="newer quire"):
        await database.migrate("room", script)


def test_a_script_is_cut_into_its_statements():
    script = "-- a comment; with a semicolon\nCREATE TABLE a (\n  n -- ';'\n);\n\nCREATE TABLE b (n);\n"
    assert len(statements(script)) == 2
