"""The floor of each backend: bare rows or stream entries, put in, claimed and completed in sets of 1,000.

No ids to remember, no counters, no history, no priorities, no leases: what one process cannot go beyond in
sets of this size. SQLite with a write-ahead log and synchronous=FULL, PostgreSQL with synchronous_commit=on,
Redis as its server is set up: XADD, XREADGROUP, then XACK and XDEL, each in a pipeline.
"""

import json
import sqlite3
import tempfile
import time
from pathlib import Path

from fanout import database
from queue_peer import SET, arguments, sets
from raw_floor import INDEX, TABLE

STREAM, GROUP = "floor", "floor"


def payload(number: int) -> str:
    return json.dumps({"number": number})


class Sqlite:
    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", TABLE, INDEX):
            self._connection.execute(statement)

    def put(self, numbers: range) -> None:
        with self._transaction():
            self._connection.executemany(
                "INSERT INTO t VALUES (?, ?, 'ready', NULL)", [(no, payload(no)) for no in numbers]
            )

    def drain(self) -> int:
        with self._transaction():
            claimed = self._connection.execute(
                "UPDATE t SET state = 'running' WHERE no IN "
                "(SELECT no FROM t WHERE state = 'ready' ORDER BY no LIMIT ?) RETURNING no, payload",
                (SET,),
            ).fetchall()
        if not claimed:
            return 0
        with self._transaction():
            return self._connection.executemany(
                "UPDATE t SET state = 'done' WHERE no = ? AND state = 'running'", [(no,) for no, _ in claimed]
            ).rowcount

    def _transaction(self):
        self._connection.execute("BEGIN IMMEDIATE")
        return self._connection  # commits at the end of its block


class Postgres:
    def __init__(self, dsn: str) -> None:
        import psycopg

        self._connection = psycopg.connect(dsn, autocommit=True)
        for statement in ("SET synchronous_commit = on", TABLE, INDEX):
            self._connection.execute(statement)

    def put(self, numbers: range) -> None:
        self._connection.execute(
            "INSERT INTO t SELECT no, payload, 'ready' "
            "FROM unnest(%s::bigint[], %s::text[]) AS u (no, payload)",
            (list(numbers), [payload(no) for no in numbers]),
        )

    def drain(self) -> int:
        claimed = self._connection.execute(
            "UPDATE t SET state = 'running' WHERE no = ANY (ARRAY ("
            "SELECT no FROM t WHERE state = 'ready' ORDER BY no LIMIT %s FOR UPDATE SKIP LOCKED"
            ")) RETURNING no, payload",
            (SET,),
        ).fetchall()
        if not claimed:
            return 0
        return self._connection.execute(
            "UPDATE t SET state = 'done' WHERE no = ANY (%s) AND state = 'running'",
            ([no for no, _ in claimed],),
        ).rowcount


class Redis:
    def __init__(self, url: str) -> None:
        import redis

        self._client = redis.Redis.from_url(url)
        self._client.xgroup_create(STREAM, GROUP, id="0", mkstream=True)

    def put(self, numbers: range) -> None:
        with self._client.pipeline(transaction=False) as pipeline:
            for no in numbers:
                pipeline.execute_command("XADD", STREAM, "*", "body", payload(no))
            pipeline.execute()

    def drain(self) -> int:
        answer = self._client.execute_command(
            "XREADGROUP", "GROUP", GROUP, "worker", "COUNT", SET, "STREAMS", STREAM, ">"
        )
        # A list of one stream, or a table of it: as the client's version has it.
        entries = next(
            iter(answer.values() if isinstance(answer, dict) else [one[1] for one in answer or []]), []
        )
        entries = entries[0] if isinstance(answer, dict) and entries else entries
        with self._client.pipeline(transaction=False) as pipeline:
            for entry in entries:
                pipeline.execute_command("XACK", STREAM, GROUP, entry[0])
                pipeline.execute_command("XDEL", STREAM, entry[0])
            pipeline.execute()
        return len(entries)


def measure(floor: Sqlite | Postgres | Redis, messages: int) -> dict[str, object]:
    began = time.perf_counter()
    for numbers in sets(range(messages)):
        floor.put(numbers)
    put = time.perf_counter()
    done = 0
    while some := floor.drain():
        done += some
    ended = time.perf_counter()
    assert done == messages, done
    return {
        "bulk_per_s": round(messages / (put - began)),
        "drain_per_s": round(messages / (ended - put)),
        "life_per_s": round(messages / (ended - began)),
    }


def main() -> None:
    given = arguments().parse_args()
    if given.backend == "postgres":
        with database(given.url) as own:
            row = measure(Postgres(own), given.messages)
    elif given.backend == "redis":
        row = measure(Redis(given.url), given.messages)
    else:
        with tempfile.TemporaryDirectory() as folder:
            row = measure(Sqlite(str(Path(folder, "floor.db"))), given.messages)
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
