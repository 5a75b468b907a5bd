"""DBOS: a workflow that enqueues children and waits for their results, twice; all state in the database.

Written as its documentation does it. Both polling intervals are far below their defaults of one second, which
would otherwise be the figure.
"""

import argparse
import contextlib
import sqlite3
import tempfile
import time
from pathlib import Path

from dbos import DBOS
from fanout import PHASES, WARM, Peak, database, main

QUEUE = "noop"
QUEUE_POLL_SECONDS = 0.05
RESULT_POLL_SECONDS = 0.01


@DBOS.workflow()
def noop(number: int) -> int:
    return number


@DBOS.workflow()
def batch(tasks: int) -> int:
    done = 0
    for _ in range(PHASES):
        handles = [DBOS.enqueue_workflow(QUEUE, noop, number) for number in range(tasks)]
        done += len([handle.get_result(polling_interval_sec=RESULT_POLL_SECONDS) for handle in handles])
    return done


def measure(given: argparse.Namespace) -> tuple[str, float, int]:
    with contextlib.ExitStack() as stack:
        if given.dsn:
            url = stack.enter_context(database(given.dsn))
        else:
            file = Path(stack.enter_context(tempfile.TemporaryDirectory()), "dbos.db")
            # The mode stays with the file. DBOS leaves the slower rollback journal on.
            with contextlib.closing(sqlite3.connect(file)) as connection:
                connection.execute("PRAGMA journal_mode=WAL")
            url = f"sqlite:///{file}"
        DBOS(config={"name": "fanout", "system_database_url": url, "log_level": "WARNING"})
        stack.callback(DBOS.destroy)
        DBOS.launch()
        DBOS.register_queue(QUEUE, polling_interval_sec=QUEUE_POLL_SECONDS)
        batch(WARM)
        with Peak() as peak:
            began = time.perf_counter()
            done = DBOS.start_workflow(batch, given.tasks).get_result()
            seconds = time.perf_counter() - began
        assert done == PHASES * given.tasks, done
    return ("postgres" if given.dsn else "sqlite"), seconds, peak.megabytes


if __name__ == "__main__":
    main("dbos", measure, dsn=True)
