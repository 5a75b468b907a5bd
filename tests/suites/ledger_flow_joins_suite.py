"""What every ledger keeps of steps side by side: a document's effects are applied once, when all of them have
settled.
"""

from quire.ledger.flow_values import Effects, Follower
from quire.ledger.port import Claim
from quire.model.batch import Stage, TaskState
from quire.model.work import StepResult, Value
from tests.suites.flow_situations import (
    Select,
    admitted,
    check_counters,
    claimed,
    done,
    effects_of,
    ends,
    failed,
    fails,
    follows,
    made,
    outcomes,
    parts,
    states_of,
)
from tests.suites.ledger_adapter import LedgerAdapter
from tests.suites.ledger_situations import act

SIDE_BY_SIDE = (0, 1, 2)


def valued(number: int) -> StepResult:
    return StepResult(value=Value(data=f"{number}".encode()))


def branch_of(claim: Claim) -> int:
    assert claim.place is not None
    return claim.place.branch


class FlowJoinSuite:
    async def test_branches_are_claimed_one_by_one_and_joined_together(
        self, ledger: LedgerAdapter, select: Select
    ) -> None:
        batch = await admitted(ledger, 2, branches=SIDE_BY_SIDE)
        assert batch.flow is not None
        assert batch.flow.open_tasks == 8  # with a join for each document
        claims = await claimed(ledger, batch)
        assert [branch_of(claim) for claim in claims] == [0, 1, 2, 0, 1, 2]
        zero, one, two, *others = claims
        await ledger.settle_flow(batch.no, [done(two, parts(two), result=valued(2))], now=11.0)
        await ledger.settle_flow(batch.no, [failed(zero, parts(zero))], now=11.0)
        assert await ledger.list_complete_joins(batch.no, 9) == []
        settled = await ledger.settle_flow(batch.no, [done(one, parts(one), result=valued(1))], now=12.0)
        assert settled.phase_ended  # there is something for a scheduler
        (join,) = await ledger.list_complete_joins(batch.no, 9)
        assert (join.place.phase, join.place.file_no, join.place.root_no) == (1, 1, 1)
        assert join.file == zero.order.file
        told = [(each.branch, each.state, each.tries, each.error_class) for each in join.branches]
        assert told == [
            (0, TaskState.FAILED, 1, "busy"),
            (1, TaskState.DONE, 1, ""),
            (2, TaskState.DONE, 1, ""),
        ]
        assert [each.result for each in join.branches[1:]] == [valued(1), valued(2)]
        await check_counters(select, batch)
        assert len(others) == 3

    async def test_effects_of_a_join_are_applied_once(self, ledger: LedgerAdapter, select: Select) -> None:
        batch = await admitted(ledger, 1, branches=SIDE_BY_SIDE)
        claims = await claimed(ledger, batch)
        told = [done(claim, parts(claim)) for claim in claims]
        await ledger.settle_flow(batch.no, told, now=11.0)
        effects = effects_of(
            claims[0],
            new_files=(made("d/a"), made("d/b", listed=False)),
            followers=(Follower(2, (0,), 1, 3), Follower(2, (0, 1), -1, 0)),
            walking=2,
        )
        for _ in range(2):
            await ledger.apply_joins(batch, [(effects, []), (effects, [])], now=12.0)
        assert await ledger.list_complete_joins(batch.no, 9) == []
        later = await claimed(ledger, batch, 2)
        assert [(claim.order.file.path, branch_of(claim)) for claim in later] == [
            ("d/f1.tif", 0),
            ("d/a", 0),
            ("d/a", 1),
        ]
        await check_counters(select, batch)

    async def test_the_batch_does_not_end_before_its_joins(
        self, ledger: LedgerAdapter, select: Select
    ) -> None:
        batch = await admitted(ledger, 1, branches=(0, 1))
        claims = await claimed(ledger, batch)
        await ledger.settle_flow(batch.no, [done(claim, parts(claim)) for claim in claims], now=11.0)
        batch = await ledger.get_batch(batch.id)
        assert batch.position.stage is Stage.FLOWING
        (taken,) = await ledger.take_batches(5, limit=9, now=12.0)
        assert taken.no == batch.no
        await ledger.apply_joins(batch, [(ends(claims[0], tries=2), [])], now=12.0)
        assert (await ledger.get_batch(batch.id)).position.stage is Stage.ENDING
        assert await outcomes(ledger, batch) == {"d/f1.tif": ("done", 2)}
        await check_counters(select, batch)

    async def test_results_that_do_not_fit_together_fail_their_branch(
        self, ledger: LedgerAdapter, select: Select
    ) -> None:
        batch = await admitted(ledger, 1, branches=(0, 1))
        zero, one = await claimed(ledger, batch)
        await ledger.settle_flow(batch.no, [done(zero, parts(zero)), done(one, parts(one))], now=11.0)
        effects = ends(zero, tries=2, failure=fails(zero, error_class="name_twice"))
        await ledger.apply_joins(batch, [(effects, [(1, "name_twice", "the same name\0")])], now=12.0)
        assert await states_of(select, batch) == {(1, 1, 0): "done", (1, 1, 1): "failed"}
        (counts, *_) = await ledger.count_tasks(batch.no)
        assert (counts.done, counts.failed) == (1, 1)
        assert await outcomes(ledger, batch) == {"d/f1.tif": ("failed", 2)}
        await check_counters(select, batch)

    async def test_an_ended_batch_joins_nothing(self, ledger: LedgerAdapter, select: Select) -> None:
        batch = await admitted(ledger, 1, branches=(0, 1))
        claims = await claimed(ledger, batch)
        await ledger.settle_flow(batch.no, [done(claim, parts(claim)) for claim in claims], now=11.0)
        await ledger.cancel(batch.no, act())
        effects = follows(claims[0])
        await ledger.apply_joins(batch, [(effects, [])], now=12.0)
        await ledger.reopen(batch.no, act(), status="ONE")
        assert len(await ledger.list_complete_joins(batch.no, 9)) == 1
        await ledger.apply_joins(batch, [(effects, [])], now=13.0)
        assert len(await claimed(ledger, batch, 2)) == 1
        await check_counters(select, batch)

    async def test_a_branch_that_is_tried_again_is_waited_for(
        self, ledger: LedgerAdapter, select: Select
    ) -> None:
        batch = await admitted(ledger, 1, branches=(0, 1))
        zero, one = await claimed(ledger, batch)
        await ledger.settle_flow(batch.no, [failed(zero, due_at=20.0), done(one, parts(one))], now=11.0)
        assert await ledger.list_complete_joins(batch.no, 9) == []
        (again,) = await claimed(ledger, batch, now=20.0)
        await ledger.settle_flow(batch.no, [done(again, parts(again))], now=21.0)
        (join,) = await ledger.list_complete_joins(batch.no, 9)
        assert [each.tries for each in join.branches] == [2, 1]
        await check_counters(select, batch)

    async def test_joins_of_many_documents_come_in_order(self, ledger: LedgerAdapter, select: Select) -> None:
        batch = await admitted(ledger, 5, branches=(0, 1))
        claims = await claimed(ledger, batch)
        told = [done(claim, parts(claim)) for claim in reversed(claims)]
        await ledger.settle_flow(batch.no, told, now=11.0)
        joins = await ledger.list_complete_joins(batch.no, 3)
        assert [join.place.file_no for join in joins] == [1, 2, 3]
        planned: list[tuple[Effects, list[tuple[int, str, str]]]] = [
            (Effects(phase=1, root_no=no, parent_no=no, tries=2), []) for no in range(1, 6)
        ]
        await ledger.apply_joins(batch, planned, now=12.0)
        assert (await ledger.get_batch(batch.id)).position.stage is Stage.ENDING
        await check_counters(select, batch)
