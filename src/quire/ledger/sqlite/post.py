"""The outbox and the alarms."""

import sqlite3
from collections.abc import Collection

from quire.database.sqlite import SqliteDatabase
from quire.ledger.port import Letter
from quire.ledger.sqlite.rows import SQL


class SqlitePost:
    _database: SqliteDatabase

    async def outbox(self, limit: int) -> list[Letter]:
        rows = await self._database.read(
            lambda connection: connection.execute(SQL["outbox_oldest"], (limit,)).fetchall()
        )
        return [Letter(no=row[0], queue=row[1], message_id=row[2], body=row[3]) for row in rows]

    async def sent(self, numbers: Collection[int]) -> None:
        rows = [(number,) for number in numbers]
        await self._database.write(lambda connection: connection.executemany(SQL["delete_letter"], rows))

    async def next_alarm(self, batch_no: int) -> float | None:
        row = await self._database.read(
            lambda connection: connection.execute(SQL["alarm"], (batch_no,)).fetchone()
        )
        return None if row is None else float(row[0])

    async def clear_alarm(self, batch_no: int, *, now: float) -> None:
        def work(connection: sqlite3.Connection) -> None:
            if connection.execute(SQL["clear_alarm"], (batch_no, now)).rowcount:
                following = connection.execute(SQL["next_due"], (batch_no,)).fetchone()[0]
                if following is not None:
                    connection.execute(SQL["set_alarm"], (batch_no, following))

        await self._database.write(work)
