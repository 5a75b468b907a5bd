"""Who may: API keys."""

import sqlite3

from quire.database.sqlite import SqliteDatabase
from quire.ledger.access import ApiKey
from quire.ledger.access_rows import key_columns, key_of
from quire.ledger.sqlite.rows import SQL
from quire.model.errors import Stale


class SqliteApiKeyStore:
    _database: SqliteDatabase

    async def add_key(self, key: ApiKey) -> None:
        def work(connection: sqlite3.Connection) -> None:
            if not connection.execute(SQL["insert_key"], key_columns(key)).rowcount:
                raise Stale(f"there is a key {key.id} already")

        await self._database.write(work)

    async def key_by_hash(self, digest: str) -> ApiKey | None:
        row = await self._database.read(
            lambda connection: connection.execute(SQL["key_by_hash"], (digest,)).fetchone()
        )
        return None if row is None else key_of(row, "")

    async def key(self, key_id: str) -> ApiKey:
        return await self._database.read(lambda connection: _key(connection, key_id))

    async def keys(self) -> list[ApiKey]:
        rows = await self._database.read(lambda connection: connection.execute(SQL["all_keys"]).fetchall())
        return [key_of(row, "") for row in rows]

    async def expire_key(self, key_id: str, *, at: float) -> ApiKey:
        return await self._key_changed("expire_key", key_id, at)

    async def revoke_key(self, key_id: str, *, now: float) -> ApiKey:
        return await self._key_changed("revoke_key", key_id, now)

    async def used_keys(self, used: dict[str, float]) -> None:
        rows = [(at, key_id) for key_id, at in used.items()]
        await self._database.write(lambda connection: connection.executemany(SQL["used_key"], rows))

    async def _key_changed(self, query: str, key_id: str, moment: float) -> ApiKey:
        def work(connection: sqlite3.Connection) -> ApiKey:
            connection.execute(SQL[query], (moment, key_id))
            return _key(connection, key_id)

        return await self._database.write(work)


def _key(connection: sqlite3.Connection, key_id: str) -> ApiKey:
    return key_of(connection.execute(SQL["key_by_id"], (key_id,)).fetchone(), key_id)
