"""The floor: bare rows inserted, claimed and completed, 1,000 in a transaction, twice; no engine at all.

What a durable queue on the same database cannot go beyond in one process: synchronous=FULL with a write-ahead
log on SQLite, synchronous_commit=on with sets handed over as arrays on PostgreSQL.
"""

import argparse
import sqlite3
import tempfile
import time
from pathlib import Path

from fanout import PHASES, Peak, database, main

ROWS = 1000
TABLE = "CREATE TABLE t (no BIGINT PRIMARY KEY, payload TEXT, state TEXT, result TEXT)"
INDEX = "CREATE INDEX t_state ON t (state, no)"


def ranges(first: int, tasks: int):
    return (range(at, min(at + ROWS, first + tasks)) for at in range(first, first + tasks, ROWS))


def sqlite_phase(connection: sqlite3.Connection, first: int, tasks: int) -> int:
    for numbers in ranges(first, tasks):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "INSERT INTO t VALUES (?, ?, 'ready', NULL)", [(no, f"payload of task {no}") for no in numbers]
        )
        connection.execute("COMMIT")
    done = 0
    while True:
        connection.execute("BEGIN IMMEDIATE")
        claimed = connection.execute(
            "UPDATE t SET state = 'running' WHERE no IN "
            "(SELECT no FROM t WHERE state = 'ready' ORDER BY no LIMIT ?) RETURNING no, payload",
            (ROWS,),
        ).fetchall()
        connection.execute("COMMIT")
        if not claimed:
            return done
        connection.execute("BEGIN IMMEDIATE")
        done += connection.executemany(
            "UPDATE t SET state = 'done', result = 'ok' WHERE no = ? AND state = 'running'",
            [(no,) for no, _ in claimed],
        ).rowcount
        connection.execute("COMMIT")


def on_sqlite(tasks: int) -> tuple[float, int]:
    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(Path(folder, "floor.db"), isolation_level=None)
        for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", TABLE, INDEX):
            connection.execute(statement)
        began = time.perf_counter()
        done = sum(sqlite_phase(connection, number * tasks, tasks) for number in range(PHASES))
        seconds = time.perf_counter() - began
        connection.close()
    return seconds, done


def postgres_phase(connection, first: int, tasks: int) -> int:
    for numbers in ranges(first, tasks):
        with connection.transaction():
            connection.execute(
                "INSERT INTO t SELECT no, payload, 'ready' "
                "FROM unnest(%s::bigint[], %s::text[]) AS u (no, payload)",
                (list(numbers), [f"payload of task {no}" for no in numbers]),
            )
    done = 0
    while True:
        with connection.transaction():
            claimed = connection.execute(
                "UPDATE t SET state = 'running' WHERE no = ANY (ARRAY ("
                "SELECT no FROM t WHERE state = 'ready' ORDER BY no LIMIT %s FOR UPDATE SKIP LOCKED"
                ")) RETURNING no, payload",
                (ROWS,),
            ).fetchall()
        if not claimed:
            return done
        with connection.transaction():
            done += connection.execute(
                "UPDATE t SET state = 'done', result = u.result "
                "FROM unnest(%s::bigint[], %s::text[]) AS u (no, result) "
                "WHERE t.no = u.no AND state = 'running'",
                ([no for no, _ in claimed], ["ok"] * len(claimed)),
            ).rowcount


def on_postgres(dsn: str, tasks: int) -> tuple[float, int]:
    import psycopg

    with database(dsn) as own, psycopg.connect(own, autocommit=True) as connection:
        for statement in ("SET synchronous_commit = on", TABLE, INDEX):
            connection.execute(statement)
        began = time.perf_counter()
        done = sum(postgres_phase(connection, number * tasks, tasks) for number in range(PHASES))
        return time.perf_counter() - began, done


def measure(given: argparse.Namespace) -> tuple[str, float, int]:
    with Peak() as peak:
        seconds, done = on_postgres(given.dsn, given.tasks) if given.dsn else on_sqlite(given.tasks)
    assert done == PHASES * given.tasks, done
    return ("postgres" if given.dsn else "sqlite"), seconds, peak.megabytes


if __name__ == "__main__":
    main("floor", measure, dsn=True)
