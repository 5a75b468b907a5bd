"""The ledger on PostgreSQL: rows per file and task, counters beside them, one statement per set of rows.

For several conductors and foremen at once: who claims or settles holds the batch's row, moves are
compare-and-swaps, and what makes work for others is told to those who listen.
One door per module, as in the port; the SQL is in `ledger/postgres/sql`.
"""

from quire.database.postgres import PostgresDatabase
from quire.database.sql import migrations
from quire.ledger.postgres.access import PostgresAccess
from quire.ledger.postgres.batches import PostgresWalk
from quire.ledger.postgres.control import PostgresControl
from quire.ledger.postgres.hooks import PostgresHooks
from quire.ledger.postgres.members import PostgresCrew
from quire.ledger.postgres.outbox import PostgresPost
from quire.ledger.postgres.records import PostgresRecords
from quire.ledger.postgres.submissions import PostgresReception
from quire.ledger.postgres.tasks import PostgresFloor
from quire.ledger.postgres.uploads import PostgresIntake


class PostgresLedger(
    PostgresIntake,
    PostgresWalk,
    PostgresFloor,
    PostgresPost,
    PostgresCrew,
    PostgresControl,
    PostgresRecords,
    PostgresReception,
    PostgresAccess,
    PostgresHooks,
):
    """All doors on one open database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def prepare(self) -> None:
        """Create or upgrade the tables. May be repeated, by several at once."""
        await self._database.migrate("ledger", migrations("quire.ledger.postgres.sql"))


__all__ = ["PostgresLedger"]
