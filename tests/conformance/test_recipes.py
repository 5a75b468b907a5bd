"""The suite of recipe imports on every adapter; migrations make what the schemas show."""

import pytest
from tests.servers.postgres import fresh_schema
from tests.situations.schemas import postgres_tables, shown_schema, sqlite_tables
from tests.suites.recipes_suite import RecipeSuite, a_job

from quire.database.postgres import PostgresDatabase
from quire.database.sqlite import SqliteDatabase, split_statements
from quire.ledger.postgres import PostgresLedger
from quire.ledger.sqlite import SqliteLedger
from quire.recipes.postgres import PostgresRecipeStore
from quire.recipes.sqlite import SqliteRecipeStore


@pytest.fixture
async def sqlite(tmp_path):
    database = SqliteDatabase(tmp_path / "quire.db")
    await database.open()
    yield database
    await database.close()


@pytest.fixture
async def postgres(postgres_server):
    database = PostgresDatabase(fresh_schema(postgres_server))
    await database.open()
    yield database
    await database.close()


class TestSqlite(RecipeSuite):
    @pytest.fixture
    async def recipes(self, sqlite):
        store = SqliteRecipeStore(sqlite)
        await store.prepare()
        return store


@pytest.mark.service
class TestPostgres(RecipeSuite):
    @pytest.fixture
    async def recipes(self, postgres):
        store = PostgresRecipeStore(postgres)
        await store.prepare()
        return store


async def test_migrations_make_what_the_schema_shows_on_sqlite(sqlite, tmp_path):
    await SqliteRecipeStore(sqlite).prepare()
    shown = SqliteDatabase(tmp_path / "shown.db")
    await shown.open()
    statements = split_statements(shown_schema("quire.recipes.sqlite.sql"))
    await shown.write(lambda connection: [connection.execute(one) for one in statements])
    expected, made = await shown.read(sqlite_tables), await sqlite.read(sqlite_tables)
    await shown.close()
    assert expected
    assert made == expected


@pytest.mark.service
async def test_migrations_make_what_the_schema_shows_on_postgres(postgres, postgres_server):
    await PostgresRecipeStore(postgres).prepare()
    shown = PostgresDatabase(fresh_schema(postgres_server))
    await shown.open()
    schema = shown_schema("quire.recipes.postgres.sql").encode()
    await shown.write(lambda connection: connection.execute(schema))
    expected, made = await shown.read(postgres_tables), await postgres.read(postgres_tables)
    await shown.close()
    assert expected["columns"]
    assert made == expected


async def test_a_home_without_recipes_gets_their_tables_beside_what_it_has(sqlite):
    await SqliteLedger(sqlite).prepare()
    store = SqliteRecipeStore(sqlite)
    await store.prepare()
    await store.prepare()
    await store.add_job(a_job())
    assert (await store.get_job("job-1")).user_id == "7"


@pytest.mark.service
async def test_a_database_without_recipes_gets_their_tables_beside_what_it_has(postgres):
    await PostgresLedger(postgres).prepare()
    store = PostgresRecipeStore(postgres)
    await store.prepare()
    await store.prepare()
    await store.add_job(a_job())
    assert (await store.get_job("job-1")).user_id == "7"
