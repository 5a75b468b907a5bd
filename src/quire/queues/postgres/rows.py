"""The named queries of this adapter and how they are run."""

import json

from quire.database.postgres_queries import PostgresQueries
from quire.queues.port import DeadLetter
from quire.queues.rows import Row, dead_letter_of

_queries = PostgresQueries("quire.queues.postgres.sql", "queries.sql", binary=True)
all_rows, change = _queries.all_rows, _queries.change


def letter_of(queue: str, row: Row) -> DeadLetter:
    """From the columns of `dead`, up to the history."""
    return dead_letter_of(queue, (*row[:8], [json.loads(one) for one in row[8]]))
