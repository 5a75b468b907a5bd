"""Inspection and clean-up."""

import sqlite3

from quire.database.sqlite import SqliteDatabase
from quire.queues.port import DEDUPE_SECONDS, QueueCounter, QueueDepth, QueuedMessage
from quire.queues.rows import EARLIER, HOUR_SECONDS, PAGE, PRIORITIES, Row, to_minute, to_queued_message
from quire.queues.sqlite.rows import SQL, count


class SqliteOverview:
    _database: SqliteDatabase

    async def names(self) -> list[str]:
        rows = await self._database.read(lambda connection: connection.execute(SQL["names"]).fetchall())
        return [row[0] for row in rows]

    async def depth(self, queue: str, *, now: float) -> QueueDepth:
        waiting, leased, delayed, oldest_at, dead = await self._database.read(
            lambda connection: connection.execute(SQL["depth"], (now, queue)).fetchone()
        )
        return QueueDepth(waiting=waiting, leased=leased, delayed=delayed, dead=dead, oldest_at=oldest_at)

    async def peek(self, queue: str, *, limit: int, now: float) -> list[QueuedMessage]:
        def work(connection: sqlite3.Connection) -> list[Row]:
            found: list[Row] = []
            for query in ("peek_due", "peek_delayed", "peek_leased"):
                for priority in PRIORITIES:
                    if len(found) < limit:
                        values = (queue, priority, now, limit - len(found))
                        found += connection.execute(SQL[query], values).fetchall()
            return found

        return [to_queued_message(queue, row, now=now) for row in await self._database.read(work)]

    async def counters(self, queue: str, *, since: float | None = None) -> dict[QueueCounter, int]:
        first = EARLIER if since is None else max(0, to_minute(since))
        found = dict(
            await self._database.read(
                lambda connection: connection.execute(SQL["counters"], (queue, first)).fetchall()
            )
        )
        return {happening: found.get(happening.value, 0) for happening in QueueCounter}

    async def purge(self, queue: str, *, now: float) -> int:
        def work(connection: sqlite3.Connection) -> int:
            purged = connection.execute(SQL["purge"], (queue, now)).rowcount
            count(connection, queue, QueueCounter.DISCARDED, purged, now=now)
            return purged

        return await self._database.write(work)

    async def sweep(self, *, now: float) -> int:
        def forget(connection: sqlite3.Connection) -> int:
            return connection.execute(SQL["forget"], (now - DEDUPE_SECONDS, PAGE)).rowcount

        def add_up(connection: sqlite3.Connection) -> None:
            first = to_minute(now - HOUR_SECONDS)
            connection.execute(SQL["add_up"], (EARLIER, first))
            connection.execute(SQL["forget_minutes"], (first,))

        await self._database.write(add_up)
        forgotten = 0
        # In small steps, so that other writers get in between.
        while found := await self._database.write(forget):
            forgotten += found
        return forgotten
