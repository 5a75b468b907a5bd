"""The outbox and the alarms."""

from collections.abc import Collection

from quire.database.postgres import Connection, PostgresDatabase
from quire.ledger.port import Letter
from quire.ledger.postgres.rows import all_rows, change, one_row


class PostgresPost:
    _database: PostgresDatabase

    async def outbox(self, limit: int) -> list[Letter]:
        rows = await self._database.read(lambda connection: all_rows(connection, "outbox_oldest", (limit,)))
        return [Letter(no=row[0], queue=row[1], message_id=row[2], body=row[3]) for row in rows]

    async def sent(self, numbers: Collection[int]) -> None:
        values = (list(numbers),)
        await self._database.write(lambda connection: change(connection, "delete_letters", values))

    async def next_alarm(self, batch_no: int) -> float | None:
        row = await self._database.read(lambda connection: one_row(connection, "alarm", (batch_no,)))
        return None if row is None else float(row[0])

    async def clear_alarm(self, batch_no: int, *, now: float) -> None:
        async def work(connection: Connection) -> None:
            if await change(connection, "clear_alarm", (batch_no, now)):
                following = await one_row(connection, "next_due", (batch_no,))
                if following is not None and following[0] is not None:
                    await change(connection, "set_alarm", (batch_no, following[0]))

        await self._database.write(work)
