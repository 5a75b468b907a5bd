"""What every ledger keeps on the floor: claims, reports, retries, ranks, costs, and the cache."""

import pytest
from msgspec import structs

from quire.engine import moves, sharing
from quire.engine.sharing import effective_tier
from quire.ledger.port import Settlement, SettleResult, StoredTask, StrayKind
from quire.model.batch import Budget, Hold, Position, Spending, Stage, TaskState
from quire.model.cost import Cost
from quire.model.errors import Missing
from quire.model.work import Outcome, StepResult
from quire.testing.factories import file
from quire.testing.factories import former_phase as phase
from quire.testing.factories import former_pipeline as pipeline
from tests.suites.ledger_adapter import LedgerAdapter
from tests.suites.ledger_situations import (
    ME,
    ONE,
    TWO,
    act,
    done,
    entered,
    erred,
    filled,
    folded,
    started,
    worked,
)

# The rank is the number in the file's name.
RANKED = pipeline(phase("ONE", rank=lambda one: int(one.name[1])))


class FloorSuite:
    async def test_claims_are_disjoint_and_numbered(self, ledger: LedgerAdapter) -> None:
        batch = await started(ledger, files=5)
        first = await ledger.claim_tasks(batch.no, member=ME, limit=2, now=10.0)
        second = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0)
        assert [claim.order.task_no for claim in (*first, *second)] == [1, 2, 3, 4, 5]
        assert {claim.order.attempt for claim in (*first, *second)} == {1}
        assert await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0) == []
        assert first[0].order.file == file("d/f0.tif")

    async def test_a_report_counts_once(self, ledger: LedgerAdapter) -> None:
        batch = await started(ledger, files=3)
        one, two, three = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0)
        settled = await ledger.settle_reports(batch.no, [done(one), done(one), done(two)], now=11.0)
        assert settled == SettleResult(2, 1, False)
        assert await ledger.settle_reports(batch.no, [done(one)], now=11.0) == SettleResult(0, 1, False)
        (counts,) = await ledger.count_tasks(batch.no)
        assert (counts.total, counts.done, counts.failed) == (3, 2, 0)
        assert (await ledger.settle_reports(batch.no, [done(three)], now=12.0)).phase_ended

    async def test_a_task_can_be_looked_at(self, ledger: LedgerAdapter) -> None:
        batch = await started(ledger, files=2)
        ready = await ledger.get_task(batch.no, 2)
        assert (ready.state, ready.claim.order.attempt) == (TaskState.READY, 0)
        (claim, _) = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0)
        assert await ledger.get_task(batch.no, 1) == StoredTask(
            claim=claim, phase=1, round=1, state=TaskState.RUNNING
        )
        await ledger.settle_reports(batch.no, [erred(claim, due_at=20.0)], now=11.0)
        found = await ledger.get_task(batch.no, 1)
        assert (found.state, found.claim.failures) == (TaskState.WAITING, 1)
        for place in ((batch.no, 3), (batch.no + 1, 1)):
            with pytest.raises(Missing) as caught:
                await ledger.get_task(*place)
            assert caught.value.code == "unknown_task"

    async def test_a_phase_ends_exactly_once(self, ledger: LedgerAdapter) -> None:
        batch = await started(ledger, files=1)
        (claim,) = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0)
        ends = [
            (await ledger.settle_reports(batch.no, [done(claim)], now=11.0)).phase_ended for _ in range(3)
        ]
        assert ends == [True, False, False]
        assert (await ledger.get_batch(batch.id)).position.stage is Stage.TRANSFORMING

    async def test_a_task_that_waits_comes_again_when_due(self, ledger: LedgerAdapter) -> None:
        batch = await started(ledger, files=1)
        (claim,) = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0)
        await ledger.settle_reports(batch.no, [erred(claim, due_at=20.0)], now=11.0)
        assert await ledger.next_alarm(now=11.0) == 20.0
        assert await ledger.claim_tasks(batch.no, member=ME, limit=9, now=19.9) == []
        (again,) = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=20.0)
        assert (again.order.attempt, again.failures, again.interruptions) == (2, 1, 0)
        assert await ledger.next_alarm(now=20.0) is None

    async def test_interruptions_are_counted_apart(self, ledger: LedgerAdapter) -> None:
        batch = await started(ledger, files=1)
        (claim,) = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0)
        await ledger.settle_reports(batch.no, [erred(claim, due_at=10.0, blame=False)], now=10.0)
        (again,) = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0)
        assert (again.failures, again.interruptions) == (0, 1)

    async def test_a_zombie_cannot_commit(self, ledger: LedgerAdapter) -> None:
        batch = await started(ledger, files=1)
        (old,) = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0)
        await ledger.settle_reports(batch.no, [erred(old, due_at=10.0)], now=10.0)
        (new,) = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0)
        assert await ledger.settle_reports(batch.no, [done(old)], now=11.0) == SettleResult(0, 1, False)
        assert await ledger.settle_reports(batch.no, [done(new)], now=11.0) == SettleResult(1, 0, True)

    async def test_an_alarm_rings_for_each_task_that_waits(self, ledger: LedgerAdapter) -> None:
        batch = await started(ledger, files=3)
        claims = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0)
        due = (20.0, 20.0, 30.0)
        told = [erred(claim, due_at=at) for claim, at in zip(claims, due, strict=True)]
        await ledger.settle_reports(batch.no, told, now=11.0)
        assert len(await ledger.claim_tasks(batch.no, member=ME, limit=1, now=21.0)) == 1
        assert await ledger.next_alarm(now=19.0) == 20.0
        assert await ledger.next_alarm(now=20.0) is None  # the other is due, and later ones wait behind it
        assert len(await ledger.claim_tasks(batch.no, member=ME, limit=9, now=21.0)) == 1
        assert await ledger.next_alarm(now=21.0) == 30.0
        assert await ledger.next_alarm(now=21.0, only=[batch.no + 1]) is None

    async def test_orders_given_back_are_as_if_never_claimed(self, ledger: LedgerAdapter) -> None:
        batch = await started(ledger, files=2)
        claims = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0)
        await ledger.release_claims([claim.order for claim in claims])
        await ledger.release_claims([])
        assert await ledger.list_running(ME) == []
        again = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=11.0)
        assert [(claim.order.task_no, claim.order.attempt) for claim in again] == [(1, 1), (2, 1)]

    async def test_a_retry_given_back_keeps_its_history(self, ledger: LedgerAdapter) -> None:
        batch = await started(ledger, files=1)
        for expected in (1, 2, 2):
            (claim,) = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0)
            assert claim.order.attempt == expected
            if expected == 1:
                await ledger.settle_reports(batch.no, [erred(claim, due_at=10.0)], now=10.0)
            else:
                await ledger.release_claims([claim.order])
        _, attempts = await ledger.get_file_history(batch.no, "d/f0.tif")
        assert [(one.attempt, one.outcome, one.error) for one in attempts] == [(1, "erred", "busy")]

    async def test_running_attempts_are_found_by_their_member(self, ledger: LedgerAdapter) -> None:
        batch = await started(ledger, files=3)
        claims = await ledger.claim_tasks(batch.no, member=7, limit=2, now=10.0)
        await ledger.claim_tasks(batch.no, member=8, limit=2, now=10.0)
        await ledger.settle_reports(batch.no, [done(claims[0])], now=11.0)
        (left,) = await ledger.list_running(7)
        assert (left.order, left.started_at) == (claims[1].order, 10.0)
        await ledger.cancel(batch.no, act())
        assert await ledger.list_running(7) == []

    async def test_where_batches_stand_is_known_by_number(self, ledger: LedgerAdapter) -> None:
        batch = await started(ledger)
        assert await ledger.get_positions([batch.no, batch.no + 1]) == {
            batch.no: Position(Stage.WORKING, 1, 0)
        }

    async def test_the_cache_remembers_and_forgets(self, ledger: LedgerAdapter) -> None:
        batch = await started(ledger, files=2)
        one, two = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0)
        result = StepResult(facts={"n": 1})
        kept = [
            Settlement(report=done(one, result=result).report, state=TaskState.DONE, cache_key="k1"),
            Settlement(report=done(two).report, state=TaskState.DONE, cache_key="k2"),
        ]
        await ledger.settle_reports(batch.no, kept, now=11.0)
        assert await ledger.load_cached(["k1", "k2", "k3"]) == {"k1": result, "k2": StepResult()}
        await ledger.evict_cached(["k1"])
        assert await ledger.load_cached(["k1"]) == {}

    async def test_batches_do_not_mix(self, ledger: LedgerAdapter) -> None:
        first = await started(ledger, files=2, batch_id="01A")
        second = await started(ledger, files=1, batch_id="01C")
        await ledger.claim_tasks(first.no, member=ME, limit=1, now=10.0)
        (claim,) = await ledger.claim_tasks(second.no, member=ME, limit=9, now=10.0)
        assert (await ledger.settle_reports(second.no, [done(claim)], now=11.0)).phase_ended
        assert (await ledger.get_batch(first.id)).position.stage is Stage.WORKING

    async def test_a_late_success_is_taken_while_its_task_waits(self, ledger: LedgerAdapter) -> None:
        batch = await started(ledger, files=2)
        one, two = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0)
        slow = erred(one, due_at=20.0, outcome=Outcome.TIMED_OUT)
        assert (await ledger.settle_reports(batch.no, [slow], now=11.0)).applied == 1
        result = StepResult(facts={"n": 1})
        assert await ledger.settle_reports(batch.no, [done(one, result=result)], now=12.0) == SettleResult(
            1, 0, False
        )
        assert await ledger.settle_reports(batch.no, [done(one)], now=12.0) == SettleResult(0, 1, False)
        assert await ledger.claim_tasks(batch.no, member=ME, limit=9, now=21.0) == []
        assert (await ledger.settle_reports(batch.no, [done(two)], now=22.0)).phase_ended
        first, _ = await ledger.list_settled_tasks(await ledger.get_batch(batch.id), after=0, limit=9)
        assert (first.state, first.result) == (TaskState.DONE, result)
        _, attempts = await ledger.get_file_history(batch.no, "d/f0.tif")
        assert [one.outcome for one in attempts] == ["timed_out", "done"]

    async def test_a_late_success_turns_a_failure_round(self, ledger: LedgerAdapter) -> None:
        batch = await started(ledger, files=2)
        one, two = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0)
        slow = erred(one, due_at=None, outcome=Outcome.TIMED_OUT)
        # Both at once, as after an outage of the ledger.
        assert await ledger.settle_reports(batch.no, [slow, done(one)], now=11.0) == SettleResult(2, 0, False)
        (counts,) = await ledger.count_tasks(batch.no)
        assert (counts.done, counts.failed, await ledger.count_failures(batch.no)) == (1, 0, {})
        slow = erred(two, due_at=None, outcome=Outcome.TIMED_OUT)
        assert (await ledger.settle_reports(batch.no, [slow], now=12.0)).phase_ended
        assert await ledger.settle_reports(batch.no, [done(two)], now=13.0) == SettleResult(0, 1, False)
        (counts,) = await ledger.count_tasks(batch.no)
        assert (counts.done, counts.failed, await ledger.count_failures(batch.no)) == (1, 1, {"busy": 1})

    async def test_what_failed_otherwise_stays_failed(self, ledger: LedgerAdapter) -> None:
        batch = await started(ledger, files=2)
        one, _ = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0)
        await ledger.settle_reports(batch.no, [erred(one, due_at=None)], now=11.0)
        assert await ledger.settle_reports(batch.no, [done(one)], now=12.0) == SettleResult(0, 1, False)

    async def test_strays_are_kept_with_their_kind(self, ledger: LedgerAdapter) -> None:
        batch = await started(ledger, files=2)
        one, two = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0)
        await ledger.settle_reports(batch.no, [done(one), erred(two, due_at=10.0)], now=11.0)
        await ledger.claim_tasks(batch.no, member=ME, limit=9, now=11.0)
        forged = structs.replace(one.order, task_no=99), structs.replace(one.order, attempt=5)
        strays = [structs.replace(one, order=order) for order in forged]
        await ledger.settle_reports(batch.no, [done(claim) for claim in (one, two, *strays)], now=12.0)
        kept = await ledger.list_stray_reports(batch.no, limit=9)
        assert [(stray.task_no, stray.attempt, stray.kind) for stray in kept] == [
            (1, 1, StrayKind.DUPLICATE),
            (2, 1, StrayKind.LATE),
            (99, 1, StrayKind.UNKNOWN),
            (1, 5, StrayKind.UNKNOWN),
        ]
        assert (kept[0].received_at, kept[0].outcome, kept[0].worker) == (12.0, "done", "w")
        assert len(await ledger.list_stray_reports(batch.no, limit=2)) == 2

    async def test_costs_of_all_attempts_add_up(self, ledger: LedgerAdapter) -> None:
        batch = await started(ledger, files=2)
        one, two = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0)
        await ledger.settle_reports(
            batch.no,
            [done(one, cost=Cost(1, 2, 3, 4, 5)), erred(two, due_at=10.0, cost=Cost(10, 20, 30, 40, 50))],
            now=11.0,
        )
        (again,) = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=11.0)
        cached = Settlement(report=done(again).report, state=TaskState.DONE, cached=True)
        await ledger.settle_reports(batch.no, [cached], now=12.0)
        (counts,) = await ledger.count_tasks(batch.no)
        assert counts.cached == 1
        spent = structs.replace(counts.spent, seconds=round(counts.spent.seconds, 6))
        assert spent == Spending(
            seconds=0.3, bytes_in=11, bytes_out=22, tokens_in=33, tokens_out=44, money_micros=55
        )
        _, second = await ledger.list_settled_tasks(await ledger.get_batch(batch.id), after=0, limit=9)
        assert second.tries == 1  # from the cache: nothing ran

    async def test_who_has_spent_its_budget_is_held(self, ledger: LedgerAdapter) -> None:
        batch = await started(ledger, files=4, budget=Budget(money_micros=100))
        one, two = await ledger.claim_tasks(batch.no, member=ME, limit=2, now=10.0)
        await ledger.settle_reports(batch.no, [done(one, cost=Cost(money_micros=99))], now=11.0)
        assert (await ledger.get_batch(batch.id)).hold is None
        await ledger.settle_reports(batch.no, [done(two, cost=Cost(money_micros=1))], now=12.0)
        held = await ledger.get_batch(batch.id)
        assert (held.hold, bool(held.hold_reason)) == (Hold.BUDGET, True)
        assert await ledger.claim_tasks(batch.no, member=ME, limit=9, now=13.0) == []
        assert await ledger.list_workable(limit=9, now=13.0) == []
        kinds = [kind for _, _, kind, _ in await ledger.list_events(batch.no, limit=99)]
        assert kinds.count("batch_held") == 1
        resumed = await ledger.resume(batch.no, act(), budget=Budget(money_micros=200))
        assert (resumed.hold, resumed.budget) == (None, Budget(money_micros=200))
        assert len(await ledger.claim_tasks(batch.no, member=ME, limit=9, now=14.0)) == 2

    async def test_a_budget_spent_in_one_phase_holds_the_next(self, ledger: LedgerAdapter) -> None:
        plan = pipeline(phase("ONE"), phase("TWO"))
        batch = await started(ledger, files=1, plan=plan, budget=Budget(tokens=5))
        (claim,) = await ledger.claim_tasks(batch.no, member=ME, limit=2, now=10.0)
        settled = await ledger.settle_reports(
            batch.no, [done(claim, cost=Cost(tokens_in=3, tokens_out=3))], now=11.0
        )
        assert settled.phase_ended
        batch = await ledger.get_batch(batch.id)
        assert batch.hold is None  # what is paid for is folded
        tasks = await ledger.list_settled_tasks(batch, after=0, limit=9)
        batch = await ledger.apply_move(moves.transform(batch, plan, tasks, {}, complete=True, now=12.0))
        batch = await entered(ledger, batch, plan)
        assert batch.hold is Hold.BUDGET

    async def test_a_higher_rank_waits_for_the_lower_ones(self, ledger: LedgerAdapter) -> None:
        paths = ["d/f2.tif", "d/f0.tif", "e/f0.tif", "d/f5.tif"]
        batch = await entered(ledger, await filled(ledger, paths, RANKED), RANKED)
        lowest = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0)
        assert [claim.order.file.path for claim in lowest] == ["d/f0.tif", "e/f0.tif"]
        assert await ledger.list_workable(limit=9, now=10.0) == []
        await ledger.settle_reports(batch.no, [done(lowest[0]), erred(lowest[1], due_at=20.0)], now=11.0)
        assert await ledger.claim_tasks(batch.no, member=ME, limit=9, now=12.0) == []
        (again,) = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=20.0)
        assert again.order.attempt == 2
        await ledger.settle_reports(batch.no, [erred(again, due_at=None)], now=21.0)
        assert [one.batch.no for one in await ledger.list_workable(limit=9, now=21.0)] == [batch.no]
        (middle,) = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=21.0)
        assert middle.order.file.path == "d/f2.tif"
        await ledger.settle_reports(batch.no, [done(middle)], now=22.0)
        (highest,) = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=23.0)
        assert highest.order.file.path == "d/f5.tif"
        assert (await ledger.settle_reports(batch.no, [done(highest)], now=24.0)).phase_ended

    async def test_the_more_important_and_the_longer_waiting_come_first(self, ledger: LedgerAdapter) -> None:
        names = ("01A", "01C", "01D")
        batches = [await started(ledger, batch_id=name) for name in names]
        await ledger.set_priority(batches[2].no, 1, act())
        await ledger.claim_tasks(batches[0].no, member=ME, limit=1, now=30.0)
        found = await ledger.list_workable(limit=9, now=40.0)
        assert [one.batch.id for one in found] == ["01D", "01C", "01A"]
        assert [one.served_at for one in found] == [1.0, 1.0, 30.0]
        assert [one.batch.id for one in await ledger.list_workable(limit=1, now=40.0)] == ["01D"]
        only = await ledger.list_workable(limit=9, now=40.0, only=[batches[0].no])
        assert [one.batch.id for one in only] == ["01A"]

    async def test_pipelines_that_one_does_not_know_hide_nothing(self, ledger: LedgerAdapter) -> None:
        for number in range(3):
            await started(ledger, batch_id=f"01S{number}", pipeline="strange", tier=1)
            await started(ledger, batch_id=f"01N{number}", pipeline_version=2, tier=1)
        await started(ledger, batch_id="01P")
        known = [("plain", 1, ""), ("strange", 2, "")]
        assert [one.batch.id for one in await ledger.list_workable(limit=2, now=9.0, known=known)] == ["01P"]
        assert await ledger.list_workable(limit=2, now=9.0, known=[]) == []
        assert len(await ledger.list_workable(limit=99, now=9.0)) == 7

    async def test_whoever_waits_long_enough_is_not_hidden_by_the_urgent(self, ledger: LedgerAdapter) -> None:
        await started(ledger, batch_id="01A", tier=5)
        for number in range(3):
            await started(ledger, batch_id=f"01U{number}", tier=1, now=990.0)
        found = [one.batch.id for one in await ledger.list_workable(limit=3, now=1000.0)]
        assert found == ["01U0", "01U1", "01U2"]
        aged = await ledger.list_workable(limit=3, now=1000.0, ageing_seconds=100.0)
        assert [one.batch.id for one in aged] == ["01A", "01U0", "01U1"]

    @pytest.mark.parametrize("ageing_seconds", [0.0, 1e-9, 10.0, 25.0, 1e9])
    async def test_waiting_makes_urgent_as_the_shares_have_it(
        self, ledger: LedgerAdapter, ageing_seconds: float
    ) -> None:
        # The last: the clock was set back since it was served.
        for tier in (1, 3, 5):
            for since in (40.0, 61.0, 80.0, 99.0, 150.0):
                await started(ledger, 1, f"01{tier}{since}", tier=tier, now=since)
        found = await ledger.list_workable(limit=99, now=100.0, ageing_seconds=ageing_seconds)
        ranked = [
            (
                effective_tier(
                    sharing.ShareCandidate(one.batch.no, one.batch.tier, "", one.served_at, 1),
                    100.0,
                    ageing_seconds,
                ),
                one.served_at,
                one.batch.no,
            )
            for one in found
        ]
        assert len(ranked) == 15
        assert ranked == sorted(ranked)

    async def test_a_claim_is_for_the_phase_and_round_it_names(self, ledger: LedgerAdapter) -> None:
        batch = await started(ledger, plan=TWO)
        for phase_no, round_no in ((2, 1), (1, 2), (None, 2), (2, None)):
            claims = await ledger.claim_tasks(
                batch.no, member=ME, limit=9, now=10.0, phase=phase_no, round_no=round_no
            )
            assert claims == []
        (one,) = await ledger.claim_tasks(batch.no, member=ME, limit=1, now=10.0, phase=1, round_no=1)
        await ledger.settle_reports(batch.no, [done(one)], now=11.0)
        batch = await entered(ledger, await folded(ledger, await worked(ledger, batch), TWO), TWO)
        assert batch.position == Position(Stage.WORKING, 2, 0)
        assert await ledger.claim_tasks(batch.no, member=ME, limit=9, now=12.0, phase=1, round_no=1) == []
        assert len(await ledger.claim_tasks(batch.no, member=ME, limit=9, now=12.0, phase=2, round_no=1)) == 6

    async def test_only_batches_with_tasks_to_start_are_offered(self, ledger: LedgerAdapter) -> None:
        batch = await started(ledger, files=1)
        (claim,) = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0)
        assert await ledger.list_workable(limit=9, now=10.0) == []
        await ledger.settle_reports(batch.no, [erred(claim, due_at=20.0)], now=11.0)
        assert await ledger.list_workable(limit=9, now=19.0) == []
        assert [one.batch.no for one in await ledger.list_workable(limit=9, now=20.0)] == [batch.no]
        await ledger.pause(batch.no, act())
        assert await ledger.list_workable(limit=9, now=20.0) == []
        assert await ledger.next_alarm(now=20.0) is None

    async def test_dispatches_are_spaced_out(self, ledger: LedgerAdapter) -> None:
        batch = await filled(ledger, ["a", "b", "c"], ONE)
        files = await ledger.list_files(batch, after=0, limit=9)
        move = moves.discover(batch, ONE, files, complete=True, now=5.0)
        batch = await ledger.apply_move(structs.replace(move, dispatch_at=8.0))
        assert await ledger.claim_tasks(batch.no, member=ME, limit=1, now=7.0) == []
        assert await ledger.next_alarm(now=7.0) == 8.0
        assert len(await ledger.claim_tasks(batch.no, member=ME, limit=1, now=8.0, pace_seconds=5.0)) == 1
        assert await ledger.list_workable(limit=9, now=12.0) == []
        assert await ledger.claim_tasks(batch.no, member=ME, limit=1, now=12.0) == []
        assert await ledger.next_alarm(now=12.0) == 13.0
        assert len(await ledger.claim_tasks(batch.no, member=ME, limit=9, now=13.0)) == 2
