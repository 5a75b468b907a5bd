"""Who is at work."""

import sqlite3

from quire.database.sqlite import SqliteDatabase
from quire.ledger.port import Member
from quire.ledger.record_rows import read_member
from quire.ledger.sqlite.rows import SQL


class SqliteMemberStore:
    _database: SqliteDatabase

    async def add_member(self, name: str, kind: str, place: str, *, now: float) -> Member:
        row = await self._database.write(
            lambda connection: connection.execute(SQL["enlist"], (name, kind, place, now, now)).fetchone()
        )
        return Member(no=row[0], name=name, kind=kind, place=place, beat=0, enlisted_at=now)

    async def record_heartbeat(self, member: int, *, now: float) -> bool:
        changed = await self._database.write(
            lambda connection: connection.execute(SQL["beat"], (now, member)).rowcount
        )
        return bool(changed)

    async def list_members(self) -> list[Member]:
        rows = await self._database.read(lambda connection: connection.execute(SQL["crew"]).fetchall())
        return [read_member(row) for row in rows]

    async def remove_member(self, member: int) -> None:
        def work(connection: sqlite3.Connection) -> None:
            connection.execute(SQL["free_movers"], (member,))
            connection.execute(SQL["dismiss"], (member,))

        await self._database.write(work)
