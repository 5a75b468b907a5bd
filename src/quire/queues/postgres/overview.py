"""Inspection and clean-up."""

from quire.database.postgres import Connection, PostgresDatabase
from quire.queues.port import DEDUPE_SECONDS, QueueCounter, QueueDepth, QueuedMessage
from quire.queues.postgres.rows import all_rows, change
from quire.queues.rows import EARLIER, HOUR_SECONDS, PAGE, Row, to_minute, to_queued_message


class PostgresOverview:
    _database: PostgresDatabase

    async def names(self) -> list[str]:
        rows = await self._database.read(lambda connection: all_rows(connection, "names", {}))
        return [row[0] for row in rows]

    async def depth(self, queue: str, *, now: float) -> QueueDepth:
        values = {"queue": queue, "now": now}
        ((waiting, leased, delayed, oldest_at, dead),) = await self._database.read(
            lambda connection: all_rows(connection, "depth", values)
        )
        return QueueDepth(waiting=waiting, leased=leased, delayed=delayed, dead=dead, oldest_at=oldest_at)

    async def peek(self, queue: str, *, limit: int, now: float) -> list[QueuedMessage]:
        async def work(connection: Connection) -> list[Row]:
            found: list[Row] = []
            # One after the other: where there are many delayed messages, leased ones are far behind them.
            for query in ("peek_due", "peek_delayed", "peek_leased"):
                if len(found) < limit:
                    values = {"queue": queue, "limit": limit - len(found), "now": now}
                    found += await all_rows(connection, query, values)
            return found

        return [to_queued_message(queue, row, now=now) for row in await self._database.read(work)]

    async def counters(self, queue: str, *, since: float | None = None) -> dict[QueueCounter, int]:
        values = {"queue": queue, "first": EARLIER if since is None else max(0, to_minute(since))}
        rows = await self._database.read(lambda connection: all_rows(connection, "counters", values))
        found: dict[str, int] = dict(rows)
        return {happening: found.get(happening.value, 0) for happening in QueueCounter}

    async def purge(self, queue: str, *, now: float) -> int:
        async def work(connection: Connection) -> int:
            purged = await change(connection, "purge", {"queue": queue, "now": now})
            if purged:
                counted = {"queue": queue, "minute": to_minute(now), "number": purged}
                await change(connection, "count", {**counted, "what": QueueCounter.DISCARDED.value})
            return purged

        return await self._database.write(work)

    async def sweep(self, *, now: float) -> int:
        values = {"first": to_minute(now - HOUR_SECONDS), "earlier": EARLIER}
        await self._database.write(lambda connection: change(connection, "add_up", values))
        over = {"over": now - DEDUPE_SECONDS, "limit": PAGE}
        forgotten = 0
        # In small steps: no transaction is long, and two sweeps share the work.
        while found := await self._database.write(lambda connection: change(connection, "forget", over)):
            forgotten += found
        return forgotten
