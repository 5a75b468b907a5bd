"""Queues on SQLite, in the ledger's file or their own; every answer is durable (group commit)."""

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from quire.database.sql import migrations, queries
from quire.database.sqlite import SqliteDatabase
from quire.model.errors import Lost, Reject
from quire.model.ids import Ids
from quire.queues.port import MAX_MESSAGE_BYTES, Depth, Leased, Message

SQL = queries("quire.queues.sql", "sqlite/queries.sql")


class SqliteQueues:
    def __init__(self, database: SqliteDatabase, ids: Ids) -> None:
        self._database = database
        self._ids = ids

    async def prepare(self) -> None:
        """Create or upgrade the tables. May be repeated."""
        await self._database.migrate("queues", migrations("quire.queues.sql", "sqlite"))

    async def send(
        self, queue: str, messages: Sequence[Message], *, now: float, delay_seconds: float = 0
    ) -> None:
        for message in messages:
            if len(message.body) > MAX_MESSAGE_BYTES:
                raise Reject(
                    f"message {message.id} has {len(message.body)} bytes, the limit is {MAX_MESSAGE_BYTES}: "
                    "store its content as a blob and send the key",
                    code="message_too_large",
                )
        rows = [(queue, message.id, message.body, now + delay_seconds, now) for message in messages]
        await self._database.write(lambda connection: connection.executemany(SQL["send"], rows))

    async def lease(self, queue: str, *, limit: int, seconds: float, now: float) -> list[Leased]:
        def work(connection: sqlite3.Connection) -> list[Leased]:
            leased = []
            for no, message_id, body, deliveries in connection.execute(
                SQL["due"], (queue, now, limit)
            ).fetchall():
                token = self._ids.ulid()
                connection.execute(SQL["lease"], (token, now + seconds, no))
                leased.append(
                    Leased(queue=queue, id=message_id, body=body, deliveries=deliveries + 1, token=token)
                )
            return leased

        return await self._database.write(work)

    async def extend(self, leased: Leased, *, seconds: float, now: float) -> None:
        await self._on_lease("extend", leased, (now + seconds,), (now,))

    async def acknowledge(self, leased: Leased, *, now: float) -> None:
        await self._on_lease("acknowledge", leased, (now,))

    async def release(self, leased: Leased, *, now: float, delay_seconds: float, error: str) -> None:
        await self._on_lease("release", leased, (now + delay_seconds, _entry(leased, now, error)))

    async def bury(self, leased: Leased, *, now: float, reason: str) -> None:
        await self._on_lease("bury", leased, (now, _entry(leased, now, reason)))

    async def depth(self, queue: str, *, now: float) -> Depth:
        waiting, out, dead = await self._database.read(
            lambda connection: connection.execute(SQL["depth"], (now, queue)).fetchone()
        )
        return Depth(waiting=waiting, leased=out, dead=dead)

    async def _on_lease(
        self, query: str, leased: Leased, first: tuple[Any, ...], last: tuple[Any, ...] = ()
    ) -> None:
        row = (*first, leased.queue, leased.id, leased.token, *last)
        changed = await self._database.write(lambda connection: connection.execute(SQL[query], row).rowcount)
        if not changed:
            raise Lost(
                f"the lease on {leased.id} in {leased.queue} is gone: stop working on it", code="lease_lost"
            )


def _entry(leased: Leased, now: float, error: str) -> str:
    return json.dumps({"delivery": leased.deliveries, "at": now, "error": error})
