"""The ledger on SQLite: rows per file and task, counters beside them, set-based statements.

One door per module, as in the port; the SQL is in `ledger/sql/sqlite`.
"""

from quire.database.sql import migrations
from quire.database.sqlite import SqliteDatabase
from quire.ledger.sqlite.access import SqliteAccess
from quire.ledger.sqlite.control import SqliteControl
from quire.ledger.sqlite.crew import SqliteCrew
from quire.ledger.sqlite.floor import SqliteFloor
from quire.ledger.sqlite.hooks import SqliteHooks
from quire.ledger.sqlite.intake import SqliteIntake
from quire.ledger.sqlite.post import SqlitePost
from quire.ledger.sqlite.reception import SqliteReception
from quire.ledger.sqlite.records import SqliteRecords
from quire.ledger.sqlite.walk import SqliteWalk


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
        await self._database.migrate("ledger", migrations("quire.ledger.sql", "sqlite"))


__all__ = ["SqliteLedger"]
