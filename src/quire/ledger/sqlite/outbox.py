"""The outbox and the alarms."""

from collections.abc import Collection

from quire.database.sqlite import SqliteDatabase
from quire.ledger.port import OutboxMessage
from quire.ledger.sqlite.rows import SQL


class SqliteOutboxStore:
    _database: SqliteDatabase

    async def list_unsent(self, limit: int, *, after: int = 0) -> list[OutboxMessage]:
        rows = await self._database.read(
            lambda connection: connection.execute(SQL["outbox_oldest"], (after, limit)).fetchall()
        )
        return [
            OutboxMessage(no=no, queue=queue, message_id=message_id, body=body)
            for no, queue, message_id, body in rows
        ]

    async def mark_sent(self, numbers: Collection[int]) -> None:
        rows = [(number,) for number in numbers]
        await self._database.write(lambda connection: connection.executemany(SQL["delete_letter"], rows))
