"""Who may: API keys."""

from quire.database.postgres import Connection, PostgresDatabase
from quire.ledger.access import ApiKey
from quire.ledger.access_rows import key_columns, key_of
from quire.ledger.postgres.rows import all_rows, change, one_row, plain
from quire.model.errors import Stale


class PostgresApiKeyStore:
    _database: PostgresDatabase

    async def add_key(self, key: ApiKey) -> None:
        values = plain(key_columns(key))
        if not await self._database.write(lambda connection: change(connection, "insert_key", values)):
            raise Stale(f"there is a key {key.id} already")

    async def key_by_hash(self, digest: str) -> ApiKey | None:
        row = await self._database.read(lambda connection: one_row(connection, "key_by_hash", (digest,)))
        return None if row is None else key_of(row, "")

    async def key(self, key_id: str) -> ApiKey:
        return await self._database.read(lambda connection: _key(connection, key_id))

    async def keys(self) -> list[ApiKey]:
        rows = await self._database.read(lambda connection: all_rows(connection, "all_keys", ()))
        return [key_of(row, "") for row in rows]

    async def expire_key(self, key_id: str, *, at: float) -> ApiKey:
        return await self._key_changed("expire_key", key_id, at)

    async def revoke_key(self, key_id: str, *, now: float) -> ApiKey:
        return await self._key_changed("revoke_key", key_id, now)

    async def used_keys(self, used: dict[str, float]) -> None:
        values = {"ids": list(used), "moments": list(used.values())}
        await self._database.write(lambda connection: change(connection, "used_keys", values))

    async def _key_changed(self, query: str, key_id: str, moment: float) -> ApiKey:
        async def work(connection: Connection) -> ApiKey:
            await change(connection, query, (moment, key_id))
            return await _key(connection, key_id)

        return await self._database.write(work)


async def _key(connection: Connection, key_id: str) -> ApiKey:
    return key_of(await one_row(connection, "key_by_id", plain((key_id,))), key_id)
