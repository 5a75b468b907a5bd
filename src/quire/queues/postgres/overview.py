"""Looking on, and cleaning up."""

from quire.database.postgres import Connection, PostgresDatabase
from quire.queues.port import DEDUPE_SECONDS, Depth, Happening, Waiting
from quire.queues.postgres.rows import all_rows, change
from quire.queues.rows import EARLIER, HOUR_SECONDS, PAGE, minute, waiting_of


class PostgresOverview:
    _database: PostgresDatabase

    async def names(self) -> list[str]:
        rows = await self._database.read(lambda connection: all_rows(connection, "names", {}))
        return [row[0] for row in rows]

    async def depth(self, queue: str, *, now: float) -> Depth:
        values = {"queue": queue, "now": now}
        ((waiting, leased, delayed, oldest_at, dead),) = await self._database.read(
            lambda connection: all_rows(connection, "depth", values)
        )
        return Depth(waiting=waiting, leased=leased, delayed=delayed, dead=dead, oldest_at=oldest_at)

    async def peek(self, queue: str, *, limit: int, now: float) -> list[Waiting]:
        values = {"queue": queue, "limit": max(0, limit), "now": now}
        rows = await self._database.read(lambda connection: all_rows(connection, "peek", values))
        return [waiting_of(queue, row, now=now) for row in rows]

    async def counters(self, queue: str, *, since: float | None = None) -> dict[Happening, int]:
        values = {"queue": queue, "first": EARLIER if since is None else max(0, minute(since))}
        rows = await self._database.read(lambda connection: all_rows(connection, "counters", values))
        found: dict[str, int] = dict(rows)
        return {happening: found.get(happening.value, 0) for happening in Happening}

    async def purge(self, queue: str, *, now: float) -> int:
        async def work(connection: Connection) -> int:
            purged = await change(connection, "purge", {"queue": queue, "now": now})
            if purged:
                counted = {"queue": queue, "minute": minute(now), "number": purged}
                await change(connection, "count", {**counted, "what": Happening.DISCARDED.value})
            return purged

        return await self._database.write(work)

    async def sweep(self, *, now: float) -> int:
        values = {"first": minute(now - HOUR_SECONDS), "earlier": EARLIER}
        await self._database.write(lambda connection: change(connection, "add_up", values))
        over = {"over": now - DEDUPE_SECONDS, "limit": PAGE}
        forgotten = 0
        # In small pieces: no transaction is long, and two who sweep share the work.
        while found := await self._database.write(lambda connection: change(connection, "forget", over)):
            forgotten += found
        return forgotten
