"""Two conductors on one PostgreSQL: whatever they do at the same moment happens once."""

import asyncio

import pytest
from tests.servers.postgres import fresh_schema
from tests.suites.flow_situations import admit_all, admitted, begun, claimed, done, failed
from tests.suites.ledger_situations import act

from quire.database.postgres import PostgresDatabase
from quire.engine import moves
from quire.ledger.flow_values import ClaimRequest, PhaseLimit, first_number
from quire.ledger.postgres import PostgresLedger
from quire.ledger.postgres.flow_claims import hold_and_claim
from quire.model.batch import Stage
from quire.model.errors import Stale
from quire.model.work import StepResult
from quire.testing.factories import draft, outbox_message

pytestmark = pytest.mark.service
FILES = 60
NUMBERS = [first_number(1) + number for number in range(1, FILES + 1)]
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"


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


async def claimed_by_both(ledgers, batch_no, *, limit, now=10.0, rounds=6):
    """What both got, claiming at the same moment, several times."""
    calls = [
        ledger.claim_phase(batch_no, 1, member=member, limit=limit, now=now)
        for member, ledger in enumerate(ledgers)
        for _ in range(rounds)
    ]
    return [claim for claims in await asyncio.gather(*calls) for claim in claims]


async def test_concurrent_claims_are_disjoint_and_complete(ledgers):
    batch = await admitted(ledgers[0], FILES)
    claims = await claimed_by_both(ledgers, batch.no, limit=7)
    assert sorted(claim.order.task_no for claim in claims) == NUMBERS
    assert {claim.order.attempt for claim in claims} == {1}


async def test_concurrent_claims_of_waiting_tasks_are_disjoint(ledgers):
    batch = await admitted(ledgers[0], FILES)
    claims = await claimed(ledgers[0], batch)
    await ledgers[0].settle_flow(batch.no, [failed(claim, due_at=20.0) for claim in claims], now=11.0)
    again = await claimed_by_both(ledgers, batch.no, limit=7, now=20.0)
    assert sorted(claim.order.task_no for claim in again) == NUMBERS
    assert {claim.order.attempt for claim in again} == {2}


async def test_the_same_reports_settled_at_once_count_once_and_end_the_batch_once(ledgers):
    batch = await admitted(ledgers[0], FILES)
    settlements = [done(claim) for claim in await claimed(ledgers[0], batch)]
    # In opposite orders: rows locked in the order of the reports would end in a deadlock.
    sets = [settlements, settlements[::-1]] * 3
    answers = await asyncio.gather(
        *(ledgers[number % 2].settle_flow(batch.no, told, now=11.0) for number, told in enumerate(sets))
    )
    assert sorted((one.applied, one.strays, one.phase_ended) for one in answers) == [
        *[(0, FILES, False)] * 5,
        (FILES, 0, True),
    ]
    counts, *_ = await ledgers[1].count_tasks(batch.no)
    assert (counts.total, counts.done, counts.failed) == (FILES, FILES, 0)
    assert (await ledgers[1].get_batch(batch.id)).position.stage is Stage.ENDING


async def test_parts_settled_by_both_end_the_batch_exactly_once(ledgers):
    batch = await admitted(ledgers[0], FILES)
    claims = await claimed(ledgers[0], batch)
    answers = await asyncio.gather(
        *(
            ledgers[number % 2].settle_flow(batch.no, [done(claim)], now=11.0)
            for number, claim in enumerate(claims)
        )
    )
    assert [one.applied for one in answers] == [1] * FILES
    assert [one.phase_ended for one in answers].count(True) == 1
    counts, *_ = await ledgers[0].count_tasks(batch.no)
    assert counts.done == FILES


async def test_of_two_racing_moves_one_wins(ledgers):
    batch = await ledgers[0].open_batch(draft())
    batch = await ledgers[0].close_batch(
        batch.no, manifest_key="m", total_files=1, message=outbox_message(), now=2.0
    )
    answers = await asyncio.gather(
        *(ledgers[number % 2].apply_move(moves.begin(batch, now=3.0)) for number in range(6)),
        return_exceptions=True,
    )
    assert sum(isinstance(answer, Stale) for answer in answers) == 5
    kinds = [kind for _, _, kind, _ in await ledgers[0].list_events(batch.no, limit=100)]
    assert kinds.count("batch_started") == 1


async def test_a_batch_is_finalized_by_one_of_two(ledgers):
    batch = await ledgers[0].open_batch(draft())
    answers = await asyncio.gather(
        *(
            ledger.close_batch(batch.no, manifest_key="m", total_files=0, message=outbox_message(), now=2.0)
            for ledger in ledgers
        ),
        return_exceptions=True,
    )
    assert sum(isinstance(answer, Stale) for answer in answers) == 1
    assert len(await ledgers[0].list_unsent(10)) == 1


async def test_giving_back_and_settling_the_same_orders_has_one_winner_each(ledgers):
    batch = await admitted(ledgers[0], FILES)
    claims = await claimed(ledgers[0], batch)
    settled, _ = await asyncio.gather(
        ledgers[0].settle_flow(batch.no, [done(claim) for claim in claims], now=11.0),
        ledgers[1].release_flow_claims(batch.no, [(claim.order.task_no, 1) for claim in reversed(claims)]),
    )
    again = await claimed(ledgers[1], batch, now=12.0)
    assert settled.applied + len(again) == FILES


async def test_batches_that_remember_the_same_results_do_not_wait_for_each_other(ledgers):
    batches = [await admitted(ledgers[0], FILES, batch_id=name) for name in ("01A", "01C")]
    results = []
    for batch, ledger in zip(batches, ledgers, strict=True):
        result = StepResult(facts={"n": 1})
        claims = await claimed(ledger, batch)
        results.append([done(claim, result=result, cache_key=f"k{claim.order.task_no}") for claim in claims])
    answers = await asyncio.gather(
        ledgers[0].settle_flow(batches[0].no, results[0], now=11.0),
        ledgers[1].settle_flow(batches[1].no, results[1][::-1], now=11.0),
    )
    assert all(answer.phase_ended for answer in answers)
    assert len(await ledgers[0].load_cached([f"k{number}" for number in NUMBERS])) == FILES


async def test_no_batch_is_taken_by_two(ledgers):
    for number in range(30):
        await begun(ledgers[0], 1, batch_id=f"01{number:02}")
    answers = await asyncio.gather(
        *(ledgers[number % 2].take_batches(number, limit=5, now=5.0) for number in range(12))
    )
    taken = [batch.no for batches in answers for batch in batches]
    assert len(taken) == len(set(taken))
    # What a locked row hid from one of them is there when it asks again.
    rest = await ledgers[0].take_batches(99, limit=99, now=5.0)
    assert len(taken) + len(rest) == 30
    kept = await asyncio.gather(*(ledgers[1].take_batches(number, limit=99, now=5.0) for number in range(12)))
    assert [len(batches) for batches in kept] == [len(batches) for batches in answers]


async def test_a_batch_that_is_cancelled_while_it_moves_does_one_of_the_two(ledgers):
    batch = await begun(ledgers[0], 1)
    moved, cancelled = await asyncio.gather(
        admit_all(ledgers[0], batch, ["a"]), ledgers[1].cancel(batch.no, act()), return_exceptions=True
    )
    assert isinstance(moved, Stale) or moved.position.stage is Stage.FLOWING
    assert cancelled.position.stage is Stage.CANCELLED
    assert (await ledgers[0].get_batch(batch.id)).ended


async def test_cancelling_and_settling_at_once_loses_nothing(ledgers):
    batch = await admitted(ledgers[0], FILES)
    claims = await claimed(ledgers[0], batch)
    answers = await asyncio.gather(
        *(ledgers[0].settle_flow(batch.no, [done(claim)], now=11.0) for claim in claims[:-1]),
        ledgers[1].cancel(batch.no, act()),
    )
    batch = await ledgers[1].reopen(batch.no, act(), status="ONE")
    counts, *_ = await ledgers[1].count_tasks(batch.no)
    assert counts.done == sum(answer.applied for answer in answers[:-1])
    again = await claimed(ledgers[1], batch, now=60.0)
    assert counts.done + len(again) == FILES


async def test_dismissing_and_taking_at_once_leaves_each_batch_with_one(ledgers):
    for number in range(20):
        await begun(ledgers[0], 1, batch_id=f"01{number:02}")
    gone = await ledgers[0].add_member("gone", "conductor", "here", now=1.0)
    await ledgers[0].take_batches(gone.no, limit=20, now=5.0)
    answers = await asyncio.gather(
        ledgers[0].remove_member(gone.no),
        *(ledgers[1].take_batches(gone.no + one, limit=20, now=5.0) for one in (1, 2, 3)),
    )
    taken = [batch.no for batches in answers[1:] for batch in batches]
    assert len(taken) == len(set(taken))
    rest = await ledgers[0].take_batches(gone.no + 4, limit=99, now=5.0)
    assert len(taken) + len(rest) == 20


async def test_who_takes_while_it_is_dismissed_keeps_nothing_that_others_need(ledgers):
    batch = await begun(ledgers[0], 1)
    other = await ledgers[0].add_member("other", "house", "here", now=1.0)
    for number in range(FILES):
        member = await ledgers[0].add_member("zombie", "house", "here", now=1.0)
        calls = [
            ledgers[number % 2].take_batches(member.no, limit=9, now=5.0),
            ledgers[1 - number % 2].remove_member(member.no),
        ]
        if number % 3:
            calls.reverse()
        await asyncio.gather(*calls)
        assert [one.no for one in await ledgers[0].take_batches(other.no, limit=9, now=5.0)] == [batch.no]
        await ledgers[0].release_batch(batch.no, other.no)


async def test_who_is_being_claimed_for_may_beat_and_is_not_dismissed_meanwhile(ledgers):
    batch = await admitted(ledgers[0], 1)
    member = await ledgers[0].add_member("one", "house", "here", now=1.0)
    dismissals = []

    async def slowly(connection):
        request = ClaimRequest(member.no, 1, (PhaseLimit(1, 1),))
        (claim,) = await hold_and_claim(connection, batch.no, request, 10.0)
        assert await asyncio.wait_for(ledgers[1].record_heartbeat(member.no, now=10.0), 60)
        dismissals.append(asyncio.create_task(ledgers[1].remove_member(member.no)))
        while not (await (await connection.execute(WAITING)).fetchone())[0]:
            assert not dismissals[0].done()
        return claim

    claim = await ledgers[0]._database.write(slowly)
    await dismissals[0]
    assert [one.order.task_no for one in await ledgers[0].list_running(member.no)] == [claim[0]]
    assert await ledgers[0].record_heartbeat(member.no, now=11.0)


async def test_who_listens_hears_of_work_and_only_of_that(ledgers):
    heard = asyncio.Semaphore(0)
    await ledgers[1]._database.listen(heard.release)

    async def wakes(work):
        answer = await work
        await asyncio.wait_for(heard.acquire(), 60)
        return answer

    batch = await wakes(begun(ledgers[0], 3))
    batch = await wakes(admit_all(ledgers[0], batch, ["a", "b", "c"]))
    one, two, three = await claimed(ledgers[0], batch)
    await ledgers[0].settle_flow(batch.no, [done(one)], now=11.0)  # nothing new for anybody
    await wakes(ledgers[0].settle_flow(batch.no, [failed(two, due_at=20.0)], now=11.0))
    await wakes(ledgers[0].release_flow_claims(batch.no, [(three.order.task_no, 1)]))
    await wakes(ledgers[0].pause(batch.no, act()))
    await wakes(ledgers[0].resume(batch.no, act()))
    claims = await claimed(ledgers[0], batch, now=30.0)
    await wakes(ledgers[0].settle_flow(batch.no, [done(claim) for claim in claims], now=31.0))
    await wakes(ledgers[0].cancel(batch.no, act()))
    assert heard.locked()
