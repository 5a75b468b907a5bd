"""Queues on SQLite, in the ledger's file or their own; every answer is durable (group commit).

One port per module; the SQL is in `queues/sqlite/sql`. All users of
the queues in one process share one object: it wakes those that wait.
"""

from quire.database.sql import load_migrations
from quire.database.sqlite import SqliteDatabase
from quire.model.ids import Ids
from quire.queues.notifier import Notifier
from quire.queues.sqlite.dead_letters import SqliteDeadLetters
from quire.queues.sqlite.leases import SqliteLeases
from quire.queues.sqlite.overview import SqliteOverview


class SqliteQueues(SqliteLeases, SqliteDeadLetters, SqliteOverview):
    """Every queue port on one open database."""

    def __init__(self, database: SqliteDatabase, ids: Ids) -> None:
        self._database = database
        self._ids = ids
        # Looked up when it is needed: the database of the simulator has no `listen`.
        self._notifier = Notifier(lambda heard: database.listen(heard))  # noqa: PLW0108

    async def prepare(self) -> None:
        """Create or upgrade the tables. May be repeated."""
        await self._database.migrate("queues", load_migrations("quire.queues.sqlite.sql"))


__all__ = ["SqliteQueues"]
