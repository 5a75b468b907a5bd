"""The ledger suite on every adapter, and what only their tables show."""

import pytest
from msgspec import structs
from tests.servers.postgres import fresh_schema
from tests.suites.flow_situations import PLAN, admitted, claimed, done, failed, finished
from tests.suites.ledger_situations import act
from tests.suites.ledger_suite import LedgerSuite

from quire.batches.submission import close_batch
from quire.database.postgres import PostgresDatabase
from quire.database.sqlite import SqliteDatabase
from quire.engine import moves
from quire.ledger.port import Upload
from quire.ledger.postgres import PostgresLedger
from quire.ledger.sqlite import SqliteLedger
from quire.model.work import Outcome
from quire.testing.factories import draft
from quire.testing.memory_blobs import MemoryBlobs
from quire.testing.time import FakeClock

ALARMS = "SELECT batch_no FROM alarms"


class TablesSuite:
    """Needs the fixture `alarms` beside `ledger`: the batches that have one."""

    @pytest.mark.parametrize("end", ["cancel", "reset", "abandon", "fail"])
    async def test_a_batch_that_was_ended_has_no_alarm(self, ledger, alarms, end):
        batch = await admitted(ledger)
        one, two, three = await claimed(ledger, batch)
        await ledger.settle_flow(batch.no, [failed(one, due_at=20.0)], now=11.0)
        assert await alarms() == [batch.no]
        match end:
            case "cancel":
                await ledger.cancel(batch.no, act())
            case "reset":
                await ledger.reset(batch.no, act())
            case "abandon":
                await ledger.abandon_batch(batch.no, reason="changed", now=50.0)
            case _:
                await ledger.apply_move(moves.fail(batch, "no", now=50.0))
        assert await alarms() == []
        # What comes back later sets none, and is found when the batch goes on.
        await ledger.settle_flow(batch.no, [failed(two, due_at=30.0)], now=51.0)
        await ledger.release_flow_claims(batch.no, [(three.order.task_no, 1)])
        assert await alarms() == []
        await ledger.reopen(batch.no, act(), status="ONE")
        assert await alarms() == [batch.no]
        assert len(await claimed(ledger, batch, now=60.0)) == 3

    async def test_a_batch_that_is_done_has_no_alarm(self, ledger, alarms):
        batch = await admitted(ledger, 1)
        (claim,) = await claimed(ledger, batch)
        slow = failed(claim, due_at=20.0, outcome=Outcome.TIMED_OUT)
        await ledger.settle_flow(batch.no, [slow], now=11.0)
        await ledger.settle_flow(batch.no, [done(claim)], now=12.0)
        assert await alarms() == [batch.no]
        assert (await finished(ledger, batch)).ended
        assert await alarms() == []

    async def test_who_submits_counts_what_was_refused_at_the_door(self, ledger):
        batch = await ledger.open_batch(draft("0" * 26))
        states = ["taken", "failed", "skipped", "taken", "skipped", "skipped"]
        uploads = [Upload(path=f"f{number}", state=state) for number, state in enumerate(states)]
        await ledger.record_uploads(batch.no, uploads)
        batch = await close_batch(batch, PLAN, uploads=ledger, blobs=MemoryBlobs(), clock=FakeClock())
        assert (batch.total_files, batch.refused, batch.passed_over) == (2, 1, 3)


class TestSqlite(LedgerSuite, TablesSuite):
    @pytest.fixture
    async def ledger(self, tmp_path):
        database = SqliteDatabase(tmp_path / "quire.db")
        await database.open()
        ledger = SqliteLedger(database)
        await ledger.prepare()
        yield ledger
        await database.close()

    @pytest.fixture
    def alarms(self, ledger):
        async def look():
            return await ledger._database.read(
                lambda connection: [row[0] for row in connection.execute(ALARMS).fetchall()]
            )

        return look


@pytest.mark.service
class TestPostgres(LedgerSuite, TablesSuite):
    @pytest.fixture
    async def ledger(self, postgres_server):
        database = PostgresDatabase(fresh_schema(postgres_server))
        await database.open()
        ledger = PostgresLedger(database)
        await ledger.prepare()
        yield ledger
        await database.close()

    @pytest.fixture
    def alarms(self, ledger):
        async def numbers(connection):
            return [row[0] for row in await (await connection.execute(ALARMS)).fetchall()]

        return lambda: ledger._database.read(numbers)

    async def test_a_reason_may_hold_what_the_server_refuses(self, ledger):
        batch = await admitted(ledger, 1)
        (claim,) = await claimed(ledger, batch)
        told = failed(claim)
        told = structs.replace(told, report=structs.replace(told.report, error="cut\0off"))
        await ledger.settle_flow(batch.no, [told], now=11.0)
        (task,) = await ledger.list_failed_tasks(batch.no, limit=9)
        assert task.error == "cut\ufffdoff"
