"""The ledger on SQLite: rows per file and task, counters beside them, set-based statements.

One door per module, as in the port; the SQL is in `ledger/sqlite/sql`.
"""

from quire.database.sql import migrations
from quire.database.sqlite import SqliteDatabase
from quire.ledger.sqlite.access import SqliteAccess
from quire.ledger.sqlite.batches import SqliteWalk
from quire.ledger.sqlite.control import SqliteControl
from quire.ledger.sqlite.hooks import SqliteHooks
from quire.ledger.sqlite.members import SqliteCrew
from quire.ledger.sqlite.outbox import SqlitePost
from quire.ledger.sqlite.records import SqliteRecords
from quire.ledger.sqlite.submissions import SqliteReception
from quire.ledger.sqlite.tasks import SqliteFloor
from quire.ledger.sqlite.uploads import SqliteIntake


class SqliteLedger(
    SqliteIntake,
    SqliteWalk,
    SqliteFloor,
    SqlitePost,
    SqliteCrew,
    SqliteControl,
    SqliteRecords,
    SqliteReception,
    SqliteAccess,
    SqliteHooks,
):
    """All doors on one open database."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def prepare(self) -> None:
        """Create or upgrade the tables. May be repeated."""
        await self._database.migrate("ledger", migrations("quire.ledger.sqlite.sql"))


__all__ = ["SqliteLedger"]
