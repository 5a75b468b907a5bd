"""API keys in the ledger's SQLite database, whose migrations create the table."""

import sqlite3

from quire.access.port import ApiKey
from quire.access.rows import to_key, to_row
from quire.database.sql import load_queries
from quire.database.sqlite import SqliteDatabase
from quire.model.errors import Stale

SQL = load_queries("quire.access.sqlite", "queries.sql")


class SqliteApiKeyStore:
    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def add_key(self, key: ApiKey) -> None:
        def work(connection: sqlite3.Connection) -> None:
            if not connection.execute(SQL["insert_key"], to_row(key)).rowcount:
                raise Stale(f"there is a key {key.id} already")

        await self._database.write(work)

    async def find_key(self, digest: str) -> ApiKey | None:
        row = await self._database.read(
            lambda connection: connection.execute(SQL["key_by_hash"], (digest,)).fetchone()
        )
        return None if row is None else to_key(row)

    async def get_key(self, key_id: str) -> ApiKey:
        return await self._database.read(lambda connection: _load_key(connection, key_id))

    async def list_keys(self) -> list[ApiKey]:
        rows = await self._database.read(lambda connection: connection.execute(SQL["all_keys"]).fetchall())
        return [to_key(row) for row in rows]

    async def expire_key(self, key_id: str, *, at: float) -> ApiKey:
        return await self._change_key("expire_key", key_id, at)

    async def revoke_key(self, key_id: str, *, now: float) -> ApiKey:
        return await self._change_key("revoke_key", key_id, now)

    async def record_uses(self, uses: dict[str, float]) -> None:
        rows = [(at, key_id) for key_id, at in uses.items()]
        await self._database.write(lambda connection: connection.executemany(SQL["record_use"], rows))

    async def _change_key(self, query: str, key_id: str, moment: float) -> ApiKey:
        def work(connection: sqlite3.Connection) -> ApiKey:
            connection.execute(SQL[query], (moment, key_id))
            return _load_key(connection, key_id)

        return await self._database.write(work)


def _load_key(connection: sqlite3.Connection, key_id: str) -> ApiKey:
    return to_key(connection.execute(SQL["key_by_id"], (key_id,)).fetchone(), key_id)
