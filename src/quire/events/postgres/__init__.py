"""Webhooks and deliveries in the ledger's PostgreSQL database, whose migrations create the tables.

The ledger inserts deliveries, in the transaction of their event.
"""

from collections.abc import Sequence

from quire.database.postgres import Connection, PostgresDatabase
from quire.database.postgres_queries import PostgresQueries, Values, clean_row, clean_text
from quire.events.port import Webhook, WebhookDelivery
from quire.events.rows import Row, to_delivery, to_webhook, unknown_batch
from quire.model.errors import Stale

_queries = PostgresQueries("quire.events.postgres", "queries.sql")


class PostgresWebhookStore:
    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def add_webhook(self, hook: Webhook) -> None:
        async def work(connection: Connection) -> None:
            batch_no = None
            if hook.batch_id:
                name = clean_row((hook.batch_id,))
                found = await _queries.one_row(connection, "batch_no_by_id", name)
                if found is None:
                    raise unknown_batch(hook.batch_id)
                batch_no = found[0]
            kinds = list(clean_row(hook.kinds))
            values = (hook.id, batch_no, hook.url, hook.secret, kinds, hook.created_at, hook.disabled_at)
            row = clean_row((*values, hook.disabled_reason))
            if not await _queries.change(connection, "insert_hook", row):
                raise Stale(f"there is a webhook {hook.id} already")

        await self._database.write(work)

    async def get_webhook(self, hook_id: str) -> Webhook:
        return await self._database.read(lambda connection: _load_webhook(connection, hook_id))

    async def list_webhooks(self, *, batch_id: str | None = None) -> list[Webhook]:
        query, values = "all_hooks", ()
        if batch_id is not None:
            query, values = (
                ("hooks_of_batch", clean_row((batch_id,))) if batch_id else ("hooks_of_no_batch", ())
            )
        rows = await self._database.read(lambda connection: _queries.all_rows(connection, query, values))
        return [to_webhook(row, "", tuple) for row in rows]

    async def disable_webhook(self, hook_id: str, *, reason: str, now: float) -> Webhook:
        async def work(connection: Connection) -> Webhook:
            name, why = clean_row((hook_id, reason))
            if await _queries.change(connection, "disable_hook", (now, why, name)):
                error = f"the webhook was disabled: {why}"
                await _queries.change(connection, "fail_deliveries", (error, name))
            return await _load_webhook(connection, hook_id)

        return await self._database.write(work)

    async def lease_deliveries(
        self, *, limit: int, now: float, lease_seconds: float
    ) -> list[WebhookDelivery]:
        async def work(connection: Connection) -> list[Row]:
            values = {"now": now, "lease": lease_seconds, "limit": limit}
            due = await _queries.numbers(connection, "lease_deliveries", values)
            return await _queries.all_rows(connection, "deliveries_by_no", (due,)) if due else []

        return [to_delivery(row) for row in await self._database.write(work)]

    async def next_delivery_at(self) -> float | None:
        row = await self._database.read(lambda connection: _queries.one_row(connection, "next_delivery", ()))
        return None if row is None or row[0] is None else float(row[0])

    async def record_try(
        self, no: int, *, tries: int, status: int | None, error: str, next_at: float | None, now: float
    ) -> None:
        values: Values = {
            "no": no,
            "tries": tries,
            "status": status,
            "error": clean_text(error),
            "next_at": next_at,
            "now": now,
        }
        await self._database.write(lambda connection: _queries.change(connection, "record_try", values))

    async def list_deliveries(
        self,
        *,
        hook_id: str | None = None,
        batch_id: str | None = None,
        before: int | None = None,
        limit: int,
    ) -> list[WebhookDelivery]:
        query = "all_deliveries" if hook_id is None else "deliveries_of_hook"
        if batch_id is not None:
            query = "deliveries_of_batch"
        values: Values = {
            "hook_id": clean_text(hook_id),
            "batch_id": clean_text(batch_id),
            "before": before,
            "limit": limit,
        }
        rows = await self._database.read(lambda connection: _queries.all_rows(connection, query, values))
        return [to_delivery(row) for row in rows]

    async def redeliver(self, nos: Sequence[int], *, now: float) -> int:
        async def work(connection: Connection) -> int:
            changed = await _queries.change(connection, "redeliver", {"now": now, "nos": list(nos)})
            if changed:
                await _queries.change(connection, "wake", ())
            return changed

        return await self._database.write(work)


async def _load_webhook(connection: Connection, hook_id: str) -> Webhook:
    row = await _queries.one_row(connection, "hook_by_id", clean_row((hook_id,)))
    return to_webhook(row, hook_id, tuple)
