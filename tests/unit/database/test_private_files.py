"""A database is for its owner alone, from its first byte, also one that was created otherwise."""

import os
import stat

import pytest

from quire.database.private_files import keep_private
from quire.database.sqlite import SqliteDatabase


@pytest.fixture(autouse=True)
def generous():
    """The mask of a system that lets everybody read."""
    before = os.umask(0)
    yield
    os.umask(before)


def rights(path):
    return stat.S_IMODE(path.stat().st_mode)


async def test_a_new_database_and_what_is_beside_it(tmp_path):
    path = tmp_path / "home" / "quire.db"
    database = SqliteDatabase(path)
    await database.open()
    await database.write(lambda connection: connection.execute("CREATE TABLE a (b)"))
    beside = [path, path.with_name("quire.db-wal"), path.with_name("quire.db-shm")]
    assert [rights(one) for one in beside] == [0o600] * 3
    assert rights(path.parent) == 0o700
    await database.close()


async def test_an_existing_one_is_taken_from_others(tmp_path):
    path = tmp_path / "quire.db"
    for name in ("quire.db", "quire.db-wal", "quire.db-shm"):
        (tmp_path / name).touch(mode=0o666)
    database = SqliteDatabase(path)
    await database.open()
    await database.write(lambda connection: connection.execute("CREATE TABLE a (b)"))
    assert [rights(one) for one in sorted(tmp_path.iterdir())] == [0o600] * 3
    await database.close()


def test_what_cannot_be_created_is_left_to_sqlite_to_tell(tmp_path):
    keep_private(tmp_path / "no folder" / "quire.db")
    assert list(tmp_path.iterdir()) == []
