"""The ledger on PostgreSQL: rows per file and task, counters beside them, one statement per set of rows.

Several schedulers and dispatchers may work at once: a claim or a settlement locks the batch's row, moves are
compare-and-swaps, and a change that makes work for other processes notifies those that listen.
One store per module, as in the port; the SQL is in `ledger/postgres/sql`.
"""

from quire.database.postgres import PostgresDatabase
from quire.database.sql import load_migrations
from quire.ledger.documents import KnownDocuments
from quire.ledger.postgres.adoption import PostgresAdoptionStore
from quire.ledger.postgres.batches import PostgresBatchStore
from quire.ledger.postgres.control import PostgresControlStore
from quire.ledger.postgres.flow import PostgresFlowStore
from quire.ledger.postgres.flow_claims import PostgresFlowClaimStore
from quire.ledger.postgres.flow_units import PostgresFlowUnitStore
from quire.ledger.postgres.intake import PostgresIntakeStore
from quire.ledger.postgres.members import PostgresMemberStore
from quire.ledger.postgres.outbox import PostgresOutboxStore
from quire.ledger.postgres.records import PostgresRecordStore
from quire.ledger.postgres.submissions import PostgresSubmissionStore
from quire.ledger.postgres.tasks import PostgresTaskStore
from quire.ledger.postgres.uploads import PostgresUploadStore


class PostgresLedger(
    PostgresUploadStore,
    PostgresBatchStore,
    PostgresTaskStore,
    PostgresFlowStore,
    PostgresAdoptionStore,
    PostgresFlowClaimStore,
    PostgresFlowUnitStore,
    PostgresIntakeStore,
    PostgresOutboxStore,
    PostgresMemberStore,
    PostgresControlStore,
    PostgresRecordStore,
    PostgresSubmissionStore,
):
    """All doors on one open database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._documents = KnownDocuments()

    async def prepare(self) -> None:
        """Create or upgrade the tables. May be repeated, by several at once."""
        await self._database.migrate("ledger", load_migrations("quire.ledger.postgres.sql"))


__all__ = ["PostgresLedger"]
