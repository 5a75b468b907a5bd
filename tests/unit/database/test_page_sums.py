"""Checksums of a database's pages: damage is found and repaired, and no write is ever taken for damage."""

import os
import random
import sqlite3
import subprocess
import sys
from contextlib import contextmanager

import pytest

from quire.database import protection
from quire.database.page_sums import find_damage, find_state, open_sums_path, read_sums, sums_path
from quire.database.sqlite import SqliteDatabase
from quire.model.errors import Misconfigured
from quire.queues.sqlite import SqliteQueues
from quire.system import SystemIds

ROWS = 3000


def flip(path, *bits):
    """As a fault of the disk does it: nothing else of the file changes."""
    before = path.stat()
    with path.open("r+b") as stream:
        for bit in bits:
            stream.seek(bit // 8)
            (byte,) = stream.read(1)
            stream.seek(bit // 8)
            stream.write(bytes((byte ^ 1 << bit % 8,)))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def fill(connection):
    connection.execute("CREATE TABLE pages (no INTEGER PRIMARY KEY, text TEXT)")
    rows = [(no, f"page {no} " * 20) for no in range(ROWS)]
    connection.executemany("INSERT INTO pages VALUES (?, ?)", rows)


def change(no):
    return lambda connection: connection.execute("UPDATE pages SET text = ? WHERE no = ?", ("new", no))


def read_all(connection):
    return connection.execute("SELECT * FROM pages").fetchall()


@contextmanager
def held_open(script, path):
    """Another process that has the file open."""
    with subprocess.Popen(
        [sys.executable, "-c", script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"open\n"
        yield
        process.stdin.close()


async def use(path, *works, thorough=True):
    """Open, do, close; what was repaired."""
    database = SqliteDatabase(path, thorough=thorough)
    await database.open()
    try:
        for work in works:
            await database.write(work)
    finally:
        await database.close()
    return database.repairs


@pytest.fixture
async def path(tmp_path):
    path = tmp_path / "quire.db"
    await use(path, fill)
    return path


async def test_closing_leaves_checksums_of_the_file_as_it_is(path):
    sums = read_sums(path)
    assert len(sums.crcs) * sums.page_bytes == path.stat().st_size
    assert find_damage(path, sums) == []
    assert not path.with_name("quire.db-wal").exists()
    assert await use(path) == ()
    assert read_sums(path) == sums


async def test_one_wrong_bit_anywhere_is_repaired_and_told(path):
    whole = path.read_bytes()
    chance = random.Random(1)
    for bit in [0, 8 * 100, 8 * len(whole) - 1, *(chance.randrange(8 * len(whole)) for _ in range(40))]:
        flip(path, bit)
        (repaired,) = await use(path, thorough=bool(bit % 2))
        assert f"page {bit // 8 // 8192 + 1} at byte" in repaired
        assert path.read_bytes() == whole
    assert await use(path) == ()


async def test_wrong_bits_in_several_pages_are_repaired(path):
    whole = path.read_bytes()
    flip(path, 8 * 8192 * 3 + 77, 8 * 8192 * 5 + 4, 8 * 8192 * 6)
    (repaired,) = await use(path)
    assert "3 pages" in repaired
    assert path.read_bytes() == whole


@pytest.mark.parametrize("thorough", [True, False])
async def test_more_damage_is_refused_and_says_what_to_do(path, thorough):
    flip(path, 8 * 8192 * 3 + 77, 8 * 8192 * 3 + 500)
    damaged = path.read_bytes()
    for _ in range(2):
        with pytest.raises(Misconfigured, match=r"what Quire wrote: 1 .page 4 at byte 24576") as told:
            await use(path, thorough=thorough)
        assert told.value.code == "database_damaged"
        assert "backup" in str(told.value)
    assert path.read_bytes() == damaged


async def test_a_lost_part_of_the_disk_is_refused(path):
    before = path.stat()
    with path.open("r+b") as stream:
        stream.seek(8192 * 2)
        stream.write(bytes(20 * 8192))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(Misconfigured, match="pages that differ from what Quire wrote"):
        await use(path)


@pytest.mark.parametrize("size", [0, 8192, 10 * 8192, 10 * 8192 + 1, 200 * 8192])
async def test_a_file_that_was_cut_off_or_made_longer_is_refused(path, size):
    before = path.stat()
    os.truncate(path, size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(Misconfigured, match="differ from what Quire wrote"):
        await use(path)


async def test_every_kind_of_write_is_followed(path):
    await use(path, change(1), thorough=False)
    assert find_damage(path, read_sums(path)) == []
    await use(path, change(2), change(ROWS - 1), thorough=True)
    assert find_damage(path, read_sums(path)) == []
    await use(path, lambda connection: connection.execute("DELETE FROM pages WHERE no > 100"))
    await use(path, lambda connection: connection.execute("CREATE TABLE more AS SELECT * FROM pages"))
    assert find_damage(path, read_sums(path)) == []
    flip(path, 8 * 8192 * 3 + 77)
    assert len(await use(path, thorough=False)) == 1


async def test_damage_that_a_short_command_did_not_touch_stays_known(path, monkeypatch):
    """In a large database it writes without having checked all of it."""
    monkeypatch.setattr(protection, "SMALL_BYTES", 1)
    with sqlite3.connect(path) as connection:
        last = connection.execute("SELECT max(no) FROM pages").fetchone()[0]
    connection.close()
    flip(path, 8 * 8192 * 3 + 77)
    assert await use(path, change(last), thorough=False) == ()
    assert len(await use(path)) == 1


async def test_a_write_of_another_program_is_no_damage(path):
    connection = sqlite3.connect(path)
    connection.execute("UPDATE pages SET text = 'other' WHERE no = 5")
    connection.commit()
    connection.close()
    assert read_sums(path) is None
    assert await use(path, thorough=False) == ()
    assert read_sums(path) is None
    assert await use(path) == ()
    assert find_damage(path, read_sums(path)) == []


async def test_a_killed_process_leaves_no_false_alarm_and_its_log_is_followed(path):
    """A connection that is never closed stands for the process; its log is copied as it lies there."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA wal_autocheckpoint=0")
    connection.execute("UPDATE pages SET text = 'late' WHERE no = 7")
    log = path.with_name("quire.db-wal").read_bytes()
    state = path.stat()
    kept = path.read_bytes()
    connection.close()
    path.write_bytes(kept)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    path.with_name("quire.db-wal").write_bytes(log)
    assert read_sums(path) is not None  # those of the file without what is in the log
    flip(path, 8 * 8192 * 3 + 77)
    assert len(await use(path)) == 1
    assert find_damage(path, read_sums(path)) == []
    database = SqliteDatabase(path)
    await database.open()
    rows = await database.read(read_all)
    await database.close()
    assert rows[7] == (7, "late")


async def test_while_others_have_it_open_nothing_is_repaired(path):
    flip(path, 8 * 8192 * 3 + 77)
    damaged = path.read_bytes()
    script = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); "
        "c.execute('SELECT count(*) FROM sqlite_schema').fetchone(); "
        "print('open', flush=True); sys.stdin.read()"
    )
    with held_open(script, path):
        with pytest.raises(Misconfigured, match="page 4"):
            await use(path)
        assert path.read_bytes() == damaged
    assert len(await use(path)) == 1


async def test_two_in_one_process_do_not_disturb_each_other(path):
    one, other = SqliteDatabase(path, thorough=True), SqliteDatabase(path, thorough=True)
    await one.open()
    await other.open()
    await one.write(change(1))
    await one.close()
    await other.write(change(2))
    await other.close()
    assert find_damage(path, read_sums(path)) == []
    assert await use(path) == ()


async def test_damaged_checksums_are_ignored_and_made_anew(path):
    place = sums_path(path)
    whole = place.read_bytes()
    for byte in (0, 17, 25, 33, 37, 60, len(whole) - 1):
        flip(place, 8 * byte)
        assert read_sums(path) is None
        place.write_bytes(whole)
    for kept in (whole[:-1], whole + b"x", b""):
        place.write_bytes(kept)
        assert read_sums(path) is None
    assert await use(path) == ()
    assert find_damage(path, read_sums(path)) == []


async def test_short_commands_leave_no_checksums_where_there_are_none(tmp_path):
    path = tmp_path / "quire.db"
    await use(path, fill, thorough=False)
    assert not sums_path(path).exists()
    assert find_state(path) is not None


async def test_a_text_that_is_none_is_damage(path):
    database = SqliteDatabase(path)
    await database.open()
    await database.write(
        lambda connection: connection.execute("UPDATE pages SET text = CAST(x'ff41' AS TEXT)")
    )
    with pytest.raises(Misconfigured) as told:
        await database.read(read_all)
    assert told.value.code == "database_damaged"
    await database.close()


async def test_a_damaged_name_in_the_schema_is_damage(path):
    """SQLite quotes it in its message, which is no text then, and Python fails to read the message."""
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_schema SET name = CAST(x'ce70' AS TEXT), sql = 'CREATE'")
    connection.close()
    database = SqliteDatabase(path)
    with pytest.raises(Misconfigured) as told:
        await database.open()
    assert told.value.code == "database_damaged"
    assert str(path) in str(told.value)


async def test_a_format_that_sqlite_does_not_know_is_damage(path):
    sums_path(path).unlink()
    with path.open("r+b") as stream:
        stream.seek(44)  # the number of the format of the schema
        stream.write(bytes([0, 0, 0, 68]))
    with pytest.raises(Misconfigured) as told:
        await SqliteDatabase(path).open()
    assert told.value.code == "database_damaged"


async def test_a_column_that_has_lost_its_name_is_damage(path):
    database = SqliteDatabase(path)
    await database.open()
    with pytest.raises(Misconfigured) as told:
        await database.read(lambda connection: connection.execute("SELECT texs FROM pages"))
    await database.close()
    assert told.value.code == "database_damaged"


async def test_a_list_of_migrations_that_has_lost_one_is_damage(tmp_path):
    database = SqliteDatabase(tmp_path / "quire.db")
    await database.open()
    await SqliteQueues(database, SystemIds()).prepare()
    await database.write(lambda connection: connection.execute("DELETE FROM migrations WHERE number = 3"))
    with pytest.raises(Misconfigured) as told:
        await SqliteQueues(database, SystemIds()).prepare()
    await database.close()
    assert told.value.code == "database_damaged"


async def test_after_a_power_cut_pages_that_are_newer_than_their_time_are_no_damage(path):
    """What was written is on the disk, its time is not: the checksums must not be found by it."""
    before = path.stat()
    database = SqliteDatabase(path, thorough=True)
    await database.open()
    assert sums_path(path).exists()
    await database.write(change(1))
    await database.write(lambda _: None)  # the writer has finished with the first one
    assert not sums_path(path).exists()
    assert open_sums_path(path).exists()
    await database.write(change(2))
    kept = open_sums_path(path).read_bytes()
    await database.close()
    sums_path(path).unlink()
    path.with_name("quire.db-sums-of-another-boot").write_bytes(kept)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert read_sums(path) is None
    assert await use(path) == ()
    assert not path.with_name("quire.db-sums-of-another-boot").exists()


async def test_after_a_kill_the_checksums_of_the_file_are_still_known(path):
    before = path.stat()
    whole = path.read_bytes()
    database = SqliteDatabase(path, thorough=True)
    await database.open()
    await database.write(change(1))
    await database.write(lambda _: None)
    kept = open_sums_path(path).read_bytes()
    await database.close()
    path.write_bytes(whole)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    sums_path(path).unlink()
    open_sums_path(path).write_bytes(kept)
    flip(path, 8 * 8192 * 3 + 77)
    assert len(await use(path)) == 1
    assert path.read_bytes() == whole
