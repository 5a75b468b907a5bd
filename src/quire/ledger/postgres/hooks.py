"""Who wants to be told, and what is on its way to them. Deliveries are made with their event: see `note`."""

from collections.abc import Sequence

from quire.database.postgres import Connection, PostgresDatabase
from quire.ledger.access_rows import delivery_of, hook_of, no_batch
from quire.ledger.hooks import Webhook, WebhookDelivery
from quire.ledger.postgres.rows import Values, all_rows, change, numbers, one_row, plain, readable, wake
from quire.ledger.rows import Row
from quire.model.errors import Stale


class PostgresWebhookStore:
    _database: PostgresDatabase

    async def add_hook(self, hook: Webhook) -> None:
        async def work(connection: Connection) -> None:
            batch_no = None
            if hook.batch_id:
                found = await one_row(connection, "batch_no_by_id", plain((hook.batch_id,)))
                if found is None:
                    raise no_batch(hook.batch_id)
                batch_no = found[0]
            kinds = list(plain(hook.kinds))
            values = (hook.id, batch_no, hook.url, hook.secret, kinds, hook.created_at, hook.disabled_at)
            if not await change(connection, "insert_hook", plain((*values, hook.disabled_reason))):
                raise Stale(f"there is a webhook {hook.id} already")

        await self._database.write(work)

    async def hook(self, hook_id: str) -> Webhook:
        return await self._database.read(lambda connection: _hook(connection, hook_id))

    async def hooks(self, *, batch_id: str | None = None) -> list[Webhook]:
        query, values = "all_hooks", ()
        if batch_id is not None:
            query, values = ("hooks_of_batch", plain((batch_id,))) if batch_id else ("hooks_of_no_batch", ())
        rows = await self._database.read(lambda connection: all_rows(connection, query, values))
        return [_hook_of(row, "") for row in rows]

    async def disable_hook(self, hook_id: str, *, reason: str, now: float) -> Webhook:
        async def work(connection: Connection) -> Webhook:
            name, why = plain((hook_id, reason))
            if await change(connection, "disable_hook", (now, why, name)):
                await change(connection, "fail_deliveries", (f"the webhook was disabled: {why}", name))
            return await _hook(connection, hook_id)

        return await self._database.write(work)

    async def due_deliveries(self, *, limit: int, now: float, lease_seconds: float) -> list[WebhookDelivery]:
        async def work(connection: Connection) -> list[Row]:
            values = {"now": now, "lease": lease_seconds, "limit": limit}
            due = await numbers(connection, "due_deliveries", values)
            return await all_rows(connection, "deliveries_by_no", (due,)) if due else []

        return [delivery_of(row) for row in await self._database.write(work)]

    async def next_delivery(self) -> float | None:
        row = await self._database.read(lambda connection: one_row(connection, "next_delivery", ()))
        return None if row is None or row[0] is None else float(row[0])

    async def told(
        self, no: int, *, tries: int, status: int | None, error: str, next_at: float | None, now: float
    ) -> None:
        values = {"no": no, "tries": tries, "status": status, "error": readable(error), "next_at": next_at}
        await self._database.write(lambda connection: change(connection, "told", values | {"now": now}))

    async def deliveries(
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
            "hook_id": readable(hook_id),
            "batch_id": readable(batch_id),
            "before": before,
            "limit": limit,
        }
        rows = await self._database.read(lambda connection: all_rows(connection, query, values))
        return [delivery_of(row) for row in rows]

    async def redeliver(self, nos: Sequence[int], *, now: float) -> int:
        async def work(connection: Connection) -> int:
            changed = await change(connection, "redeliver", {"now": now, "nos": list(nos)})
            if changed:
                await wake(connection)
            return changed

        return await self._database.write(work)


async def _hook(connection: Connection, hook_id: str) -> Webhook:
    return _hook_of(await one_row(connection, "hook_by_id", plain((hook_id,))), hook_id)


def _hook_of(row: Row | None, name: str) -> Webhook:
    return hook_of(row, name, () if row is None else row[4])
