"""The outbox and the alarms."""

from collections.abc import Collection

from quire.database.postgres import PostgresDatabase
from quire.ledger.port import Only, OutboxMessage
from quire.ledger.postgres.rows import all_rows, change, named, one_row


class PostgresOutboxStore:
    _database: PostgresDatabase

    async def outbox(self, limit: int) -> list[OutboxMessage]:
        rows = await self._database.read(lambda connection: all_rows(connection, "outbox_oldest", (limit,)))
        return [OutboxMessage(no=row[0], queue=row[1], message_id=row[2], body=row[3]) for row in rows]

    async def sent(self, numbers: Collection[int]) -> None:
        values = (list(numbers),)
        await self._database.write(lambda connection: change(connection, "delete_letters", values))

    async def next_alarm(self, *, now: float, only: Only = None) -> float | None:
        values = {"now": now, "only": named(only)}
        row = await self._database.read(lambda connection: one_row(connection, "next_alarm", values))
        return None if row is None or row[0] is None else float(row[0])
