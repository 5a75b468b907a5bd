"""What every ledger keeps when a person intervenes: each act in its state, with who and why."""

from typing import Any

import pytest

from quire.engine import moves
from quire.ledger.port import NO_BATCH, SettleResult, TaskSelection
from quire.model.batch import Batch, Budget, Hold, Stage
from quire.model.errors import Stale
from quire.model.work import Outcome
from quire.testing.factories import draft
from quire.testing.factories import former_phase as phase
from quire.testing.factories import former_pipeline as pipeline
from tests.suites.ledger_adapter import LedgerAdapter
from tests.suites.ledger_situations import (
    DIRECTORIES,
    ME,
    TWO,
    act,
    done,
    entered,
    erred,
    filled,
    finalized,
    folded,
    started,
    walked,
    worked,
)

RANKED = pipeline(phase("ONE", rank=lambda one: int(one.name[1])))


async def last_event(ledger: LedgerAdapter, batch: Batch) -> tuple[str, dict[str, object]]:
    _, _, kind, data = (await ledger.list_events(batch.no, limit=99))[-1]
    return kind, data


class ControlSuite:
    async def test_an_act_that_concerns_no_batch_is_kept_with_who_and_why(
        self, ledger: LedgerAdapter
    ) -> None:
        await ledger.record_action(act(), "dead_letters_replayed", {"queue": "a", "messages": 3})
        [(_, _, kind, data)] = await ledger.list_events(NO_BATCH, limit=9)
        assert kind == "dead_letters_replayed"
        assert data == {"actor": "ann", "reason": "because", "queue": "a", "messages": 3}

    async def test_a_batch_that_has_spent_its_budget_is_held_when_it_is_taken_up_again(
        self, ledger: LedgerAdapter
    ) -> None:
        batch = await started(ledger, budget=Budget(seconds=0.05))
        one, *_ = await ledger.claim_tasks(batch.no, member=ME, limit=1, now=10.0)
        assert (await ledger.settle_reports(batch.no, [done(one)], now=11.0)).applied == 1
        assert (await ledger.cancel(batch.no, act())).hold is None
        assert (await ledger.reopen(batch.no, act(), status="ONE")).hold is Hold.BUDGET

    async def test_a_paused_batch_starts_nothing_and_finishes_what_runs(self, ledger: LedgerAdapter) -> None:
        batch = await started(ledger)
        claims = await ledger.claim_tasks(batch.no, member=ME, limit=2, now=10.0)
        paused = await ledger.pause(batch.no, act())
        assert (paused.hold, paused.hold_reason) == (Hold.PAUSED, "because")
        assert await last_event(ledger, batch) == ("batch_paused", {"actor": "ann", "reason": "because"})
        assert await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0) == []
        assert (
            await ledger.settle_reports(batch.no, [done(claim) for claim in claims], now=11.0)
        ).applied == 2
        with pytest.raises(Stale):
            await ledger.pause(batch.no, act())
        resumed = await ledger.resume(batch.no, act())
        assert (resumed.hold, resumed.hold_reason) == (None, None)
        assert await last_event(ledger, batch) == ("batch_resumed", {"actor": "ann", "reason": "because"})
        with pytest.raises(Stale):
            await ledger.resume(batch.no, act())
        assert len(await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0)) == 1

    async def test_a_cancelled_batch_keeps_what_it_has(self, ledger: LedgerAdapter) -> None:
        batch = await started(ledger)
        one, _ = await ledger.claim_tasks(batch.no, member=ME, limit=2, now=10.0)
        await ledger.settle_reports(batch.no, [done(one)], now=11.0)
        cancelled = await ledger.cancel(batch.no, act(20.0))
        assert (cancelled.status, cancelled.error, cancelled.completed_at) == ("CANCELLED", "because", 20.0)
        assert await last_event(ledger, batch) == ("batch_cancelled", {"actor": "ann", "reason": "because"})
        assert await ledger.claim_tasks(batch.no, member=ME, limit=9, now=21.0) == []
        (counts,) = await ledger.count_tasks(batch.no)
        assert counts.done == 1
        assert (await ledger.preview_retry(batch.no, TaskSelection())).unsettled == 2

    async def test_a_reset_batch_has_ended_in_error(self, ledger: LedgerAdapter) -> None:
        batch = await ledger.reset((await started(ledger)).no, act(20.0))
        assert (batch.position.stage, batch.status, bool(batch.error)) == (Stage.ERROR, "ERROR", True)
        assert await last_event(ledger, batch) == ("batch_reset", {"actor": "ann", "reason": "because"})

    async def test_a_batch_gets_another_priority(self, ledger: LedgerAdapter) -> None:
        batch = await ledger.set_priority((await started(ledger)).no, 1, act())
        assert batch.tier == 1
        told = ("batch_prioritised", {"actor": "ann", "reason": "because", "tier": 1})
        assert await last_event(ledger, batch) == told

    async def test_nothing_can_be_done_to_what_has_ended(self, ledger: LedgerAdapter) -> None:
        batch = await walked(ledger, await started(ledger, plan=TWO), TWO)
        before = await ledger.list_events(batch.no, limit=99)
        acts: list[Any] = [ledger.pause, ledger.resume, ledger.cancel, ledger.reset]
        for one in acts:
            with pytest.raises(Stale):
                await one(batch.no, act())
        with pytest.raises(Stale):
            await ledger.set_priority(batch.no, 1, act())
        with pytest.raises(Stale):
            await ledger.reopen(batch.no, act(), status="X")
        assert await ledger.get_batch(batch.id) == batch
        assert await ledger.list_events(batch.no, limit=99) == before

    async def test_what_runs_cannot_be_reopened(self, ledger: LedgerAdapter) -> None:
        batch = await started(ledger)
        with pytest.raises(Stale):
            await ledger.reopen(batch.no, act(), status="X")

    @pytest.mark.parametrize("end", ["cancel", "fail"])
    async def test_a_reopened_batch_runs_what_failed_and_what_was_out(
        self, ledger: LedgerAdapter, end: str
    ) -> None:
        batch = await started(ledger, files=5)
        good, bad, out, _, late = await ledger.claim_tasks(batch.no, member=ME, limit=5, now=10.0)
        slow = erred(late, due_at=None, outcome=Outcome.TIMED_OUT)
        await ledger.settle_reports(batch.no, [done(good), erred(bad, due_at=None), slow], now=11.0)
        if end == "cancel":
            await ledger.cancel(batch.no, act())
        else:
            await ledger.apply_move(moves.fail(batch, "no", now=12.0))
        batch = await ledger.reopen(batch.no, act(60.0), status="ONE")
        assert (batch.position.stage, batch.status, batch.error) == (Stage.WORKING, "ONE", None)
        assert (batch.completed_at, batch.updated_at) == (None, 60.0)
        assert await last_event(ledger, batch) == ("batch_reopened", {"actor": "ann", "reason": "because"})
        (counts,) = await ledger.count_tasks(batch.no)
        assert (counts.total, counts.done, counts.failed) == (5, 1, 0)
        assert await ledger.count_failures(batch.no) == {}
        # Whoever had it out then has lost it.
        assert await ledger.list_running(ME) == []
        assert await ledger.settle_reports(batch.no, [done(out)], now=61.0) == SettleResult(0, 1, False)
        claims = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=62.0)
        assert [(one.order.task_no, one.order.attempt, one.failures) for one in claims] == [
            (number, 2, 0) for number in (2, 3, 4, 5)
        ]
        assert await ledger.settle_reports(batch.no, [done(out)], now=62.0) == SettleResult(0, 1, False)
        assert (await ledger.settle_reports(batch.no, [done(one) for one in claims], now=63.0)).phase_ended
        _, attempts = await ledger.get_file_history(batch.no, "d/f2.tif")
        assert [(one.attempt, one.outcome) for one in attempts] == [(1, "interrupted"), (2, "done")]

    async def test_a_batch_whose_last_report_came_after_its_end_goes_on(self, ledger: LedgerAdapter) -> None:
        batch = await started(ledger, files=1)
        (claim,) = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0)
        await ledger.cancel(batch.no, act())
        await ledger.settle_reports(batch.no, [done(claim)], now=51.0)
        batch = await ledger.reopen(batch.no, act(), status="ONE")
        if batch.position.stage is Stage.WORKING:  # the report was not taken: the task is there
            batch = await worked(ledger, batch)
        assert batch.position.stage is Stage.TRANSFORMING

    async def test_ranks_hold_after_reopening(self, ledger: LedgerAdapter) -> None:
        paths = ["d/f0.tif", "e/f0.tif", "d/f1.tif", "d/f2.tif"]
        batch = await entered(ledger, await filled(ledger, paths, RANKED), RANKED)
        one, two = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0)
        await ledger.settle_reports(batch.no, [done(one), erred(two, due_at=None)], now=11.0)
        (three,) = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=12.0)
        await ledger.cancel(batch.no, act())
        batch = await ledger.reopen(batch.no, act(), status="ONE")
        seen = []
        while claims := await ledger.claim_tasks(batch.no, member=ME, limit=9, now=60.0):
            seen.append([claim.order.file.path for claim in claims])
            assert await ledger.next_alarm(now=60.0) is None  # nothing rings that may not start
            await ledger.settle_reports(batch.no, [done(claim) for claim in claims], now=61.0)
        assert seen == [["e/f0.tif"], [three.order.file.path], ["d/f2.tif"]]
        assert (await ledger.get_batch(batch.id)).position.stage is Stage.TRANSFORMING

    async def test_a_batch_goes_on_from_wherever_it_stood(self, ledger: LedgerAdapter) -> None:
        """In every stage that moves it, ended and reopened, and the end is the same."""
        batch = await filled(ledger, ["d/f0.tif", "e/f1.tif"], DIRECTORIES)
        stages = []
        while not batch.ended:
            stages.append(batch.position.stage)
            if len(stages) % 2:
                await ledger.cancel(batch.no, act())
            else:
                await ledger.apply_move(moves.fail(batch, "no", now=40.0))
            reopened = await ledger.reopen(batch.no, act(), status=batch.status)
            assert (reopened.position, reopened.status) == (batch.position, batch.status)
            batch = await _one_move(ledger, reopened)
        assert stages == [
            *(Stage.DISCOVERING, Stage.WORKING, Stage.TRANSFORMING),
            *(Stage.GATHERING, Stage.DISCOVERING, Stage.WORKING, Stage.TRANSFORMING),
        ]
        one, dirs = await ledger.count_tasks(batch.no)
        assert (one.done, dirs.done, batch.status) == (2, 2, "DONE")

    async def test_a_batch_that_was_open_is_open_again(self, ledger: LedgerAdapter) -> None:
        batch = await ledger.open_batch(draft())
        await ledger.cancel(batch.no, act())
        batch = await ledger.reopen(batch.no, act(), status="STARTED")
        assert (batch.position.stage, batch.status) == (Stage.OPEN, "OPEN")

    async def test_a_batch_whose_letter_is_gone_starts_without_it(self, ledger: LedgerAdapter) -> None:
        batch = await finalized(ledger, ["a"])
        await ledger.cancel(batch.no, act())
        batch = await ledger.reopen(batch.no, act(60.0), status="STARTED")
        assert (batch.position.stage, batch.started_at) == (Stage.FILLING, 60.0)
        assert [one.no for one in await ledger.take_batches(ME, limit=9, now=60.0)] == [batch.no]


async def _one_move(ledger: LedgerAdapter, batch: Batch) -> Batch:
    match batch.position.stage:
        case Stage.WORKING:
            return await worked(ledger, batch)
        case Stage.TRANSFORMING:
            return await folded(ledger, batch, DIRECTORIES)
        case Stage.GATHERING:
            files = await ledger.list_unit_candidates(batch, whole=False, after=0, limit=99)
            return await ledger.apply_move(
                moves.gather(batch, DIRECTORIES, files, {}, complete=True, now=5.0)
            )
        case _:
            return await entered(ledger, batch, DIRECTORIES)
