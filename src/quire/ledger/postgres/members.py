"""Who is at work."""

from quire.database.postgres import Connection, PostgresDatabase
from quire.ledger.port import Member
from quire.ledger.postgres.rows import all_rows, change, notify_listeners, numbers, one_row
from quire.ledger.record_rows import read_member


class PostgresMemberStore:
    _database: PostgresDatabase

    async def add_member(self, name: str, kind: str, place: str, *, now: float) -> Member:
        (no,) = await self._database.write(
            lambda connection: numbers(connection, "enlist", (name, kind, place, now, now))
        )
        return Member(no=no, name=name, kind=kind, place=place, beat=0, enlisted_at=now)

    async def record_heartbeat(self, member: int, *, now: float) -> bool:
        return bool(await self._database.write(lambda connection: change(connection, "beat", (now, member))))

    async def list_members(self) -> list[Member]:
        rows = await self._database.read(lambda connection: all_rows(connection, "crew", ()))
        return [read_member(row) for row in rows]

    async def remove_member(self, member: int) -> None:
        async def work(connection: Connection) -> None:
            # First of all: whoever claims or takes for this member has ended then, and what it got is seen.
            await one_row(connection, "lock_member", (member,))
            if await change(connection, "free_movers", (member,)):
                await notify_listeners(connection)
            await change(connection, "dismiss", {"member": member})

        await self._database.write(work)
