"""The PostgreSQL database: transactions, connections, and what its errors are called."""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg
import pytest
from tests.servers import postgres
from tests.servers.postgres import PASSWORD, USER, fresh_schema

from quire.database.postgres import PostgresDatabase
from quire.model.errors import Misconfigured, Retry

SCRIPTS = [(1, "first", "CREATE TABLE notes (text text PRIMARY KEY); CREATE INDEX more ON notes (text);")]


@pytest.fixture
async def database(postgres_server):
    database = PostgresDatabase(fresh_schema(postgres_server), connections=2)
    await database.open()
    await database.migrate("notes", SCRIPTS)
    yield database
    await database.close()


def adding(text):
    async def work(connection):
        await connection.execute("INSERT INTO notes VALUES (%s)", (text,))

    return work


async def texts(connection):
    return [
        row[0] for row in await (await connection.execute("SELECT text FROM notes ORDER BY 1")).fetchall()
    ]


async def process_id(connection):
    return (await (await connection.execute("SELECT pg_backend_pid()")).fetchone())[0]


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://me:sec@ret@host/db",
        "postgresql://me:sec%ret@host/db",
        "host=h password=x sec=ret",
        "sec ret",
    ],
)
def test_a_dsn_that_cannot_be_read_is_not_quoted(dsn):
    with pytest.raises(Misconfigured) as caught:
        PostgresDatabase(dsn)
    assert "sec" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_the_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(Misconfigured, match=r"quire\[postgres\]"):
        PostgresDatabase("postgresql://host/db")


async def test_a_server_that_is_not_there_may_come_back():
    with pytest.raises(Retry) as caught:
        await PostgresDatabase(f"postgresql://me:{PASSWORD}@127.0.0.1:1/db").open()
    assert PASSWORD not in str(caught.value)


async def test_nothing_runs_on_a_database_that_is_not_open():
    with pytest.raises(Misconfigured, match="not open"):
        await PostgresDatabase("postgresql://host/db").read(texts)


@pytest.mark.service
class TestServer:
    @pytest.mark.parametrize(("right", "wrong"), [(PASSWORD, "wrong-word"), ("/postgres?", "/nowhere?")])
    async def test_a_wrong_password_or_name_is_for_a_person_to_mend(self, postgres_server, right, wrong):
        dsn = f"{postgres_server}?".replace(right, wrong)
        with pytest.raises(Misconfigured) as caught:
            await PostgresDatabase(dsn.rstrip("?")).open()
        assert PASSWORD not in str(caught.value)
        assert "wrong-word" not in str(caught.value)

    async def test_work_that_raises_leaves_nothing_and_the_connection_usable(self, database):
        async def work(connection):
            await adding("half")(connection)
            raise ValueError

        with pytest.raises(ValueError):
            await database.write(work)
        await database.write(adding("whole"))
        assert await database.read(texts) == ["whole"]

    async def test_reading_changes_nothing(self, database):
        await database.read(adding("x"))
        assert await database.read(texts) == []

    async def test_more_callers_than_connections_all_get_their_turn(self, database):
        await asyncio.gather(*(database.write(adding(f"{number:02}")) for number in range(20)))
        assert len(await database.read(texts)) == 20

    async def test_cancelled_work_leaves_nothing(self, database):
        begun = asyncio.Event()

        async def work(connection):
            await adding("x")(connection)
            begun.set()
            await connection.execute("SELECT pg_sleep(60)")

        task = asyncio.create_task(database.write(work))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await database.read(texts) == []

    async def test_a_lost_connection_is_a_retry_and_the_next_call_has_a_new_one(self, database):
        async def work(connection):
            own = await process_id(connection)
            await database.read(lambda other: other.execute("SELECT pg_terminate_backend(%s)", (own,)))
            await adding("x")(connection)

        with pytest.raises(Retry):
            await database.write(work)
        assert await database.read(texts) == []

    async def test_a_deadlock_is_a_retry_for_one_of_the_two(self, database):
        for text in ("a", "b"):
            await database.write(adding(text))
        together = asyncio.Barrier(2)

        def work(*order):
            async def lock(connection):
                for text in order:
                    await connection.execute("SELECT 1 FROM notes WHERE text = %s FOR UPDATE", (text,))
                    if text == order[0]:
                        await together.wait()

            return lock

        answers = await asyncio.gather(
            database.write(work("a", "b")), database.write(work("b", "a")), return_exceptions=True
        )
        (lost,) = [answer for answer in answers if answer is not None]
        assert isinstance(lost, Retry)
        assert lost.code == "database_busy"

    async def test_migrations_run_once_and_a_newer_schema_is_refused(self, database):
        await database.migrate("notes", SCRIPTS)
        await database.migrate("notes", [*SCRIPTS, (2, "second", "CREATE TABLE others (no bigint)")])
        with pytest.raises(Misconfigured, match="newer quire"):
            await database.migrate("notes", SCRIPTS)

    async def test_it_may_be_opened_and_closed_again_and_again(self, database):
        await database.open()
        await database.close()
        await database.close()
        with pytest.raises(Misconfigured):
            await database.read(texts)
        await database.open()
        assert await database.read(texts) == []

    async def test_closing_waits_for_what_has_begun(self, database):
        begun, closing = asyncio.Event(), asyncio.Event()

        async def work(connection):
            begun.set()
            await closing.wait()
            await adding("x")(connection)

        task = asyncio.create_task(database.write(work))
        await begun.wait()
        end = asyncio.create_task(database.close())
        await asyncio.sleep(0)
        closing.set()
        await asyncio.gather(task, end)
        await database.open()
        assert await database.read(texts) == ["x"]

    async def test_the_server_keeps_its_word_on_durability(self, database):
        async def settings(connection):
            found = await connection.execute("SELECT current_setting('fsync'), current_user::text")
            return await found.fetchone()

        assert await database.read(settings) == ("on", USER)


def told(connection):
    return connection.execute("NOTIFY quire")


class Ear:
    """Counts what is heard; a test waits for the next sound and never for time."""

    def __init__(self):
        self.heard = 0
        self._sound = asyncio.Event()

    def __call__(self):
        self.heard += 1
        self._sound.set()

    async def next(self):
        await asyncio.wait_for(self._sound.wait(), 60)
        self._sound.clear()


async def ears_of(database):
    """The processes of those who listen, seen from another connection."""

    async def work(connection):
        found = await connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE query IN ('LISTEN quire', 'SELECT 1')"
        )
        return {row[0] for row in await found.fetchall()}

    return await database.read(work)


@pytest.mark.service
class TestAlone:
    async def test_a_statement_alone_is_kept(self, database):
        async def work(connection):
            await adding("one")(connection)
            return connection.info.transaction_status

        # It was committed with its answer.
        assert await database.write_alone(work) is psycopg.pq.TransactionStatus.IDLE
        assert await database.read(texts) == ["one"]

    async def test_what_comes_after_it_is_a_transaction_again(self, database):
        await database.write_alone(adding("one"))

        async def work(connection):
            await adding("two")(connection)
            raise ValueError

        with pytest.raises(ValueError):
            await database.write(work)
        await database.read(adding("three"))
        assert await database.read(texts) == ["one"]

    async def test_one_that_fails_leaves_nothing_and_the_connection_goes_on(self, database):
        async def twice(connection):
            await connection.execute("INSERT INTO notes VALUES ('same'), ('same')")

        with pytest.raises(psycopg.errors.UniqueViolation):
            await database.write_alone(twice)
        await database.write_alone(adding("one"))
        assert await database.read(texts) == ["one"]


@pytest.mark.service
class TestListening:
    async def test_what_is_committed_is_heard_by_all_who_listen(self, database):
        ears = [Ear(), Ear()]
        for ear in ears:
            await database.listen(ear)
        for _ in range(3):
            await database.write(told)
            for ear in ears:
                await ear.next()

    async def test_what_is_not_committed_is_not_heard(self, database):
        ear = Ear()
        await database.listen(ear)

        async def work(connection):
            await told(connection)
            raise ValueError

        with pytest.raises(ValueError):
            await database.write(work)
        await database.read(told)
        await database.write(told)
        await ear.next()
        assert ear.heard == 1

    async def test_a_lost_line_is_made_anew_and_says_so(self, database):
        ear = Ear()
        await database.listen(ear)
        for pid in await ears_of(database):
            await database.read(
                lambda other, pid=pid: other.execute("SELECT pg_terminate_backend(%s)", (pid,))
            )
        await ear.next()
        await database.write(told)
        await ear.next()

    async def test_nobody_hears_after_the_end(self, database, postgres_server):
        ear = Ear()
        await database.listen(ear)
        await database.close()
        with psycopg.connect(postgres_server) as connection:
            connection.execute("NOTIFY quire")
        with pytest.raises(Misconfigured):
            await database.listen(ear)
        await database.open()
        assert ear.heard == 0

    @pytest.mark.slow
    async def test_listening_goes_on_after_the_server_was_away(self):
        folder = postgres.programs()
        with postgres.postgres_server(folder) as dsn:
            database = PostgresDatabase(dsn)
            await database.open()
            ear = Ear()
            await database.listen(ear)
            control = Control(folder, dsn)
            await asyncio.to_thread(control, "stop")
            with pytest.raises(Retry):
                await database.write(told)
            await asyncio.to_thread(control, "start")
            try:
                await ear.next()  # it is back, and may have missed something
                await database.write(told)
                await ear.next()
                await database.close()
            finally:
                await asyncio.to_thread(control, "stop")


class Control:
    """Stops and starts a server that `postgres_server` has made, with its own data and port."""

    def __init__(self, folder, dsn):
        self._program = folder / "pg_ctl"
        with psycopg.connect(dsn) as connection:
            self._data = Path(connection.execute("SHOW data_directory").fetchone()[0])
            self._port = connection.execute("SHOW port").fetchone()[0]

    def __call__(self, action):
        log = self._data.with_name("again.log")
        command = [self._program, action, "-w", "-D", self._data, "-l", log]
        if action == "start":
            options = f"-p {self._port} -c listen_addresses=127.0.0.1 -c unix_socket_directories="
            command += ["-o", options]
        else:
            command += ["-m", "fast"]
        with tempfile.TemporaryFile() as words:  # no pipe: the server might keep it open
            ran = subprocess.run(
                command,
                cwd=self._data.parent,
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=subprocess.STDOUT,
                **postgres._person(str(self._data.parent)),
            )
            words.seek(0)
            said = words.read() + (log.read_bytes() if log.exists() else b"")
        assert ran.returncode == 0, said.decode(errors="replace")[-2000:]
