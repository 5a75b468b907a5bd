"""The named queries of this adapter and how they are run."""

import json

from quire.database.postgres_queries import PostgresQueries
from quire.queues.port import DeadLetter
from quire.queues.rows import Row, to_dead_letter

_queries = PostgresQueries("quire.queues.postgres.sql", "queries.sql", binary=True)
all_rows, change = _queries.all_rows, _queries.change


def read_dead_letter(queue: str, row: Row) -> DeadLetter:
    """From the columns of `dead`, up to the history."""
    *columns, history = row
    return to_dead_letter(queue, (*columns, [json.loads(one) for one in history]))
