"""What every ledger does when a person intervenes in a batch that flows: retry, cancel, reopen."""

import pytest

from quire.ledger.flow_values import Follower
from quire.ledger.port import RetrySelection, TaskSelection
from quire.model.batch import Stage
from quire.model.errors import Stale
from tests.suites.flow_situations import (
    Select,
    admitted,
    by_file,
    check_counters,
    claimed,
    done,
    effects_of,
    ends,
    failed,
    fails,
    finished,
    follows,
    kinds_of,
    made,
    outcomes,
    parts,
    retried,
    states_of,
)
from tests.suites.ledger_adapter import LedgerAdapter
from tests.suites.ledger_flow_units_suite import all_units, gathered, given_tasks, path_of, worked
from tests.suites.ledger_situations import act


class FlowControlSuite:
    async def test_only_what_failed_runs_again_in_its_own_rows(
        self, ledger: LedgerAdapter, select: Select
    ) -> None:
        batch = await admitted(ledger, 3)
        one, two, three = await claimed(ledger, batch)
        told = [done(one), failed(two), failed(three, error_class="torn")]
        await ledger.settle_flow(batch.no, told, now=11.0)
        batch = await finished(ledger, batch)
        preview = await ledger.preview_retry(batch.no, TaskSelection())
        assert preview == RetrySelection(failed=[(1, "busy", 1), (1, "torn", 1)], unsettled=0)
        batch = await retried(ledger, batch, TaskSelection(error_class="torn"))
        assert (batch.position.stage, batch.position.round, batch.status) == (Stage.FLOWING, 2, "ONE")
        assert batch.completed_at is None
        await check_counters(select, batch)
        (again,) = await claimed(ledger, batch, now=60.0)
        assert (path_of(again), again.order.attempt, again.failures) == ("d/f3.tif", 2, 0)
        await ledger.settle_flow(batch.no, [done(again)], now=61.0)
        batch = await finished(ledger, batch)
        found = {path: outcome for path, (outcome, _) in (await outcomes(ledger, batch)).items()}
        assert found == {"d/f1.tif": "done", "d/f2.tif": "failed", "d/f3.tif": "done"}
        kinds = await kinds_of(ledger, batch)
        assert (kinds.count("batch_retried"), kinds.count("batch_done")) == (1, 2)
        _, attempts = await ledger.get_file_history(batch.no, "d/f3.tif")
        assert [(each.attempt, each.outcome) for each in attempts] == [(1, "erred"), (2, "done")]
        await check_counters(select, batch)

    async def test_what_was_made_since_is_withdrawn(self, ledger: LedgerAdapter, select: Select) -> None:
        batch = await admitted(ledger, 2)
        one, two = await claimed(ledger, batch)
        passes = effects_of(one, followers=(Follower(2, (0,), 1, 1),), walking=1, failure=fails(one))
        await ledger.settle_flow(batch.no, [failed(one, passes), done(two, follows(two))], now=11.0)
        later = by_file(await claimed(ledger, batch, 2))
        new = effects_of(
            later[1],
            new_files=(made("d/page"),),
            leaves=True,
            followers=(Follower(3, (0,), -1, 2),),
            walking=1,
        )
        await ledger.settle_flow(batch.no, [done(later[1], new), done(later[2])], now=12.0)
        (page,) = await claimed(ledger, batch, 3)
        await ledger.settle_flow(batch.no, [done(page)], now=13.0)
        batch = await retried(ledger, await finished(ledger, batch))
        await check_counters(select, batch)
        assert await states_of(select, batch) == {(1, 1, 0): "waiting", (1, 2, 0): "done", (2, 2, 0): "done"}
        seen = await ledger.list_seen(batch.no, 3, after=0, limit=9)
        assert [each.file.path for each in seen] == ["d/f1.tif", "d/f2.tif"]
        (again,) = await claimed(ledger, batch, now=60.0)
        await ledger.settle_flow(batch.no, [done(again, follows(again))], now=61.0)
        (again,) = await claimed(ledger, batch, 2, now=62.0)
        await ledger.settle_flow(batch.no, [done(again)], now=63.0)
        batch = await finished(ledger, batch)
        assert {outcome for outcome, _ in (await outcomes(ledger, batch)).values()} == {"done"}
        await check_counters(select, batch)

    async def test_a_branch_runs_again_and_its_join_is_applied_anew(
        self, ledger: LedgerAdapter, select: Select
    ) -> None:
        batch = await admitted(ledger, 1, branches=(0, 1, 2))
        zero, one, two = await claimed(ledger, batch)
        told = [done(zero, parts(zero)), failed(one, parts(one)), failed(two, parts(two))]
        await ledger.settle_flow(batch.no, told, now=11.0)
        effects = ends(zero, new_files=(made("d/asset", listed=False),), tries=3, failure=fails(one))
        await ledger.apply_joins(batch, [(effects, [])], now=12.0)
        batch = await retried(ledger, await finished(ledger, batch))
        assert batch.flow is not None
        assert batch.flow.open_tasks == 3  # two tasks and the join
        await check_counters(select, batch)
        again = await claimed(ledger, batch, now=60.0)
        await ledger.settle_flow(batch.no, [done(claim, parts(claim)) for claim in again], now=61.0)
        (join,) = await ledger.list_complete_joins(batch.no, 9)
        assert [(each.branch, each.state.value) for each in join.branches] == [
            (0, "done"),
            (1, "done"),
            (2, "done"),
        ]
        await ledger.apply_joins(batch, [(ends(zero, tries=2), [])], now=62.0)
        batch = await finished(ledger, batch)
        assert (await outcomes(ledger, batch))["d/f1.tif"][0] == "done"
        await check_counters(select, batch)

    async def test_what_was_planned_for_a_join_is_not_applied_in_the_next_round(
        self, ledger: LedgerAdapter, select: Select
    ) -> None:
        """A scheduler that was held up applies what it made of the former results of the same branches."""
        batch = await admitted(ledger, 1, branches=(0, 1))
        zero, one = await claimed(ledger, batch)
        await ledger.settle_flow(batch.no, [done(zero, parts(zero)), failed(one, parts(one))], now=11.0)
        planned = [(ends(zero, tries=2, failure=fails(one)), [(0, "name_twice", "why")])]
        await ledger.apply_joins(batch, [(ends(zero, tries=2, failure=fails(one)), [])], now=12.0)
        later = await retried(ledger, await finished(ledger, batch))
        (again,) = await claimed(ledger, later, now=60.0)
        await ledger.settle_flow(batch.no, [done(again, parts(again))], now=61.0)
        with pytest.raises(Stale):
            await ledger.apply_joins(batch, planned, now=62.0)
        assert len(await ledger.list_complete_joins(batch.no, 9)) == 1
        assert await states_of(select, batch) == {(1, 1, 0): "done", (1, 1, 1): "done"}
        await check_counters(select, batch)
        await ledger.apply_joins(later, [(ends(zero, tries=2), [])], now=63.0)
        assert (await outcomes(ledger, await finished(ledger, batch)))["d/f1.tif"][0] == "done"
        await check_counters(select, batch)

    async def test_folders_above_are_made_anew(self, ledger: LedgerAdapter, select: Select) -> None:
        batch = await admitted(ledger, paths=["a/1.tif", "b/2.tif"], phases=["ONE", "DIRS"], waits_at=2)
        one, two = await claimed(ledger, batch)
        passes = ends(one, failure=fails(one))
        await ledger.settle_flow(batch.no, [failed(one, passes), done(two)], now=11.0)
        folders = ["", "a", "b"]
        batch = await given_tasks(ledger, await gathered(ledger, await ledger.get_batch(batch.id), folders))
        while units := await claimed(ledger, batch, 2, now=20.0):
            told = [done(unit, ends(unit, of_unit=True)) for unit in units]
            await ledger.settle_flow(batch.no, told, now=21.0)
        batch = await finished(ledger, batch)
        batch = await retried(ledger, batch, waiting=(2,), names=("ONE", "DIRS"))
        assert batch.flow is not None
        assert (batch.flow.waits_at, batch.flow.open_tasks) == (2, 1)
        await check_counters(select, batch)
        assert await ledger.begin_gather(batch, 2) is None
        (again,) = await claimed(ledger, batch, now=60.0)
        await ledger.settle_flow(batch.no, [done(again)], now=61.0)
        batch = await given_tasks(ledger, await gathered(ledger, await ledger.get_batch(batch.id), folders))
        seen = []
        while units := await claimed(ledger, batch, 2, now=62.0):
            seen += [path_of(unit) for unit in units]
            told = [done(unit, ends(unit, of_unit=True)) for unit in units]
            await ledger.settle_flow(batch.no, told, now=63.0)
        assert seen == ["a", "b", ""]
        batch = await finished(ledger, batch)
        assert {outcome for outcome, _ in (await outcomes(ledger, batch)).values()} == {"done"}
        await check_counters(select, batch)

    async def test_a_round_begins_once_and_only_with_something_to_do(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 2)
        one, two = await claimed(ledger, batch)
        await ledger.settle_flow(batch.no, [done(one), failed(two)], now=11.0)
        with pytest.raises(Stale):
            await retried(ledger, batch)  # it has not ended
        batch = await finished(ledger, batch)
        with pytest.raises(Stale):
            await retried(ledger, batch, TaskSelection(path="d/f1.tif"))
        await retried(ledger, batch, TaskSelection(path="d/f2.tif"))
        with pytest.raises(Stale):
            await retried(ledger, batch)

    async def test_a_cancelled_batch_goes_on_where_it_stopped(
        self, ledger: LedgerAdapter, select: Select
    ) -> None:
        batch = await admitted(ledger, 3)
        one, two, _ = await claimed(ledger, batch)
        await ledger.settle_flow(batch.no, [done(one, follows(one))], now=11.0)
        ended = await ledger.cancel(batch.no, act())
        assert ended.position.stage is Stage.CANCELLED
        assert await claimed(ledger, batch, 2) == []
        assert await ledger.list_flowing(limit=9, now=99.0) == []
        settled = await ledger.settle_flow(batch.no, [done(two)], now=52.0)
        assert (settled.applied, settled.strays) == (0, 1)
        assert (await ledger.preview_retry(batch.no, TaskSelection())).unsettled == 3
        batch = await ledger.reopen(batch.no, act(), status="ONE")
        assert batch.position.stage is Stage.FLOWING
        await check_counters(select, batch)
        again = await claimed(ledger, batch, now=60.0)
        assert [(path_of(claim), claim.order.attempt) for claim in again] == [
            ("d/f2.tif", 2),
            ("d/f3.tif", 2),
        ]
        later = await claimed(ledger, batch, 2, now=60.0)
        settled = await ledger.settle_flow(batch.no, [done(claim) for claim in (*again, *later)], now=61.0)
        assert (settled.applied, settled.strays) == (3, 0)
        batch = await finished(ledger, batch)
        assert {outcome for outcome, _ in (await outcomes(ledger, batch)).values()} == {"done"}
        await check_counters(select, batch)

    async def test_a_failed_folder_is_retried_by_the_path_of_any_member(
        self, ledger: LedgerAdapter, select: Select
    ) -> None:
        batch = await given_tasks(ledger, await gathered(ledger, await worked(ledger)))
        await all_units(ledger, batch, {"a/b": "torn"})
        batch = await finished(ledger, batch)
        assert (await ledger.preview_retry(batch.no, TaskSelection(path="4.tif"))).tasks == 0
        selection = TaskSelection(path="a/b/2.tif")
        assert (await ledger.preview_retry(batch.no, selection)).failed == [(2, "torn", 1)]
        batch = await retried(ledger, batch, selection, waiting=(2,), names=("ONE", "DIRS"))
        batch = await given_tasks(ledger, await gathered(ledger, batch))
        assert sorted(await all_units(ledger, batch, now=60.0)) == ["", "a", "a/b", "a/c"]
        batch = await finished(ledger, batch)
        ends_of = await ledger.list_inputs(batch.no, limit=9)
        assert [(one.outcome.value, one.error_class) for one in ends_of] == [("done", "")] * 4
        assert await ledger.count_failures(batch.no) == {}
        await check_counters(select, batch)

    async def test_a_failure_of_a_folder_that_is_made_anew_is_forgotten_by_all_members(
        self, ledger: LedgerAdapter, select: Select
    ) -> None:
        batch = await admitted(ledger, paths=["a/1.tif", "a/2.tif"], phases=["ONE", "DIRS"], waits_at=2)
        one, two = await claimed(ledger, batch)
        await ledger.settle_flow(batch.no, [failed(one), done(two)], now=11.0)
        folders = ["", "a"]
        batch = await given_tasks(ledger, await gathered(ledger, await ledger.get_batch(batch.id), folders))
        await all_units(ledger, batch, {"a": "torn"})
        batch = await finished(ledger, batch)
        assert {outcome for outcome, _ in (await outcomes(ledger, batch)).values()} == {"failed"}
        selection = TaskSelection(error_class="busy")
        batch = await retried(ledger, batch, selection, waiting=(2,), names=("ONE", "DIRS"))
        (again,) = await claimed(ledger, batch, now=60.0)
        await ledger.settle_flow(batch.no, [done(again)], now=61.0)
        batch = await given_tasks(ledger, await gathered(ledger, await ledger.get_batch(batch.id), folders))
        assert await all_units(ledger, batch, now=62.0) == ["a", ""]
        batch = await finished(ledger, batch)
        assert {outcome for outcome, _ in (await outcomes(ledger, batch)).values()} == {"done"}
        await check_counters(select, batch)
