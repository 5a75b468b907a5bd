"""Queues on PostgreSQL, beside the ledger or in a database of their own; every answer is durable.

Any number of consumers on any number of machines may lease at once: none waits for another, and no message
is leased twice. New messages send a notification on the channel `quire`, so that waiting consumers need not
poll. One port per module; the SQL is in `queues/postgres/sql`.
"""

from quire.database.postgres import PostgresDatabase
from quire.database.sql import load_migrations
from quire.model.ids import Ids
from quire.queues.notifier import Notifier
from quire.queues.postgres.dead_letters import PostgresDeadLetters
from quire.queues.postgres.leases import PostgresLeases
from quire.queues.postgres.overview import PostgresOverview


class PostgresQueues(PostgresLeases, PostgresDeadLetters, PostgresOverview):
    """Every queue port on one open database."""

    def __init__(self, database: PostgresDatabase, ids: Ids) -> None:
        self._database = database
        self._ids = ids
        self._notifier = Notifier(database.listen)

    async def prepare(self) -> None:
        """Create or upgrade the tables. May be repeated."""
        await self._database.migrate("queues", load_migrations("quire.queues.postgres.sql"))


__all__ = ["PostgresQueues"]
