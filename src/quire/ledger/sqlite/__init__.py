"""The ledger on SQLite: rows per file and task, counters beside them, set-based statements.

One door per module, as in the port; the SQL is in `ledger/sqlite/sql`.
"""

from quire.database.sql import load_migrations
from quire.database.sqlite import SqliteDatabase
from quire.ledger.documents import KnownDocuments
from quire.ledger.sqlite.adoption import SqliteAdoptionStore
from quire.ledger.sqlite.batches import SqliteBatchStore
from quire.ledger.sqlite.control import SqliteControlStore
from quire.ledger.sqlite.flow import SqliteFlowStore
from quire.ledger.sqlite.flow_claims import SqliteFlowClaimStore
from quire.ledger.sqlite.flow_units import SqliteFlowUnitStore
from quire.ledger.sqlite.intake import SqliteIntakeStore
from quire.ledger.sqlite.members import SqliteMemberStore
from quire.ledger.sqlite.outbox import SqliteOutboxStore
from quire.ledger.sqlite.records import SqliteRecordStore
from quire.ledger.sqlite.submissions import SqliteSubmissionStore
from quire.ledger.sqlite.tasks import SqliteTaskStore
from quire.ledger.sqlite.uploads import SqliteUploadStore


class SqliteLedger(
    SqliteUploadStore,
    SqliteBatchStore,
    SqliteTaskStore,
    SqliteFlowStore,
    SqliteFlowClaimStore,
    SqliteAdoptionStore,
    SqliteFlowUnitStore,
    SqliteIntakeStore,
    SqliteOutboxStore,
    SqliteMemberStore,
    SqliteControlStore,
    SqliteRecordStore,
    SqliteSubmissionStore,
):
    """All doors on one open database."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self._documents = KnownDocuments()

    async def prepare(self) -> None:
        """Create or upgrade the tables. May be repeated."""
        await self._database.migrate("ledger", load_migrations("quire.ledger.sqlite.sql"))


__all__ = ["SqliteLedger"]
