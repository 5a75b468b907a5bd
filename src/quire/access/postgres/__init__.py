"""API keys in the ledger's PostgreSQL database, whose migrations create the table."""

from quire.access.port import ApiKey
from quire.access.rows import to_key, to_row
from quire.database.postgres import Connection, PostgresDatabase
from quire.database.postgres_queries import PostgresQueries, clean_row
from quire.model.errors import Stale

_queries = PostgresQueries("quire.access.postgres", "queries.sql")


class PostgresApiKeyStore:
    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def add_key(self, key: ApiKey) -> None:
        values = clean_row(to_row(key))
        if not await self._database.write(
            lambda connection: _queries.change(connection, "insert_key", values)
        ):
            raise Stale(f"there is a key {key.id} already")

    async def find_key(self, digest: str) -> ApiKey | None:
        row = await self._database.read(
            lambda connection: _queries.one_row(connection, "key_by_hash", (digest,))
        )
        return None if row is None else to_key(row)

    async def get_key(self, key_id: str) -> ApiKey:
        return await self._database.read(lambda connection: _load_key(connection, key_id))

    async def list_keys(self) -> list[ApiKey]:
        rows = await self._database.read(lambda connection: _queries.all_rows(connection, "all_keys", ()))
        return [to_key(row) for row in rows]

    async def expire_key(self, key_id: str, *, at: float) -> ApiKey:
        return await self._change_key("expire_key", key_id, at)

    async def revoke_key(self, key_id: str, *, now: float) -> ApiKey:
        return await self._change_key("revoke_key", key_id, now)

    async def record_uses(self, uses: dict[str, float]) -> None:
        values = {"ids": list(uses), "moments": list(uses.values())}
        await self._database.write(lambda connection: _queries.change(connection, "record_uses", values))

    async def _change_key(self, query: str, key_id: str, moment: float) -> ApiKey:
        async def work(connection: Connection) -> ApiKey:
            await _queries.change(connection, query, (moment, key_id))
            return await _load_key(connection, key_id)

        return await self._database.write(work)


async def _load_key(connection: Connection, key_id: str) -> ApiKey:
    return to_key(await _queries.one_row(connection, "key_by_id", clean_row((key_id,))), key_id)
