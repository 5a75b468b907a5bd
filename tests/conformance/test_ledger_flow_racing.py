"""Several members at one batch that flows, on one PostgreSQL: whatever they do at the same moment happens
once, and the counters say what the rows say.
"""

import asyncio
import random

import pytest
from tests.servers.postgres import fresh_schema
from tests.suites.flow_situations import (
    NAMES,
    PLAN,
    admitted,
    begun,
    check_counters,
    claimed,
    done,
    ends,
    failed,
    first,
    follows,
    kinds_of,
    outcomes,
    parts,
    states_of,
)
from tests.suites.ledger_flow_units_suite import given_tasks
from tests.suites.ledger_situations import act

from quire.database.postgres import PostgresDatabase
from quire.engine import moves
from quire.ledger.flow_values import Admission, Effects, Follower
from quire.ledger.port import TaskSelection
from quire.ledger.postgres import PostgresLedger
from quire.model.batch import Stage
from quire.model.errors import Stale
from quire.model.work import Outcome
from quire.testing.factories import file

pytestmark = pytest.mark.service
FILES = 60
MEMBERS = 6


@pytest.fixture
async def ledgers(postgres_server):
    dsn = fresh_schema(postgres_server)
    databases = [PostgresDatabase(dsn) for _ in range(2)]
    for database in databases:
        await database.open()
    both = [PostgresLedger(database) for database in databases]
    await both[0].prepare()
    yield both
    for database in databases:
        await database.close()


@pytest.fixture
def select(ledgers):
    async def rows(query):
        async def work(connection):
            return await (await connection.execute(query)).fetchall()

        return await ledgers[0]._database.read(work)

    return rows


class Members:
    """They claim and settle all phases of one batch until nothing is left; two at a time meet on everything.
    `judge(claim, dice)` says how an attempt ends.
    """

    def __init__(self, ledgers, batch, judge, seed=7):
        self.ledgers = ledgers
        self.batch = batch
        self.judge = judge
        self.dice = random.Random(seed)
        self.claimed = []
        self.applied = 0

    async def work(self, *beside):
        await asyncio.gather(*(self._work_as(number) for number in range(MEMBERS)), *beside)

    async def _work_as(self, number):
        ledger = self.ledgers[number % len(self.ledgers)]
        idle = 0
        while idle < 25:
            busy = False
            for phase in (3, 2, 1):
                limit = self.dice.randrange(1, 9)
                claims = await ledger.claim_phase(self.batch.no, phase, member=number, limit=limit, now=1e6)
                self.claimed += [(claim.order.task_no, claim.order.attempt) for claim in claims]
                if claims:
                    busy = True
                    await self._settle(ledger, claims)
            busy = await self._join(ledger) or busy
            idle = 0 if busy else idle + 1

    async def _settle(self, ledger, claims):
        back = [claim for claim in claims if self.dice.random() < 0.1]
        await ledger.release_flow_claims(
            self.batch.no, [(claim.order.task_no, claim.order.attempt) for claim in back]
        )
        told = [self.judge(claim, self.dice) for claim in claims if claim not in back]
        # The answer is lost now and then, and the same is told by two.
        tellers = self.ledgers if self.dice.random() < 0.3 else [ledger]
        answers = await asyncio.gather(
            *(teller.settle_flow(self.batch.no, told, now=1e6) for teller in tellers)
        )
        self.applied += sum(answer.applied for answer in answers)

    async def _join(self, ledger):
        joins = await ledger.list_complete_joins(self.batch.no, 20)
        planned = [
            (
                Effects(
                    phase=join.place.phase,
                    root_no=join.place.root_no,
                    parent_no=join.place.file_no,
                    followers=(Follower(3, (0,), join.place.file_no, 0),),
                    walking=1,
                ),
                [],
            )
            for join in joins
        ]
        if planned:
            await asyncio.gather(*(each.apply_joins(self.batch, planned, now=1e6) for each in self.ledgers))
        return bool(planned)


def judge(claim, dice):
    """Three phases, the second with two steps side by side; some fail, some are tried again."""
    if dice.random() < 0.15 and claim.order.attempt < 4:
        return failed(claim, due_at=5.0)
    phase = claim.place.phase
    bad = dice.random() < 0.1
    if phase == 2:
        return failed(claim, parts(claim)) if bad else done(claim, parts(claim))
    if phase == 3:
        return failed(claim) if bad else done(claim)
    return failed(claim) if bad else done(claim, follows(claim, 2, (0, 1)))


async def test_many_members_settle_every_task_once_and_end_the_batch_once(ledgers, select):
    batch = await admitted(ledgers[0], FILES)
    members = Members(ledgers, batch, judge)
    await members.work()
    batch = await ledgers[1].get_batch(batch.id)
    assert batch.position.stage is Stage.ENDING
    assert len(members.claimed) == len(set(members.claimed))  # no attempt went out twice
    assert set((await states_of(select, batch)).values()) <= {"done", "failed"}
    await check_counters(select, batch)
    ended = await asyncio.gather(
        *(ledger.apply_move(moves.end(batch, PLAN, now=1e6)) for ledger in ledgers * 3),
        return_exceptions=True,
    )
    assert sum(not isinstance(one, Stale) for one in ended) == 1
    kinds = await kinds_of(ledgers[0], batch)
    assert (kinds.count("batch_done"), kinds.count("phase_started")) == (1, 3)
    assert {outcome for outcome, _ in (await outcomes(ledgers[0], batch)).values()} <= {"done", "failed"}


async def test_the_intake_goes_on_while_members_work(ledgers, select):
    batch = await begun(ledgers[0], FILES)

    async def admit(ledger):
        """A chunk at a time; two schedulers meet on each."""
        while True:
            at = await ledger.get_batch(batch.id)
            start = at.position.cursor
            if start >= FILES or at.flow.sources == 0:
                return
            numbers = range(start + 1, start + 6)
            chunk = [Admission(no, file(f"d/f{no}.tif"), first(no)) for no in numbers]
            try:
                await ledger.admit_files(
                    at,
                    chunk,
                    cursor=start + 5,
                    admitted=start + 5,
                    admissible=start + 5,
                    complete=start + 5 == FILES,
                    now=1e6,
                )
            except Stale:
                continue

    members = Members(ledgers, batch, judge)
    await members.work(*(admit(ledger) for ledger in ledgers))
    await members.work()
    batch = await ledgers[0].get_batch(batch.id)
    assert batch.position.stage is Stage.ENDING
    assert sum(phase == 1 for phase, _, _ in await states_of(select, batch)) == FILES
    await check_counters(select, batch)


async def test_cancelling_reopening_and_working_at_once_loses_nothing(ledgers, select):
    batch = await admitted(ledgers[0], FILES)

    async def interfere():
        for number in range(6):
            ledger = ledgers[number % 2]
            try:
                await ledger.cancel(batch.no, act())
                await check_counters(select, batch)
                await ledger.reopen(batch.no, act(), status="ONE")
            except Stale:
                return  # it has ended meanwhile

    members = Members(ledgers, batch, judge)
    await members.work(interfere())
    await members.work()
    batch = await ledgers[0].get_batch(batch.id)
    assert batch.position.stage is Stage.ENDING
    await check_counters(select, batch)


async def test_a_round_of_retries_is_begun_by_one_and_done_by_all(ledgers, select):
    batch = await admitted(ledgers[0], FILES)
    await Members(ledgers, batch, judge).work()
    batch = await ledgers[0].get_batch(batch.id)
    batch = await ledgers[0].apply_move(moves.end(batch, PLAN, now=1e6))
    answers = await asyncio.gather(
        *(
            ledger.retry_flow(batch, TaskSelection(), act(2e6), waiting=(), names=NAMES)
            for ledger in ledgers * 3
        ),
        return_exceptions=True,
    )
    assert sum(isinstance(answer, Stale) for answer in answers) == 5
    (batch,) = [answer for answer in answers if not isinstance(answer, BaseException)]
    await check_counters(select, batch)
    fine = Members(
        ledgers,
        batch,
        lambda claim, _: done(
            claim,
            {1: lambda: follows(claim, 2, (0, 1)), 2: lambda: parts(claim), 3: lambda: ends(claim)}[
                claim.place.phase
            ](),
        ),
    )
    await fine.work()
    batch = await ledgers[1].get_batch(batch.id)
    assert batch.position.stage is Stage.ENDING
    assert set((await states_of(select, batch)).values()) == {"done"}
    assert {outcome for outcome, _ in (await outcomes(ledgers[0], batch)).values()} == {"done"}
    await check_counters(select, batch)


async def test_a_join_is_applied_by_one(ledgers, select):
    batch = await admitted(ledgers[0], FILES, branches=(0, 1, 2))
    claims = await claimed(ledgers[0], batch, limit=3 * FILES)
    await asyncio.gather(
        *(
            ledgers[number % 2].settle_flow(batch.no, [done(claim, parts(claim))], now=11.0)
            for number, claim in enumerate(claims)
        )
    )
    planned = [(Effects(phase=1, root_no=no, parent_no=no, tries=3), []) for no in range(1, FILES + 1)]
    await asyncio.gather(
        *(
            ledgers[number % 2].apply_joins(batch, planned[:: -1 if number % 2 else 1], now=12.0)
            for number in range(6)
        )
    )
    batch = await ledgers[0].get_batch(batch.id)
    assert batch.position.stage is Stage.ENDING
    assert set((await outcomes(ledgers[0], batch)).values()) == {("done", 3)}
    await check_counters(select, batch)


async def test_folders_below_that_settle_at_once_free_the_folder_above_once(ledgers, select):
    paths = [f"a/{number:02}/f.tif" for number in range(20)]
    batch = await admitted(ledgers[0], paths=paths, phases=["ONE", "DIRS"], waits_at=2)
    claims = await claimed(ledgers[0], batch)
    await ledgers[0].settle_flow(batch.no, [done(claim) for claim in claims], now=11.0)
    batch = await ledgers[0].get_batch(batch.id)
    begun_by = await asyncio.gather(*(ledger.begin_gather(batch, 2) for ledger in ledgers * 3))
    assert sum(one is not None for one in begun_by) == 1
    (at,) = [one for one in begun_by if one is not None]
    members = [(path.rpartition("/")[0], no) for no, path in enumerate(paths, start=1)]
    folders = ["", "a", *(folder for folder, _ in members)]
    at = await ledgers[0].add_units(at, 2, members, folders, cursor=len(paths), complete=True, now=12.0)
    at = await given_tasks(ledgers[0], at)
    units = await claimed(ledgers[0], at, 2, now=20.0)
    assert len(units) == 20
    await asyncio.gather(
        *(
            ledgers[number % 2].settle_flow(at.no, [done(unit, ends(unit, of_unit=True))], now=21.0)
            for number, unit in enumerate(units)
        )
    )
    above = await asyncio.gather(*(claimed(ledger, at, 2, now=22.0) for ledger in ledgers * 3))
    assert [claim.order.file.path for claims in above for claim in claims] == ["a"]
    await check_counters(select, batch)


async def test_the_answer_and_its_deadline_at_once_count_once(ledgers, select):
    batch = await admitted(ledgers[0], FILES)
    claims = await claimed(ledgers[0], batch, limit=FILES)
    given_up = [failed(claim, outcome=Outcome.TIMED_OUT, error_class="no_answer") for claim in claims]
    answers = await asyncio.gather(
        *(ledgers[0].settle_flow(batch.no, [one], now=11.0) for one in given_up),
        *(ledgers[1].settle_flow(batch.no, [done(claim)], now=11.0) for claim in claims),
    )
    # A success that comes after its deadline takes the failure back; a deadline after a success is a stray.
    assert sum(one.applied for one in answers[FILES:]) <= FILES
    batch = await ledgers[0].get_batch(batch.id)
    assert batch.position.stage is Stage.ENDING
    await check_counters(select, batch)


async def test_who_claims_while_it_is_removed_gets_nothing_or_stays(ledgers):
    batch = await admitted(ledgers[0], FILES)
    for number in range(FILES):
        member = await ledgers[0].add_member("zombie", "house", "here", now=1.0)
        calls = [
            ledgers[number % 2].claim_phase(batch.no, 1, member=member.no, limit=1, now=10.0),
            ledgers[1 - number % 2].remove_member(member.no),
        ]
        if number % 3:
            calls.reverse()
        answers = await asyncio.gather(*calls)
        (claims,) = [answer for answer in answers if answer is not None]
        stays = member.no in {one.no for one in await ledgers[0].list_members()}
        assert bool(claims) is stays
        await ledgers[0].release_flow_claims(
            batch.no, [(claim.order.task_no, claim.order.attempt) for claim in claims]
        )
        assert await ledgers[0].list_running(member.no) == []
