"""What another process has written is heard at once, own writes are not, and a storm costs little."""

import asyncio
import os
import select

import pytest

from quire.database import sqlite
from quire.database.sqlite import SqliteDatabase
from quire.database.watch import FileWatch

LONG_SECONDS = 60.0


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"")
    return path


@pytest.fixture
def watch(file):
    watch = FileWatch(file)
    yield watch
    watch.close()


def readable(watch):
    return bool(select.select([watch], [], [], 0)[0])


def test_a_touch_is_reported_once_until_it_is_set_again(watch, file):
    os.utime(file)
    assert not watch.was_touched()
    watch.set()
    for _ in range(3):
        os.utime(file)
    assert readable(watch)
    assert watch.was_touched()
    os.utime(file)
    assert not watch.was_touched()
    assert not readable(watch)
    watch.set()
    os.utime(file)
    assert watch.was_touched()


def test_what_is_written_wakes_nobody_before_it_counts(watch, file):
    watch.set()
    file.write_bytes(b"half of it")
    assert not watch.was_touched()


def test_a_file_that_is_not_there_cannot_be_watched(watch, file):
    file.unlink()
    with pytest.raises(FileNotFoundError):
        watch.set()


def test_where_the_system_has_none_it_cannot_be_made(monkeypatch, file):
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: object())
    with pytest.raises(OSError, match="no inotify"):
        FileWatch(file)


@pytest.fixture
async def pair(tmp_path):
    """Two databases on one file are as good as two processes."""
    databases = [SqliteDatabase(tmp_path / "x.db") for _ in range(2)]
    for database in databases:
        await database.open()
    await databases[0].write(lambda connection: connection.execute("CREATE TABLE t (n INTEGER)"))
    yield databases
    for database in databases:
        await database.close()


def insert(connection):
    connection.execute("INSERT INTO t VALUES (1)")


@pytest.fixture
def no_net(monkeypatch):
    """Only what the file system tells is heard."""
    monkeypatch.setattr(sqlite, "LISTEN_SECONDS", 10 * LONG_SECONDS)
    monkeypatch.setattr(sqlite, "APART_SECONDS", 0.0)


@pytest.fixture
def looks(monkeypatch):
    """How often the counter was looked at."""
    found, version = [], sqlite._version

    def counted(connection):
        found.append(connection)
        return version(connection)

    monkeypatch.setattr(sqlite, "_version", counted)
    return found


async def heard_of(database, **options):
    heard = asyncio.Semaphore(0)
    await database.listen(heard.release, **options)
    return heard


async def within(waiting):
    async with asyncio.timeout(LONG_SECONDS):
        return await waiting


async def test_others_are_heard_by_the_file_system_alone(no_net, pair):
    mine, theirs = pair
    heard = await heard_of(mine, apart_seconds=0)
    for _ in range(3):
        await theirs.write(insert)
        await within(heard.acquire())


async def test_own_writes_and_transactions_that_change_nothing_ring_nobody(no_net, pair):
    mine, theirs = pair
    heard = await heard_of(mine, apart_seconds=0)
    for _ in range(5):
        await mine.write(insert)
        await theirs.write(lambda connection: connection.execute("SELECT n FROM t").fetchall())
    assert heard.locked()
    await theirs.write(insert)
    await within(heard.acquire())
    await mine.write(insert)
    await mine.write(insert)
    assert heard.locked()


async def test_a_storm_of_writes_is_looked_at_seldom(monkeypatch, pair, looks):
    monkeypatch.setattr(sqlite, "LISTEN_SECONDS", 10 * LONG_SECONDS)
    monkeypatch.setattr(sqlite, "APART_SECONDS", LONG_SECONDS)
    mine, theirs = pair
    await heard_of(mine)
    before = len(looks)
    for _ in range(50):
        await theirs.write(insert)
        await mine.write(insert)
    assert len(looks) - before <= 1


async def test_who_listens_is_called_as_seldom_as_it_asked_and_the_last_call_is_not_forgotten(no_net, pair):
    mine, theirs = pair
    often = await heard_of(mine, apart_seconds=0)
    seldom = await heard_of(mine, apart_seconds=LONG_SECONDS)
    for _ in range(3):
        await theirs.write(insert)
        await within(often.acquire())
    await within(seldom.acquire())
    assert seldom.locked()
    (_, listener) = mine._listeners
    assert listener._timer is not None


async def test_without_the_file_system_others_are_heard_all_the_same(monkeypatch, pair):
    def refuses(_):
        raise OSError("no more instances")

    monkeypatch.setattr(sqlite, "FileWatch", refuses)
    monkeypatch.setattr(sqlite, "LISTEN_SECONDS", 0.001)
    mine, theirs = pair
    heard = await heard_of(mine)
    await theirs.write(insert)
    await within(heard.acquire())


async def test_what_was_watched_is_let_go(pair):
    mine, _ = pair
    await heard_of(mine)
    file = mine._watch.fileno()
    await mine.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file)
