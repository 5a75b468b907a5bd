"""Two conductors on one PostgreSQL: whatever they do at the same moment happens once."""

import asyncio

import pytest

from quire.database.postgres import PostgresDatabase
from quire.engine import moves
from quire.ledger.port import Settlement
from quire.ledger.postgres import PostgresLedger
from quire.model.batch import Stage, TaskState
from quire.model.errors import Stale
from quire.model.work import StepResult
from quire.testing.factories import draft, letter
from quire.testing.ledger_suite import done, erred, started
from quire.testing.postgres_server import fresh_schema

pytestmark = pytest.mark.service
FILES = 60


@pytest.fixture
async def ledgers(postgres_server):
    dsn = fresh_schema(postgres_server)
    databases = [PostgresDatabase(dsn) for _ in range(2)]
    for database in databases:
        await database.open()
    both = [PostgresLedger(database) for database in databases]
    # At once: migrations race as well.
    await asyncio.gather(*(ledger.prepare() for ledger in both))
    yield both
    for database in databases:
        await database.close()


async def claimed(ledgers, batch_no, *, limit, now=10.0, rounds=6):
    """What both got, claiming at the same moment, several times."""
    calls = [ledger.claim(batch_no, limit=limit, now=now) for ledger in ledgers for _ in range(rounds)]
    return [claim for claims in await asyncio.gather(*calls) for claim in claims]


async def test_concurrent_claims_are_disjoint_and_complete(ledgers):
    batch = await started(ledgers[0], files=FILES)
    claims = await claimed(ledgers, batch.no, limit=7)
    assert sorted(claim.order.task_no for claim in claims) == list(range(1, FILES + 1))
    assert {claim.order.attempt for claim in claims} == {1}


async def test_concurrent_claims_of_waiting_tasks_are_disjoint(ledgers):
    batch = await started(ledgers[0], files=FILES)
    claims = await ledgers[0].claim(batch.no, limit=FILES, now=10.0)
    await ledgers[0].settle(batch.no, [erred(claim, due_at=20.0) for claim in claims], now=11.0)
    again = await claimed(ledgers, batch.no, limit=7, now=20.0)
    assert sorted(claim.order.task_no for claim in again) == list(range(1, FILES + 1))
    assert {claim.order.attempt for claim in again} == {2}


async def test_the_same_reports_settled_at_once_count_once_and_end_the_phase_once(ledgers):
    batch = await started(ledgers[0], files=FILES)
    settlements = [done(claim) for claim in await ledgers[0].claim(batch.no, limit=FILES, now=10.0)]
    # In opposite orders: rows locked in the order of the reports would end in a deadlock.
    sets = [settlements, settlements[::-1]] * 3
    answers = await asyncio.gather(
        *(ledgers[number % 2].settle(batch.no, told, now=11.0) for number, told in enumerate(sets))
    )
    assert sorted((one.applied, one.strays, one.phase_ended) for one in answers) == [
        *[(0, FILES, False)] * 5,
        (FILES, 0, True),
    ]
    (counts,) = await ledgers[1].counts(batch.no)
    assert (counts.total, counts.done, counts.failed) == (FILES, FILES, 0)
    assert (await ledgers[1].batch(batch.id)).position.stage is Stage.TRANSFORMING


async def test_parts_settled_by_both_end_the_phase_exactly_once(ledgers):
    batch = await started(ledgers[0], files=FILES)
    claims = await ledgers[0].claim(batch.no, limit=FILES, now=10.0)
    answers = await asyncio.gather(
        *(
            ledgers[number % 2].settle(batch.no, [done(claim)], now=11.0)
            for number, claim in enumerate(claims)
        )
    )
    assert [one.applied for one in answers] == [1] * FILES
    assert [one.phase_ended for one in answers].count(True) == 1
    (counts,) = await ledgers[0].counts(batch.no)
    assert counts.done == FILES


async def test_of_two_racing_moves_one_wins(ledgers):
    batch = await ledgers[0].open_batch(draft())
    batch = await ledgers[0].finalize(batch.no, manifest_key="m", total_files=1, letter=letter(), now=2.0)
    answers = await asyncio.gather(
        *(ledgers[number % 2].apply(moves.begin(batch, now=3.0)) for number in range(6)),
        return_exceptions=True,
    )
    assert sum(isinstance(answer, Stale) for answer in answers) == 5
    kinds = [kind for _, kind, _ in await ledgers[0].events(batch.no, limit=100)]
    assert kinds.count("batch_started") == 1


async def test_a_batch_is_finalized_by_one_of_two(ledgers):
    batch = await ledgers[0].open_batch(draft())
    answers = await asyncio.gather(
        *(
            ledger.finalize(batch.no, manifest_key="m", total_files=0, letter=letter(), now=2.0)
            for ledger in ledgers
        ),
        return_exceptions=True,
    )
    assert sum(isinstance(answer, Stale) for answer in answers) == 1
    assert len(await ledgers[0].outbox(10)) == 1


async def test_giving_back_and_settling_the_same_orders_has_one_winner_each(ledgers):
    batch = await started(ledgers[0], files=FILES)
    claims = await ledgers[0].claim(batch.no, limit=FILES, now=10.0)
    settled, _ = await asyncio.gather(
        ledgers[0].settle(batch.no, [done(claim) for claim in claims], now=11.0),
        ledgers[1].give_back([claim.order for claim in reversed(claims)]),
    )
    again = await ledgers[1].claim(batch.no, limit=FILES, now=12.0)
    assert settled.applied + len(again) == FILES


async def test_batches_that_remember_the_same_results_do_not_wait_for_each_other(ledgers):
    batches = [await started(ledgers[0], files=FILES, batch_id=name) for name in ("01A", "01C")]
    results = []
    for batch, ledger in zip(batches, ledgers, strict=True):
        claims = await ledger.claim(batch.no, limit=FILES, now=10.0)
        results.append(
            [
                Settlement(
                    report=done(claim, result=StepResult(facts={"n": 1})).report,
                    state=TaskState.DONE,
                    cache_key=f"k{claim.order.task_no}",
                )
                for claim in claims
            ]
        )
    answers = await asyncio.gather(
        ledgers[0].settle(batches[0].no, results[0], now=11.0),
        ledgers[1].settle(batches[1].no, results[1][::-1], now=11.0),
    )
    assert all(answer.phase_ended for answer in answers)
    assert len(await ledgers[0].cached([f"k{number}" for number in range(1, FILES + 1)])) == FILES
