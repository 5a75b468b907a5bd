"""Bits that flip at random in the files of a database: noticed every time, healed where that can be done.

A trial begins with a copy of a home as a run left it, or as a killed process left it with its log. Bits of
one of its files change as a fault of the disk changes them: the times of the file stay. Then the home is
opened, by a process that checks thoroughly or by a short command, and everything in it is compared. `FLIPS`
is the number of trials; `make soak` has five hundred.
"""

import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from quire.database.page_sums import open_sums_path
from quire.database.sqlite import SqliteDatabase
from quire.model.errors import Misconfigured
from quire.queues.port import Message
from quire.queues.sqlite import SqliteQueues
from quire.system import SystemIds

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
SEED = int(os.environ.get("FLIP_SEED", "20261118"))
FLIPS = int(os.environ.get("FLIPS", "40"))
RUNS = max(3, FLIPS // 40)
WORDS = Path(__file__).resolve().parents[1] / "situations" / "words.py"
DOCUMENTS = 15
FILES = ("quire.db", "quire.db-wal", "quire.db-sums", open_sums_path(Path("quire.db")).name)


def run(folder, home, out):
    command = [sys.executable, "-m", "quire.cli.main", "run", str(folder / "in"), "--pipeline", str(WORDS)]
    command += ["--out", str(out), "--home", str(home), "--json"]
    more = os.environ | {"QUIRE_WORKERS": "1"}
    return subprocess.run(command, env=more, capture_output=True, text=True, timeout=100, check=False)


def say(text):
    sys.stdout.write(text + "\n")


def results(out):
    tree = {
        str(path.relative_to(out)): path.read_bytes()
        for path in out.rglob("*")
        if path.is_file() and path.name not in {"report.json", "index.html"}
    }
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    files = {
        one["path"]: (one["status"], one["outputs"], one["size"], one["error_class"])
        for one in report["files"]
    }
    return tree, files


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    """A home in which a run has ended."""
    folder = tmp_path_factory.mktemp("closed")
    (folder / "in").mkdir()
    for number in range(DOCUMENTS):
        (folder / "in" / f"letter {number}.txt").write_text(f"dear reader {'of mine ' * number}")
    done = run(folder, folder / "home", folder / "out")
    assert done.returncode == 0, done.stderr
    assert (folder / "home" / "quire.db-sums").exists()
    return folder


@pytest.fixture(scope="module")
def killed(closed, tmp_path_factory):
    """The home of a process that was killed after some transactions: its files while it has them open."""
    home = tmp_path_factory.mktemp("killed")
    work = tmp_path_factory.mktemp("work")
    copy(closed / "home", work)

    async def use():
        database = SqliteDatabase(work / "quire.db", thorough=True)
        await database.open()
        queues = SqliteQueues(database, SystemIds())
        await queues.prepare()
        for number in range(20):
            await queues.send("q", [Message(id=f"m{number}", body=b"body" * 200)], now=number)
        copy(work, home)
        await database.close()

    asyncio.run(use())
    assert (home / "quire.db-wal").exists()
    return home


def copy(source, target):
    """The files of the database with their times."""
    for name in FILES:
        (target / name).unlink(missing_ok=True)
        if (source / name).exists():
            shutil.copy2(source / name, target / name)


def damage(path, chance):
    """How many bits, in how many pages."""
    before = path.stat()
    data = bytearray(path.read_bytes())
    kind = chance.random()
    if kind < 0.6:
        bits = [chance.randrange(8 * len(data))]
    elif kind < 0.8:
        page = chance.randrange(0, len(data), 8192)
        end = min(len(data), page + 8192)
        bits = chance.sample(range(8 * page, 8 * end), chance.randint(2, 5))
    else:
        first = chance.randrange(8 * len(data))
        bits = range(first, min(8 * len(data), first + chance.randint(2, 4096)))
    for bit in bits:
        data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    return len(bits)


async def read_all(home, *, thorough):
    """Everything that the database holds, and what was repaired."""
    database = SqliteDatabase(home / "quire.db", thorough=thorough)
    await database.open()
    try:
        return await database.read(dump), database.repairs
    finally:
        await database.close()


def dump(connection):
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    schema = connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name").fetchall()
    tables = {
        name: sorted(map(repr, connection.execute(f'SELECT * FROM "{name}"').fetchall()))  # noqa: S608
        for name in names
    }
    for name in names:
        # Through each index as well: they are read on other ways than the tables.
        assert connection.execute(f'PRAGMA integrity_check("{name}")').fetchall() == [("ok",)]
    return schema, tables


def open_damaged(home, right, *, thorough):
    try:
        found, repairs = asyncio.run(read_all(home, thorough=thorough))
    except Misconfigured as error:
        named = error.code == "database_damaged" and str(home / "quire.db") in str(error)
        return "refused" if named else "wrong"
    if found != right:
        return "wrong"
    return "healed" if repairs else "harmless"


def test_a_flip_in_a_closed_database_is_healed_or_refused(closed, tmp_path):
    """Never harmless by chance: a flip in free space is healed like any other."""
    chance, counts = random.Random(SEED), Counter()
    copy(closed / "home", tmp_path)
    right, _ = asyncio.run(read_all(tmp_path, thorough=True))
    for number in range(FLIPS):
        copy(closed / "home", tmp_path)
        bits = damage(tmp_path / "quire.db", chance)
        outcome = open_damaged(tmp_path, right, thorough=bool(number % 2))
        counts[outcome, "one bit" if bits == 1 else "more"] += 1
        wanted = {"healed"} if bits == 1 else {"healed", "refused"}
        assert outcome in wanted, (SEED, number, bits, outcome)
    say(f"{FLIPS} trials with the pages of a closed database: {dict(counts)}")
    assert counts["healed", "one bit"]
    assert counts["refused", "more"]


def test_flips_in_the_checksums_themselves_do_no_harm(closed, tmp_path):
    chance = random.Random(SEED + 1)
    copy(closed / "home", tmp_path)
    right, _ = asyncio.run(read_all(tmp_path, thorough=True))
    for number in range(max(10, FLIPS // 10)):
        copy(closed / "home", tmp_path)
        damage(tmp_path / "quire.db-sums", chance)
        outcome = open_damaged(tmp_path, right, thorough=bool(number % 2))
        assert outcome == "harmless", (SEED, number, outcome)


def test_a_flip_in_what_a_killed_process_left_is_healed_refused_or_an_unfinished_end(killed, tmp_path):
    chance, counts = random.Random(SEED + 2), Counter()
    copy(killed, tmp_path)
    right, _ = asyncio.run(read_all(tmp_path, thorough=True))
    shorter = read_without_the_end(killed, tmp_path)
    for number in range(FLIPS // 2):
        copy(killed, tmp_path)
        name = chance.choice(FILES[:2])
        damage(tmp_path / name, chance)
        outcome = open_damaged(tmp_path, right, thorough=bool(number % 2))
        if outcome == "wrong" and name == "quire.db-wal":
            # As after a power cut: what of the last transaction is not whole was never acknowledged.
            found = asyncio.run(read_all(tmp_path, thorough=True))[0]
            outcome = "unfinished end" if found == shorter else "wrong"
        counts[outcome, name] += 1
        assert outcome != "wrong", (SEED, number, name)
    say(f"{FLIPS // 2} trials with the files of a killed process: {dict(counts)}")
    assert counts["refused", "quire.db-wal"]


def read_without_the_end(killed, folder):
    """All but the last transaction of the log."""
    copy(killed, folder)
    log = folder / "quire.db-wal"
    data = log.read_bytes()
    commits = [at for at in range(32, len(data), 24 + 8192) if data[at + 4 : at + 8] != bytes(4)]
    os.truncate(log, commits[-2] + 24 + 8192)
    return asyncio.run(read_all(folder, thorough=True))[0]


def test_a_run_on_a_damaged_home_ends_as_on_a_whole_one_or_says_what_to_do(closed, tmp_path):
    """Refused ones are set aside, as the message says: the next run makes the same results."""
    chance, counts = random.Random(SEED + 3), Counter()
    right = results(closed / "out")
    for number in range(RUNS):
        home, out = tmp_path / f"home{number}", tmp_path / f"out{number}"
        shutil.copytree(closed / "home", home, copy_function=shutil.copy2)
        bits = damage(home / "quire.db", chance) if number else damage_beyond_repair(home / "quire.db")
        done = run(closed, home, out)
        if done.returncode:
            assert bits > 1
            assert json.loads(done.stdout)["error"]["class"] == "database_damaged", done.stderr
            assert not out.exists() or not any(out.rglob("*.json")), "nothing is delivered"
            for name in FILES:
                (home / name).unlink(missing_ok=True)
            done = run(closed, home, out)
            counts["set aside"] += 1
        else:
            assert "repaired" in done.stderr
            counts["healed"] += 1
        assert done.returncode == 0, done.stderr
        assert results(out) == right, (SEED, number)
    say(f"{RUNS} runs on damaged homes: {dict(counts)}")
    assert counts["set aside"]
    assert counts["healed"]


def damage_beyond_repair(path):
    before = path.stat()
    with path.open("r+b") as stream:
        stream.seek(before.st_size // 2)
        stream.write(b"\xff" * 3000)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    return 8 * 3000
