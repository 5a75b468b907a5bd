"""A log left behind by a killed process: damage in it is told from a transaction that was never finished."""

import os
import random
import sqlite3

import pytest

from quire.database.sqlite import SqliteDatabase
from quire.database.wal_check import find_log_damage
from quire.model.errors import Misconfigured

TRANSACTIONS = 12
FRAME = 24 + 8192


@pytest.fixture
def path(tmp_path):
    """A database and its log as a killed process leaves them."""
    origin, path = tmp_path / "origin.db", tmp_path / "quire.db"
    connection = sqlite3.connect(origin, isolation_level=None)
    for statement in ("page_size=8192", "journal_mode=WAL", "wal_autocheckpoint=0"):
        connection.execute(f"PRAGMA {statement}")
    connection.execute("CREATE TABLE t (no INTEGER PRIMARY KEY, text TEXT)")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for no in range(TRANSACTIONS):
        connection.execute("INSERT INTO t VALUES (?, ?)", (no, f"text {no} " * 1500))
    for ending in ("", "-wal"):
        path.with_name(path.name + ending).write_bytes(origin.with_name(origin.name + ending).read_bytes())
    connection.close()
    return path


@pytest.fixture
def log(path):
    return path.with_name("quire.db-wal")


def change(log, offset, mask=1):
    data = bytearray(log.read_bytes())
    data[offset] ^= mask
    log.write_bytes(data)


def last_transaction(log):
    """Where it begins: behind the last commit but one."""
    data = log.read_bytes()
    places = range(32, len(data), FRAME)
    commits = [place for place in places if data[place + 4 : place + 8] != bytes(4)]
    assert len(commits) == TRANSACTIONS
    return commits[-2] + FRAME


async def read(path):
    database = SqliteDatabase(path)
    await database.open()
    try:
        return await database.read(lambda connection: connection.execute("SELECT no FROM t").fetchall())
    finally:
        await database.close()


async def test_a_whole_log_is_read(path, log):
    assert find_log_damage(log) is None
    assert len(await read(path)) == TRANSACTIONS
    assert find_log_damage(log) is None


async def test_a_bit_that_changed_before_the_last_transaction_is_refused(path, log):
    whole, end = log.read_bytes(), last_transaction(log)
    chance = random.Random(4)
    heads = [0, 5, 9, 17, 20, 25, 31, 32 + 1, 32 + 9, 32 + 13, 32 + 17, 32 + 23]
    for offset in [*heads, end - 1, *(chance.randrange(32, end) for _ in range(40))]:
        change(log, offset, 1 << chance.randrange(8))
        with pytest.raises(Misconfigured, match=r"quire\.db-wal") as told:
            await read(path)
        assert told.value.code == "database_damaged"
        assert log.stat().st_size == len(whole), "nothing is thrown away"
        log.write_bytes(whole)
    assert len(await read(path)) == TRANSACTIONS


async def test_a_last_transaction_that_was_half_written_is_dropped_as_ever(path, log):
    end = last_transaction(log)
    change(log, end + 24 + 100)
    assert find_log_damage(log) is None
    assert len(await read(path)) == TRANSACTIONS - 1


@pytest.mark.parametrize("cut", [0, 10, 32, 40, 32 + FRAME, 32 + FRAME + 7])
def test_a_log_that_ends_early_is_an_unfinished_one(log, cut):
    os.truncate(log, cut)
    assert find_log_damage(log) is None


def test_frames_of_an_earlier_round_are_not_missed(log):
    """After a checkpoint SQLite begins again at the front; what is behind stays until it is overwritten."""
    data = log.read_bytes()
    salts = data[16:24]
    stale = bytearray(data)
    for place in range(32 + 3 * FRAME, len(data), FRAME):
        assert bytes(stale[place + 8 : place + 16]) == salts
        stale[place + 8 : place + 16] = b"\0" * 8
    log.write_bytes(stale)
    assert find_log_damage(log) is None


async def test_a_log_in_use_is_left_to_those_who_use_it(path, log, monkeypatch):
    database = SqliteDatabase(path)
    await database.open()
    await database.write(lambda connection: connection.execute("INSERT INTO t VALUES (99, '')"))
    monkeypatch.setattr("quire.database.protection.find_log_damage", None)  # would fail if it were called
    assert len(await read(path)) == TRANSACTIONS + 1
    await database.close()
