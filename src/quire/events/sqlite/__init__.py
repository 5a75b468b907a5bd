"""Webhooks and deliveries in the ledger's SQLite database, whose migrations create the tables.

The ledger inserts deliveries, in the transaction of their event.
"""

import json
import sqlite3
from collections.abc import Sequence

from quire.database.sql import load_queries
from quire.database.sqlite import SqliteDatabase
from quire.events.port import Webhook, WebhookDelivery
from quire.events.rows import Row, to_delivery, to_webhook, unknown_batch
from quire.model.errors import Stale

SQL = load_queries("quire.events.sqlite", "queries.sql")


class SqliteWebhookStore:
    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def add_webhook(self, hook: Webhook) -> None:
        def work(connection: sqlite3.Connection) -> None:
            batch_no = None
            if hook.batch_id:
                found = connection.execute(SQL["batch_no_by_id"], (hook.batch_id,)).fetchone()
                if found is None:
                    raise unknown_batch(hook.batch_id)
                batch_no = found[0]
            kinds = json.dumps(hook.kinds)
            values = (hook.id, batch_no, hook.url, hook.secret, kinds, hook.created_at, hook.disabled_at)
            if not connection.execute(SQL["insert_hook"], (*values, hook.disabled_reason)).rowcount:
                raise Stale(f"there is a webhook {hook.id} already")

        await self._database.write(work)

    async def get_webhook(self, hook_id: str) -> Webhook:
        return await self._database.read(lambda connection: _load_webhook(connection, hook_id))

    async def list_webhooks(self, *, batch_id: str | None = None) -> list[Webhook]:
        query: str = "all_hooks"
        values: Row = ()
        if batch_id is not None:
            query, values = ("hooks_of_batch", (batch_id,)) if batch_id else ("hooks_of_no_batch", ())
        rows = await self._database.read(lambda connection: connection.execute(SQL[query], values).fetchall())
        return [to_webhook(row, "", json.loads) for row in rows]

    async def disable_webhook(self, hook_id: str, *, reason: str, now: float) -> Webhook:
        def work(connection: sqlite3.Connection) -> Webhook:
            if connection.execute(SQL["disable_hook"], (now, reason, hook_id)).rowcount:
                connection.execute(SQL["fail_deliveries"], (f"the webhook was disabled: {reason}", hook_id))
            return _load_webhook(connection, hook_id)

        return await self._database.write(work)

    async def lease_deliveries(
        self, *, limit: int, now: float, lease_seconds: float
    ) -> list[WebhookDelivery]:
        def work(connection: sqlite3.Connection) -> list[Row]:
            due = connection.execute(SQL["lease_deliveries"], (now, lease_seconds, limit)).fetchall()
            return [connection.execute(SQL["delivery_by_no"], one).fetchone() for one in sorted(due)]

        return [to_delivery(row) for row in await self._database.write(work)]

    async def next_delivery_at(self) -> float | None:
        row = await self._database.read(
            lambda connection: connection.execute(SQL["next_delivery"]).fetchone()
        )
        return None if row[0] is None else float(row[0])

    async def record_try(
        self, no: int, *, tries: int, status: int | None, error: str, next_at: float | None, now: float
    ) -> None:
        values = (error, next_at, status, now, no, tries)
        await self._database.write(lambda connection: connection.execute(SQL["record_try"], values))

    async def list_deliveries(
        self,
        *,
        hook_id: str | None = None,
        batch_id: str | None = None,
        before: int | None = None,
        limit: int,
    ) -> list[WebhookDelivery]:
        query: str = "all_deliveries"
        values: Row = (before, limit)
        if batch_id is not None:
            query, values = "deliveries_of_batch", (before, limit, hook_id, batch_id)
        elif hook_id is not None:
            query, values = "deliveries_of_hook", (before, limit, hook_id)
        rows = await self._database.read(lambda connection: connection.execute(SQL[query], values).fetchall())
        return [to_delivery(row) for row in rows]

    async def redeliver(self, nos: Sequence[int], *, now: float) -> int:
        values = (now, json.dumps(list(nos)))
        return await self._database.write(
            lambda connection: connection.execute(SQL["redeliver"], values).rowcount
        )


def _load_webhook(connection: sqlite3.Connection, hook_id: str) -> Webhook:
    row = connection.execute(SQL["hook_by_id"], (hook_id,)).fetchone()
    return to_webhook(row, hook_id, json.loads)
