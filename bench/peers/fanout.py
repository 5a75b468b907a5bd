"""What the peers' scripts share: the command line, the peak of memory, the one line of JSON.

Every script runs the same shape: N tasks that do nothing, gathered, then N again. Starting the peer and a few
tasks to warm it up come before the clock, as they do for Quire's engine.
"""

import argparse
import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

PHASES = 2
WARM = 4
_SAMPLE_SECONDS = 0.2


class Peak:
    """The highest sum of resident memory of this process and all it started, the servers in `but` left out.

    Memory that processes share counts in each of them.
    """

    def __init__(self, but: tuple[int, ...] = ()) -> None:
        self._but = set(but)
        self._bytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self):
        self._sample()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        self._sample()

    @property
    def megabytes(self) -> int:
        return round(self._bytes / 1e6)

    def _watch(self) -> None:
        while not self._stop.wait(_SAMPLE_SECONDS):
            self._sample()

    def _sample(self) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        total = 0
        for pid in family(os.getpid(), self._but):
            with contextlib.suppress(OSError, ValueError, IndexError):
                total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * page
        self._bytes = max(self._bytes, total)


def family(root: int, but: set[int]) -> set[int]:
    """`root` and its descendants, without those in `but` and theirs."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                # The name in brackets may hold anything; the parent is the second field after it.
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, left = set(), [root]
    while left:
        pid = left.pop()
        if pid not in but:
            found.add(pid)
            left += children.get(pid, [])
    return found


@contextlib.contextmanager
def database(dsn: str) -> Iterator[str]:
    """The DSN of a new database on the same server, dropped at the end."""
    import uuid

    import psycopg
    from psycopg import conninfo, sql

    name = f"peer_{uuid.uuid4().hex}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            known = conninfo.conninfo_to_dict(dsn)
            secret = f":{known['password']}" if "password" in known else ""
            yield f"postgresql://{known['user']}{secret}@{known['host']}:{known.get('port', 5432)}/{name}"
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def main(
    peer: str, measure: Callable[[argparse.Namespace], tuple[str, float, int]], *, dsn: bool = False
) -> None:
    """Runs `measure`, which gives backend, seconds and peak megabytes, and prints the row."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--tasks", type=int, required=True, help=f"per phase; there are {PHASES} phases")
    if dsn:
        parser.add_argument("--dsn", help="PostgreSQL; without it SQLite")
    given = parser.parse_args()
    # Ended from outside, the servers and folders are still put away.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended before it was done"))
    backend, seconds, peak = measure(given)
    tasks = PHASES * given.tasks
    row = {
        "peer": peer,
        "backend": backend,
        "tasks": tasks,
        "seconds": round(seconds, 3),
        "tasks_per_second": round(tasks / seconds),
        "peak_mb": peak,
    }
    print(json.dumps(row), flush=True)
