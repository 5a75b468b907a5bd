"""The outbox and the alarms."""

from collections.abc import Collection

from quire.database.postgres import PostgresDatabase
from quire.ledger.port import OutboxMessage
from quire.ledger.postgres.rows import all_rows, change


class PostgresOutboxStore:
    _database: PostgresDatabase

    async def list_unsent(self, limit: int, *, after: int = 0) -> list[OutboxMessage]:
        rows = await self._database.read(
            lambda connection: all_rows(connection, "outbox_oldest", (after, limit))
        )
        return [
            OutboxMessage(no=no, queue=queue, message_id=message_id, body=body)
            for no, queue, message_id, body in rows
        ]

    async def mark_sent(self, numbers: Collection[int]) -> None:
        values = (list(numbers),)
        await self._database.write(lambda connection: change(connection, "delete_letters", values))
