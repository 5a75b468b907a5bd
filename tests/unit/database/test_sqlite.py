"""One writer, group commit: what shares a transaction does not share its failures."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import textwrap

import pytest

from quire.database.sqlite import SqliteDatabase, split_statements
from quire.model.errors import Misconfigured, Unavailable


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


async def test_a_damaged_file_is_reported_with_advice(tmp_path):
    (tmp_path / "bad.db").write_bytes(b"this is not a database, but it is long enough to be one" * 100)
    with pytest.raises(Misconfigured, match="damaged"):
        await SqliteDatabase(tmp_path / "bad.db").open()


async def test_a_file_that_cannot_be_opened_is_a_matter_of_settings(tmp_path):
    (tmp_path / "x.db").mkdir()
    with pytest.raises(Misconfigured, match="permissions"):
        await SqliteDatabase(tmp_path / "x.db").open()


async def test_a_full_database_is_reported_with_advice_and_takes_what_fits(database):
    await database.write(lambda connection: connection.execute("CREATE TABLE big (b)"))
    pages = await database.write(lambda connection: connection.execute("PRAGMA page_count").fetchone()[0])
    await database.write(
        lambda connection: connection.execute(f"PRAGMA max_page_count={pages + 1}").fetchone()
    )
    with pytest.raises(Unavailable, match="no space") as told:
        await database.write(
            lambda connection: connection.execute("INSERT INTO big VALUES (zeroblob(100000))")
        )
    assert told.value.code == "storage_full"
    await database.write(insert(1))
    assert await numbers(database) == [1]


async def test_a_file_that_another_holds_is_busy(database, tmp_path):
    await database.write(lambda connection: connection.execute("PRAGMA busy_timeout=0").fetchone())
    other = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="another process") as told:
        await database.write(insert(1))
    assert told.value.code == "database_busy"
    other.execute("ROLLBACK")
    other.close()
    await database.write(insert(1))


async def test_a_read_only_file_is_a_matter_of_settings(database):
    await database.write(lambda connection: connection.execute("PRAGMA query_only=1"))
    with pytest.raises(Misconfigured, match="permissions"):
        await database.write(insert(1))


async def test_errors_of_a_statement_stay_what_they_are(database):
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        await database.write(lambda connection: connection.execute("SELECT 1 FROM absent"))


def test_a_write_that_the_system_refuses_is_reported_with_advice_and_nothing_is_lost(tmp_path):
    """For real, in a process that may write only small files."""
    script = """
        import asyncio, resource, signal, sys
        from pathlib import Path
        from quire.database.sqlite import SqliteDatabase
        from quire.model.errors import Unavailable

        async def main():
            database = SqliteDatabase(Path(sys.argv[1]))
            await database.open()
            await database.write(lambda connection: connection.execute("CREATE TABLE t (b)"))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, most))
            try:
                await database.write(lambda c: c.execute("INSERT INTO t VALUES (randomblob(900000))"))
            except Unavailable as error:
                print(error.code, error)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
            await database.write(lambda connection: connection.execute("INSERT INTO t VALUES (1)"))
            print(await database.read(lambda connection: connection.execute("SELECT b FROM t").fetchall()))
            await database.close()

        asyncio.run(main())
    """
    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), tmp_path / "x.db"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    refused, rows = told.stdout.splitlines()
    assert refused.startswith(
        "unavailable x.db cannot be read or written just now (disk I/O error, SQLITE_IOERR"
    )
    assert refused.endswith("then run again")
    assert rows == "[(1,)]"
    assert not told.stderr


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
    assert len(split_statements(script)) == 2
