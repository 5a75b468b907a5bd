"""Queues on PostgreSQL, beside the ledger or in a database of their own; every answer is durable.

Any number of consumers on any number of machines may lease at once: none waits for another, and no message
is out twice. Whatever becomes deliverable is told on the channel `quire`, so that who waits may listen
instead of asking.
"""

import json
from collections.abc import Sequence
from typing import Any

from quire.database.postgres import Connection, PostgresDatabase
from quire.database.sql import migrations, queries
from quire.model.errors import Lost, Reject
from quire.model.ids import Ids
from quire.queues.port import MAX_MESSAGE_BYTES, Depth, Leased, Message

# As bytes: psycopg takes text only where it is written out in the code.
SQL = {name: text.encode() for name, text in queries("quire.queues.sql", "postgres/queries.sql").items()}


class PostgresQueues:
    def __init__(self, database: PostgresDatabase, ids: Ids) -> None:
        self._database = database
        self._ids = ids

    async def prepare(self) -> None:
        """Create or upgrade the tables. May be repeated."""
        await self._database.migrate("queues", migrations("quire.queues.sql", "postgres"))

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
        await self._change(
            "send",
            queue=queue,
            ids=[message.id for message in messages],
            bodies=[message.body for message in messages],
            due_at=now + delay_seconds,
            now=now,
        )

    async def lease(self, queue: str, *, limit: int, seconds: float, now: float) -> list[Leased]:
        # One for all of them: a lease is proven by queue, id and token together.
        token = self._ids.ulid()
        values = {"queue": queue, "limit": limit, "token": token, "until": now + seconds, "now": now}
        rows = await self._database.write(lambda connection: _rows(connection, "lease", values))
        return [
            Leased(queue=queue, id=message_id, body=body, deliveries=deliveries, token=token)
            for message_id, body, deliveries in rows
        ]

    async def extend(self, leased: Leased, *, seconds: float, now: float) -> None:
        await self._on_lease("extend", leased, until=now + seconds, now=now)

    async def acknowledge(self, leased: Leased, *, now: float) -> None:
        await self._on_lease("acknowledge", leased, now=now)

    async def release(self, leased: Leased, *, now: float, delay_seconds: float, error: str) -> None:
        await self._on_lease("release", leased, due_at=now + delay_seconds, entry=_entry(leased, now, error))

    async def bury(self, leased: Leased, *, now: float, reason: str) -> None:
        await self._on_lease("bury", leased, now=now, entry=_entry(leased, now, reason))

    async def depth(self, queue: str, *, now: float) -> Depth:
        ((waiting, out, dead),) = await self._database.read(
            lambda connection: _rows(connection, "depth", {"queue": queue, "now": now})
        )
        return Depth(waiting=waiting, leased=out, dead=dead)

    async def _on_lease(self, query: str, leased: Leased, **values: object) -> None:
        if not await self._change(query, queue=leased.queue, id=leased.id, token=leased.token, **values):
            raise Lost(
                f"the lease on {leased.id} in {leased.queue} is gone: stop working on it", code="lease_lost"
            )

    async def _change(self, query: str, **values: object) -> int:
        async def work(connection: Connection) -> int:
            return (await connection.execute(SQL[query], values)).rowcount

        return await self._database.write(work)


async def _rows(connection: Connection, query: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
    return await (await connection.execute(SQL[query], values)).fetchall()


def _entry(leased: Leased, now: float, error: str) -> str:
    return json.dumps({"delivery": leased.deliveries, "at": now, "error": error})
