"""What every ledger keeps of tasks, whatever their phase: attempts, strays, costs, budgets, the cache, and
which batches are offered first. Effects of settling are in `ledger_flow_settle_suite`.
"""

import pytest
from msgspec import structs

from quire.engine import sharing
from quire.engine.sharing import effective_tier
from quire.ledger.flow_values import first_number
from quire.ledger.port import StrayKind
from quire.model.batch import Budget, Hold, Spending, Stage, TaskState
from quire.model.cost import Cost
from quire.model.errors import Missing
from quire.model.work import Outcome, StepResult
from tests.suites.flow_situations import admitted, begun, claimed, done, ends, failed, follows, kinds_of
from tests.suites.ledger_adapter import LedgerAdapter
from tests.suites.ledger_situations import ME, act

FIRST = first_number(1)


class AttemptSuite:
    async def test_a_task_can_be_looked_at(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 2)
        ready = await ledger.get_task(batch.no, FIRST + 2)
        assert (ready.state, ready.claim.order.attempt) == (TaskState.READY, 0)
        claim, _ = await claimed(ledger, batch)
        running = await ledger.get_task(batch.no, FIRST + 1)
        assert (running.claim.order, running.claim.started_at) == (claim.order, 10.0)
        assert (running.phase, running.round, running.state) == (1, 1, TaskState.RUNNING)
        await ledger.settle_flow(batch.no, [failed(claim, due_at=20.0)], now=11.0)
        found = await ledger.get_task(batch.no, FIRST + 1)
        assert (found.state, found.claim.failures) == (TaskState.WAITING, 1)
        for place in ((batch.no, FIRST + 3), (batch.no + 1, FIRST + 1)):
            with pytest.raises(Missing) as caught:
                await ledger.get_task(*place)
            assert caught.value.code == "unknown_task"

    async def test_a_task_that_waits_comes_again_when_due(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 1)
        (claim,) = await claimed(ledger, batch)
        await ledger.settle_flow(batch.no, [failed(claim, due_at=20.0)], now=11.0)
        assert await ledger.next_alarm(now=11.0) == 20.0
        assert await claimed(ledger, batch, now=19.9) == []
        (again,) = await claimed(ledger, batch, now=20.0)
        assert (again.order.attempt, again.failures, again.interruptions) == (2, 1, 0)
        assert await ledger.next_alarm(now=20.0) is None

    async def test_interruptions_are_counted_apart(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 1)
        (claim,) = await claimed(ledger, batch)
        await ledger.settle_flow(batch.no, [failed(claim, due_at=10.0, blame=False)], now=10.0)
        (again,) = await claimed(ledger, batch)
        assert (again.failures, again.interruptions) == (0, 1)

    async def test_an_alarm_rings_for_each_task_that_waits(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 3)
        due = (20.0, 20.0, 30.0)
        claims = await claimed(ledger, batch)
        told = [failed(claim, due_at=at) for claim, at in zip(claims, due, strict=True)]
        await ledger.settle_flow(batch.no, told, now=11.0)
        assert len(await claimed(ledger, batch, limit=1, now=21.0)) == 1
        assert await ledger.next_alarm(now=19.0) == 20.0
        assert await ledger.next_alarm(now=20.0) is None  # the other is due, and later ones wait behind it
        assert len(await claimed(ledger, batch, now=21.0)) == 1
        assert await ledger.next_alarm(now=21.0) == 30.0
        assert await ledger.next_alarm(now=21.0, only=[batch.no + 1]) is None

    async def test_a_retry_given_back_keeps_its_history(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 1)
        for expected in (1, 2, 3):
            (claim,) = await claimed(ledger, batch)
            assert claim.order.attempt == expected
            if expected == 1:
                await ledger.settle_flow(batch.no, [failed(claim, due_at=10.0)], now=10.0)
            else:
                await ledger.release_flow_claims(batch.no, [(claim.order.task_no, expected)])
        _, attempts = await ledger.get_file_history(batch.no, "d/f1.tif")
        assert [(one.attempt, one.outcome, one.error) for one in attempts] == [(1, "erred", "busy!")]

    async def test_running_attempts_are_found_by_their_member(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 3)
        claims = await ledger.claim_phase(batch.no, 1, member=7, limit=2, now=10.0)
        await ledger.claim_phase(batch.no, 1, member=8, limit=2, now=10.0)
        await ledger.settle_flow(batch.no, [done(claims[0])], now=11.0)
        (left,) = await ledger.list_running(7)
        assert (left.order, left.started_at) == (claims[1].order, 10.0)
        await ledger.cancel(batch.no, act())
        assert await ledger.list_running(7) == []

    async def test_batches_do_not_mix(self, ledger: LedgerAdapter) -> None:
        first = await admitted(ledger, 2, batch_id="01A")
        second = await admitted(ledger, 1, batch_id="01C")
        await claimed(ledger, first, limit=1)
        (claim,) = await claimed(ledger, second)
        assert (await ledger.settle_flow(second.no, [done(claim)], now=11.0)).phase_ended
        assert (await ledger.get_batch(first.id)).position.stage is Stage.FLOWING

    async def test_a_failure_and_its_late_success_may_come_together(self, ledger: LedgerAdapter) -> None:
        """As after an outage of the ledger."""
        batch = await admitted(ledger, 2)
        one, _ = await claimed(ledger, batch)
        slow = failed(one, outcome=Outcome.TIMED_OUT)
        settled = await ledger.settle_flow(batch.no, [slow, done(one)], now=11.0)
        assert (settled.applied, settled.strays) == (2, 0)
        counts, *_ = await ledger.count_tasks(batch.no)
        assert (counts.done, counts.failed, await ledger.count_failures(batch.no)) == (1, 0, {})

    async def test_strays_are_kept_with_their_kind(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 2)
        one, two = await claimed(ledger, batch)
        await ledger.settle_flow(batch.no, [done(one), failed(two, due_at=10.0)], now=11.0)
        await claimed(ledger, batch, now=11.0)
        forged = structs.replace(one.order, task_no=FIRST + 99), structs.replace(one.order, attempt=5)
        strays = [structs.replace(one, order=order) for order in forged]
        await ledger.settle_flow(batch.no, [done(claim) for claim in (one, two, *strays)], now=12.0)
        kept = await ledger.list_stray_reports(batch.no, limit=9)
        assert [(stray.task_no - FIRST, stray.attempt, stray.kind) for stray in kept] == [
            (1, 1, StrayKind.DUPLICATE),
            (2, 1, StrayKind.LATE),
            (99, 1, StrayKind.UNKNOWN),
            (1, 5, StrayKind.UNKNOWN),
        ]
        assert (kept[0].received_at, kept[0].outcome, kept[0].worker) == (12.0, "done", "w")
        assert len(await ledger.list_stray_reports(batch.no, limit=2)) == 2

    async def test_the_cache_remembers_and_forgets(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 2)
        one, two = await claimed(ledger, batch)
        result = StepResult(facts={"n": 1})
        told = [done(one, result=result, cache_key="k1"), done(two, cache_key="k2")]
        await ledger.settle_flow(batch.no, told, now=11.0)
        assert await ledger.load_cached(["k1", "k2", "k3"]) == {"k1": result, "k2": StepResult()}
        await ledger.evict_cached(["k1"])
        assert await ledger.load_cached(["k1"]) == {}


class CostSuite:
    async def test_costs_of_all_attempts_add_up(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 2)
        one, two = await claimed(ledger, batch)
        told = [done(one, cost=Cost(1, 2, 3, 4, 5)), failed(two, due_at=10.0, cost=Cost(10, 20, 30, 40, 50))]
        await ledger.settle_flow(batch.no, told, now=11.0)
        (again,) = await claimed(ledger, batch, now=11.0)
        from_cache = done(again, ends(again, tries=1), cached=True)
        await ledger.settle_flow(batch.no, [from_cache], now=12.0)
        counts, *_ = await ledger.count_tasks(batch.no)
        assert counts.cached == 1
        spent = structs.replace(counts.spent, seconds=round(counts.spent.seconds, 6))
        assert spent == Spending(
            seconds=0.3, bytes_in=11, bytes_out=22, tokens_in=33, tokens_out=44, money_micros=55
        )

    async def test_who_has_spent_its_budget_is_held(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 4, budget=Budget(money_micros=100))
        one, two = await claimed(ledger, batch, limit=2)
        await ledger.settle_flow(batch.no, [done(one, cost=Cost(money_micros=99))], now=11.0)
        assert (await ledger.get_batch(batch.id)).hold is None
        await ledger.settle_flow(batch.no, [done(two, cost=Cost(money_micros=1))], now=12.0)
        held = await ledger.get_batch(batch.id)
        assert (held.hold, bool(held.hold_reason)) == (Hold.BUDGET, True)
        assert await claimed(ledger, batch, now=13.0) == []
        assert await ledger.list_flowing(limit=9, now=13.0) == []
        assert (await kinds_of(ledger, batch)).count("batch_held") == 1
        resumed = await ledger.resume(batch.no, act(), budget=Budget(money_micros=200))
        assert (resumed.hold, resumed.budget) == (None, Budget(money_micros=200))
        assert len(await claimed(ledger, batch, now=14.0)) == 2


class OfferSuite:
    async def test_the_more_important_and_the_longer_waiting_come_first(self, ledger: LedgerAdapter) -> None:
        batches = [await admitted(ledger, batch_id=name) for name in ("01A", "01C", "01D")]
        await ledger.set_priority(batches[2].no, 1, act())
        await claimed(ledger, batches[0], limit=1, now=30.0)
        found = await ledger.list_flowing(limit=9, now=40.0)
        assert [one.batch.id for one in found] == ["01D", "01C", "01A"]
        assert [one.served_at for one in found] == [1.0, 1.0, 30.0]
        assert [one.batch.id for one in await ledger.list_flowing(limit=1, now=40.0)] == ["01D"]
        only = await ledger.list_flowing(limit=9, now=40.0, only=[batches[0].no])
        assert [one.batch.id for one in only] == ["01A"]

    async def test_pipelines_that_one_does_not_know_hide_nothing(self, ledger: LedgerAdapter) -> None:
        for number in range(3):
            await admitted(ledger, batch_id=f"01S{number}", pipeline="strange", tier=1)
            await admitted(ledger, batch_id=f"01N{number}", pipeline_version=2, tier=1)
        await admitted(ledger, batch_id="01P")
        known = [("plain", 1, ""), ("strange", 2, "")]
        assert [one.batch.id for one in await ledger.list_flowing(limit=2, now=9.0, known=known)] == ["01P"]
        assert await ledger.list_flowing(limit=2, now=9.0, known=[]) == []
        assert len(await ledger.list_flowing(limit=99, now=9.0)) == 7

    async def test_a_batch_that_waits_long_enough_is_not_hidden_by_the_urgent(
        self, ledger: LedgerAdapter
    ) -> None:
        await admitted(ledger, batch_id="01A", tier=5)
        for number in range(3):
            await admitted(ledger, batch_id=f"01U{number}", tier=1, now=990.0)
        found = [one.batch.id for one in await ledger.list_flowing(limit=3, now=1000.0)]
        assert found == ["01U0", "01U1", "01U2"]
        aged = await ledger.list_flowing(limit=3, now=1000.0, ageing_seconds=100.0)
        assert [one.batch.id for one in aged] == ["01A", "01U0", "01U1"]

    @pytest.mark.parametrize("ageing_seconds", [0.0, 1e-9, 10.0, 25.0, 1e9])
    async def test_priority_rises_with_waiting_time_as_the_shares_have_it(
        self, ledger: LedgerAdapter, ageing_seconds: float
    ) -> None:
        # The last: the clock was set back since it was served.
        for tier in (1, 3, 5):
            for since in (40.0, 61.0, 80.0, 99.0, 150.0):
                await admitted(ledger, 1, batch_id=f"01{tier}{since}", tier=tier, now=since)
        found = await ledger.list_flowing(limit=99, now=100.0, ageing_seconds=ageing_seconds)
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

    async def test_only_batches_with_tasks_to_start_are_offered(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 1)
        (claim,) = await claimed(ledger, batch)
        assert await ledger.list_flowing(limit=9, now=10.0) == []
        await ledger.settle_flow(batch.no, [failed(claim, due_at=20.0)], now=11.0)
        assert await ledger.list_flowing(limit=9, now=19.0) == []
        assert [one.batch.no for one in await ledger.list_flowing(limit=9, now=20.0)] == [batch.no]
        await ledger.pause(batch.no, act())
        assert await ledger.list_flowing(limit=9, now=20.0) == []
        assert await ledger.next_alarm(now=20.0) is None

    async def test_the_first_tasks_of_a_phase_may_have_to_wait(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 3, delays=(8.0, 0.0, 0.0))
        assert await claimed(ledger, batch, limit=1, now=11.0) == []
        assert await ledger.list_flowing(limit=9, now=11.0) == []
        assert await ledger.next_alarm(now=11.0) == 12.0
        (claim,) = await ledger.claim_phase(batch.no, 1, member=ME, limit=1, now=12.0, pace_seconds=5.0)
        assert await claimed(ledger, batch, limit=1, now=16.0) == []
        assert await ledger.next_alarm(now=16.0) == 17.0
        await ledger.settle_flow(batch.no, [done(claim, follows(claim))], now=16.0)
        assert len(await claimed(ledger, batch, 2, now=16.0)) == 1
        assert len(await claimed(ledger, batch, now=17.0)) == 2

    async def test_a_batch_whose_intake_is_open_is_offered_when_it_has_tasks(
        self, ledger: LedgerAdapter
    ) -> None:
        await begun(ledger, 2)
        assert await ledger.list_flowing(limit=9, now=9.0) == []


class TaskSuite(AttemptSuite, CostSuite, OfferSuite):
    """All of it."""
