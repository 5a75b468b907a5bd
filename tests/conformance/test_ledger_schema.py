"""The ledger's tables: migrations make what `schema.sql` shows, and old homes go on."""

import asyncio

import pytest
from msgspec import structs
from tests.servers.postgres import fresh_schema
from tests.situations.schemas import postgres_tables, shown_schema, sqlite_tables
from tests.suites.flow_situations import PLAN as THREE
from tests.suites.flow_situations import finished, retried
from tests.suites.former_rows import adopted, walked_on
from tests.suites.ledger_situations import ME, act

from quire.database.postgres import PostgresDatabase
from quire.database.sql import load_migrations
from quire.database.sqlite import SqliteDatabase, split_statements
from quire.ledger.postgres import PostgresLedger
from quire.ledger.sqlite import SqliteLedger
from quire.model.batch import FileOutcome, Stage
from quire.model.errors import Stale
from quire.model.plan import digest_of, encode_plan
from quire.testing.factories import draft

SCHEMA_SQLITE = shown_schema("quire.ledger.sqlite.sql")
SCHEMA_POSTGRES = shown_schema("quire.ledger.postgres.sql")
PLAN = structs.replace(THREE, name="plain", phases=THREE.phases[:2])


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


class TestSqliteSchema:
    async def test_migrations_make_what_the_schema_shows(self, sqlite, tmp_path):
        await SqliteLedger(sqlite).prepare()
        shown = SqliteDatabase(tmp_path / "shown.db")
        await shown.open()
        statements = split_statements(SCHEMA_SQLITE)
        await shown.write(lambda connection: [connection.execute(one) for one in statements])
        expected, made = await shown.read(sqlite_tables), await sqlite.read(sqlite_tables)
        await shown.close()
        assert expected
        assert made == expected


@pytest.mark.service
class TestPostgresSchema:
    async def test_migrations_make_what_the_schema_shows(self, postgres, postgres_server):
        await PostgresLedger(postgres).prepare()
        shown = PostgresDatabase(fresh_schema(postgres_server))
        await shown.open()
        await shown.write(lambda connection: connection.execute(SCHEMA_POSTGRES.encode()))
        expected, made = await shown.read(postgres_tables), await postgres.read(postgres_tables)
        await shown.close()
        assert expected["columns"]
        assert made == expected

    async def test_many_may_migrate_at_once(self, postgres_server):
        dsn = fresh_schema(postgres_server)
        databases = [PostgresDatabase(dsn) for _ in range(4)]
        for database in databases:
            await database.open()
        await asyncio.gather(*(PostgresLedger(database).prepare() for database in databases))
        batch = await PostgresLedger(databases[0]).open_batch(draft())
        assert (await PostgresLedger(databases[3]).get_batch("01B")).no == batch.no
        for database in databases:
            await database.close()

    async def test_one_who_meets_an_old_home_with_others_migrates_it_once(self, postgres_server):
        dsn = fresh_schema(postgres_server)
        databases = [PostgresDatabase(dsn) for _ in range(3)]
        for database in databases:
            await database.open()
        await old_home(databases[0], "postgres", lambda one: databases[0].write(run_postgres(one)))
        await asyncio.gather(*(PostgresLedger(database).prepare() for database in databases))
        assert len(await PostgresLedger(databases[1]).count_tasks(1)) == 2
        for database in databases:
            await database.close()

    async def test_paths_are_compared_by_their_bytes(self, postgres):
        """In the columns themselves: a database may have any language."""
        await PostgresLedger(postgres).prepare()

        async def work(connection):
            found = await connection.execute(
                "SELECT table_name::text, column_name::text FROM information_schema.columns "
                "WHERE table_schema = current_schema() AND collation_name = 'C'"
            )
            return set(await found.fetchall())

        assert await postgres.read(work) == {
            *(
                ("uploads", "path"),
                ("uploads", "folder"),
                ("files", "path"),
                ("files", "folded"),
                ("files", "failed_at"),
                ("step_cache", "key"),
            )
        }


FORMER = '{"phases": [{"name": "ONE"}, {"name": "TWO"}]}'
BATCH = (
    "INSERT INTO batches (id, pipeline, pipeline_version, plan, stage, phase, cursor, status, total_files, "
    "last_file, last_task, next_task, created_at, updated_at, completed_at, error) "
    "VALUES ('{}', 'plain', 1, '" + FORMER.replace("{", "{{").replace("}", "}}") + "', '{}', {}, 0, '{}', "
    "{}, {}, {}, {}, 1, 2, {}, {})"
)
FILE = (
    "INSERT INTO files (batch_no, file_no, root_no, born, role, path, folded, name, key, size, content_type, "
    "outcome, attempts, error_class, reason) "
    "VALUES ({0}, {1}, {2}, {3}, '{4}', '{5}', '{5}', '{5}', 'k', 10, 'image/tiff', {6}, 1, {7}, {7})"
)
UPLOAD = "INSERT INTO uploads (batch_no, path, state, size) VALUES ({}, '{}', 'taken', 10)"
REFUSED = "INSERT INTO uploads (batch_no, path, state) VALUES ({}, '{}', '{}')"
PHASE = "INSERT INTO phases (batch_no, phase, name, total, done, failed) VALUES ({}, {}, '{}', {}, {}, {})"
TASK = (
    "INSERT INTO tasks (batch_no, task_no, phase, file_no, state, attempt, failures, started_at, due_at, "
    "error_class, error) VALUES ({}, {}, {}, {}, '{}', {}, {}, 9, {}, {}, {})"
)
ATTEMPT = "INSERT INTO attempts VALUES ({}, {}, {}, '{}', 'w', 8, 0.5, {}, {})"
NULL = "NULL"


def old_rows():
    """A home of the first schema: batches in several stages, as the first engine left them."""
    yield BATCH.format("W", "working", 2, "TWO", 3, 3, 6, 6, NULL, NULL)
    for number in (1, 2, 3):
        path = f"f{number}"
        yield UPLOAD.format(1, path)
        yield FILE.format(1, number, number, 0, "input", path, "'done'", NULL)
        yield TASK.format(1, number, 1, number, "done", 1, 0, NULL, NULL, NULL)
        yield ATTEMPT.format(1, number, 1, "done", NULL, NULL)
    yield PHASE.format(1, 1, "ONE", 3, 3, 0)
    yield PHASE.format(1, 2, "TWO", 3, 1, 0)
    yield TASK.format(1, 4, 2, 1, "done", 2, 1, NULL, NULL, NULL)
    yield ATTEMPT.format(1, 4, 1, "erred", "'busy'", "'busy'")
    yield ATTEMPT.format(1, 4, 2, "done", NULL, NULL)
    yield TASK.format(1, 5, 2, 2, "running", 1, 0, NULL, NULL, NULL)
    yield TASK.format(1, 6, 2, 3, "ready", 0, 0, NULL, NULL, NULL)
    yield "INSERT INTO events (batch_no, at, type, data) VALUES (1, 3, 'batch_started', '{}')"

    # Given back when the house stopped: due at once, and nothing rings.
    yield BATCH.format("G", "working", 1, "ONE", 1, 1, 1, 2, NULL, NULL)
    yield FILE.format(2, 1, 1, 0, "input", "f1", NULL, NULL)
    yield PHASE.format(2, 1, "ONE", 1, 0, 0)
    yield TASK.format(2, 1, 1, 1, "waiting", 0, 0, 0, NULL, NULL)

    # Killed before anybody asked whether the phase was over.
    yield BATCH.format("S", "working", 1, "ONE", 0, 0, 0, 1, NULL, NULL)
    yield PHASE.format(3, 1, "ONE", 0, 0, 0)

    yield BATCH.format("D", "done", 2, "DONE", 2, 3, 4, 5, 20, NULL)
    for number, outcome, error in ((1, "'done'", NULL), (2, "'failed'", "'busy'")):
        yield UPLOAD.format(4, f"f{number}")
        yield FILE.format(4, number, number, 0, "input", f"f{number}", outcome, error)
    yield FILE.format(4, 3, 1, 1, "jpeg", "f1.jpg", NULL, NULL)
    yield PHASE.format(4, 1, "ONE", 2, 1, 1)
    yield PHASE.format(4, 2, "TWO", 2, 2, 0)
    yield TASK.format(4, 1, 1, 1, "done", 1, 0, NULL, NULL, NULL)
    yield TASK.format(4, 2, 1, 2, "failed", 3, 3, NULL, "'busy'", "'busy'")
    yield TASK.format(4, 3, 2, 1, "done", 1, 0, NULL, NULL, NULL)
    yield TASK.format(4, 4, 2, 2, "done", 1, 0, NULL, NULL, NULL)

    yield BATCH.format("C", "cancelled", 1, "CANCELLED", 0, 0, 0, 1, 20, "'enough'")
    for number, state in enumerate(("failed", "skipped", "skipped")):
        yield REFUSED.format(5, f"r{number}", state)

    yield BATCH.format("F", "discovering", 1, "ONE", 1, 1, 0, 1, NULL, NULL)
    yield FILE.format(6, 1, 1, 0, "input", "f1", NULL, NULL)
    yield PHASE.format(6, 1, "ONE", 0, 0, 0)


async def old_home(database, folder, run):
    first, *_ = load_migrations(f"quire.ledger.{folder}.sql")
    assert first[0] == 1
    await database.migrate("ledger", [first])
    for statement in old_rows():
        await run(statement)


def run_postgres(statement):
    return lambda connection: connection.execute(statement.encode())


class OldHome:
    async def test_attempts_that_were_out_are_tried_again_and_the_batch_ends(self, ledger):
        batch = await ledger.get_batch("W")
        assert (batch.position.stage, batch.position.round, batch.started_at) == (Stage.WORKING, 1, 3.0)
        batch = await walked_on(ledger, await adopted(ledger, batch, PLAN), PLAN)
        batch = await finished(ledger, batch, PLAN)
        assert [one.outcome for one in await ledger.list_inputs(batch.no, limit=9)] == [FileOutcome.DONE] * 3
        _, attempts = await ledger.get_file_history(batch.no, "f2")
        assert [(one.phase, one.attempt, one.outcome) for one in attempts] == [
            ("ONE", 1, "done"),
            ("TWO", 1, "interrupted"),
            ("TWO", 2, "done"),
        ]
        _, attempts = await ledger.get_file_history(batch.no, "f1")
        assert [(one.phase, one.attempt, one.outcome) for one in attempts] == [
            ("ONE", 1, "done"),
            ("TWO", 1, "erred"),
            ("TWO", 2, "done"),
        ]

    async def test_what_was_given_back_is_found(self, ledger):
        batch = await adopted(ledger, await ledger.get_batch("G"), PLAN)
        (workable,) = await ledger.list_flowing(limit=9, now=30.0, only=[batch.no])
        assert workable.batch.id == "G"
        batch = await walked_on(ledger, batch, PLAN)
        _, attempts = await ledger.get_file_history(batch.no, "f1")
        assert [(one.phase, one.attempt, one.outcome) for one in attempts] == [
            ("ONE", 1, "done"),
            ("TWO", 1, "done"),
        ]

    async def test_a_phase_that_was_over_is_over(self, ledger):
        batch = await ledger.get_batch("S")
        assert batch.position.stage is Stage.TRANSFORMING
        batch = await walked_on(ledger, await adopted(ledger, batch, PLAN), PLAN)
        assert (await finished(ledger, batch, PLAN)).status == "DONE"

    async def test_an_ended_batch_shows_as_before_and_may_be_retried(self, ledger):
        batch = await ledger.get_batch("D")
        one, two = await ledger.count_tasks(batch.no)
        assert (one.total, one.done, one.failed, two.done) == (2, 1, 1, 2)
        assert await ledger.count_failures(batch.no) == {"busy": 1}
        first, second = await ledger.list_inputs(batch.no, limit=9)
        assert (first.outcome, [made.path for _, made in first.made]) == (FileOutcome.DONE, ["f1.jpg"])
        assert (second.outcome, second.error_class) == (FileOutcome.FAILED, "busy")
        names = [phase.name for phase in PLAN.phases]
        batch = await ledger.adopt_ended(batch, plan=encode_plan(PLAN), digest=digest_of(PLAN), phases=names)
        batch = await walked_on(ledger, await retried(ledger, batch, names=names), PLAN)
        batch = await finished(ledger, batch, PLAN)
        assert [one.outcome for one in await ledger.list_inputs(batch.no, limit=9)] == [FileOutcome.DONE] * 2
        # The old rows tell of no attempts: what is found was tried since, and only of what had failed.
        assert (await ledger.get_file_history(batch.no, "f1"))[1] == []
        _, attempts = await ledger.get_file_history(batch.no, "f2")
        assert [(one.phase, one.round, one.outcome) for one in attempts] == [
            ("ONE", 2, "done"),
            ("TWO", 2, "done"),
        ]

    async def test_what_was_refused_at_the_door_is_counted(self, ledger):
        found = [await ledger.get_batch(name) for name in ("C", "W")]
        assert [(batch.refused, batch.passed_over) for batch in found] == [(1, 2), (0, 0)]

    async def test_where_an_old_batch_was_cancelled_is_not_known(self, ledger):
        batch = await ledger.get_batch("C")
        assert batch.error == "enough"
        with pytest.raises(Stale):
            await ledger.reopen(batch.no, act(), status="ONE")

    async def test_batches_in_the_middle_are_taken_and_walk_to_their_end(self, ledger):
        taken = await ledger.take_former(ME, pipelines=["plain"], limit=9, now=30.0)
        assert sorted(one.id for one in taken) == ["F", "G", "S", "W"]
        batch = await walked_on(ledger, await adopted(ledger, await ledger.get_batch("F"), PLAN), PLAN)
        assert (await finished(ledger, batch, PLAN)).status == "DONE"


class TestOldSqliteHome(OldHome):
    @pytest.fixture
    async def ledger(self, sqlite):
        await old_home(sqlite, "sqlite", lambda one: sqlite.write(lambda connection: connection.execute(one)))
        ledger = SqliteLedger(sqlite)
        await ledger.prepare()
        return ledger


@pytest.mark.service
class TestOldPostgresHome(OldHome):
    @pytest.fixture
    async def ledger(self, postgres):
        await old_home(postgres, "postgres", lambda one: postgres.write(run_postgres(one)))
        ledger = PostgresLedger(postgres)
        await ledger.prepare()
        return ledger
