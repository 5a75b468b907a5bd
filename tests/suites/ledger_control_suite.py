"""What every ledger keeps when a person intervenes: each act in its state, with who and why."""

from typing import Any

import pytest

from quire.engine import moves
from quire.ledger.port import NO_BATCH, TaskSelection
from quire.model.batch import Batch, Budget, Hold, Stage
from quire.model.errors import Stale
from quire.testing.factories import draft
from tests.suites.flow_situations import (
    admit_all,
    admitted,
    claimed,
    done,
    ends,
    failed,
    finished,
    walked,
    worked,
)
from tests.suites.ledger_adapter import LedgerAdapter
from tests.suites.ledger_flow_units_suite import gathered, given_tasks
from tests.suites.ledger_situations import ME, act, finalized

FOLDERS = ("ONE", "DIRS")


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
        batch = await admitted(ledger, budget=Budget(seconds=0.05))
        (one,) = await claimed(ledger, batch, limit=1)
        assert (await ledger.settle_flow(batch.no, [done(one)], now=11.0)).applied == 1
        assert (await ledger.cancel(batch.no, act())).hold is None
        assert (await ledger.reopen(batch.no, act(), status="ONE")).hold is Hold.BUDGET

    async def test_a_paused_batch_starts_nothing_and_finishes_what_runs(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger)
        claims = await claimed(ledger, batch, limit=2)
        paused = await ledger.pause(batch.no, act())
        assert (paused.hold, paused.hold_reason) == (Hold.PAUSED, "because")
        assert await last_event(ledger, batch) == ("batch_paused", {"actor": "ann", "reason": "because"})
        assert await claimed(ledger, batch) == []
        settled = await ledger.settle_flow(batch.no, [done(claim) for claim in claims], now=11.0)
        assert settled.applied == 2
        with pytest.raises(Stale):
            await ledger.pause(batch.no, act())
        resumed = await ledger.resume(batch.no, act())
        assert (resumed.hold, resumed.hold_reason) == (None, None)
        assert await last_event(ledger, batch) == ("batch_resumed", {"actor": "ann", "reason": "because"})
        with pytest.raises(Stale):
            await ledger.resume(batch.no, act())
        assert len(await claimed(ledger, batch)) == 1

    async def test_a_cancelled_batch_keeps_what_it_has(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger)
        one, _ = await claimed(ledger, batch, limit=2)
        await ledger.settle_flow(batch.no, [done(one)], now=11.0)
        cancelled = await ledger.cancel(batch.no, act(20.0))
        assert (cancelled.status, cancelled.error, cancelled.completed_at) == ("CANCELLED", "because", 20.0)
        assert await last_event(ledger, batch) == ("batch_cancelled", {"actor": "ann", "reason": "because"})
        assert await claimed(ledger, batch, now=21.0) == []
        counts, *_ = await ledger.count_tasks(batch.no)
        assert counts.done == 1
        assert (await ledger.preview_retry(batch.no, TaskSelection())).unsettled == 2

    async def test_a_reset_batch_has_ended_in_error(self, ledger: LedgerAdapter) -> None:
        batch = await ledger.reset((await admitted(ledger)).no, act(20.0))
        assert (batch.position.stage, batch.status, bool(batch.error)) == (Stage.ERROR, "ERROR", True)
        assert await last_event(ledger, batch) == ("batch_reset", {"actor": "ann", "reason": "because"})

    async def test_a_batch_gets_another_priority(self, ledger: LedgerAdapter) -> None:
        batch = await ledger.set_priority((await admitted(ledger)).no, 1, act())
        assert batch.tier == 1
        told = ("batch_prioritised", {"actor": "ann", "reason": "because", "tier": 1})
        assert await last_event(ledger, batch) == told

    async def test_nothing_can_be_done_to_what_has_ended(self, ledger: LedgerAdapter) -> None:
        batch = await walked(ledger, await admitted(ledger))
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

    async def test_a_batch_that_was_cancelled_before_it_began_is_told_to_have_begun(
        self, ledger: LedgerAdapter
    ) -> None:
        batch = await finalized(ledger, ["d/f1.tif"])
        await ledger.cancel(batch.no, act(50.0))
        batch = await ledger.reopen(batch.no, act(60.0), status="ONE")
        assert (batch.position.stage, batch.started_at) == (Stage.FILLING, 60.0)
        kinds = [kind for _, _, kind, _ in await ledger.list_events(batch.no, limit=99)]
        assert kinds[-2:] == ["batch_reopened", "batch_started"]
        await ledger.cancel(batch.no, act(70.0))
        await ledger.reopen(batch.no, act(80.0), status="ONE")
        kinds = [kind for _, _, kind, _ in await ledger.list_events(batch.no, limit=99)]
        assert kinds.count("batch_started") == 1

    async def test_what_runs_cannot_be_reopened(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger)
        with pytest.raises(Stale):
            await ledger.reopen(batch.no, act(), status="X")

    @pytest.mark.parametrize("end", ["cancel", "fail"])
    async def test_a_reopened_batch_runs_what_was_out_and_keeps_what_has_settled(
        self, ledger: LedgerAdapter, end: str
    ) -> None:
        batch = await admitted(ledger, 4)
        good, bad, out, _ = await claimed(ledger, batch)
        await ledger.settle_flow(batch.no, [done(good), failed(bad)], now=11.0)
        if end == "cancel":
            await ledger.cancel(batch.no, act())
        else:
            await ledger.apply_move(moves.fail(batch, "no", now=12.0))
        batch = await ledger.reopen(batch.no, act(60.0), status="ONE")
        assert (batch.position.stage, batch.status, batch.error) == (Stage.FLOWING, "ONE", None)
        assert (batch.completed_at, batch.updated_at) == (None, 60.0)
        assert await last_event(ledger, batch) == ("batch_reopened", {"actor": "ann", "reason": "because"})
        counts, *_ = await ledger.count_tasks(batch.no)
        assert (counts.total, counts.done, counts.failed) == (4, 1, 1)
        # Whoever had it out then has lost it.
        assert await ledger.list_running(ME) == []
        assert (await ledger.settle_flow(batch.no, [done(out)], now=61.0)).strays == 1
        claims = await claimed(ledger, batch, now=62.0)
        assert [(one.order.file.path, one.order.attempt, one.failures) for one in claims] == [
            ("d/f3.tif", 2, 0),
            ("d/f4.tif", 2, 0),
        ]
        assert (await ledger.settle_flow(batch.no, [done(out)], now=62.0)).strays == 1
        assert (await ledger.settle_flow(batch.no, [done(one) for one in claims], now=63.0)).phase_ended
        _, attempts = await ledger.get_file_history(batch.no, "d/f3.tif")
        assert [(one.attempt, one.outcome) for one in attempts] == [(1, "interrupted"), (2, "done")]

    async def test_a_batch_whose_last_report_came_after_its_end_goes_on(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 1)
        (claim,) = await claimed(ledger, batch)
        await ledger.cancel(batch.no, act())
        assert (await ledger.settle_flow(batch.no, [done(claim)], now=51.0)).strays == 1
        batch = await ledger.reopen(batch.no, act(), status="ONE")
        assert (await walked(ledger, batch, now=60.0)).status == "DONE"

    async def test_folders_wait_for_those_below_after_reopening(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, paths=["a/b/1.tif", "a/2.tif"], phases=FOLDERS, waits_at=2)
        batch = await worked(ledger, batch, phases=("ONE",))
        batch = await given_tasks(ledger, await gathered(ledger, batch, ["", "a", "a/b"]))
        (below,) = await claimed(ledger, batch, 2, now=20.0)
        await ledger.cancel(batch.no, act())
        batch = await ledger.reopen(batch.no, act(), status="DIRS")
        seen = []
        while claims := await claimed(ledger, batch, 2, now=60.0):
            seen.append([claim.order.file.path for claim in claims])
            told = [done(claim, ends(claim, of_unit=True)) for claim in claims]
            await ledger.settle_flow(batch.no, told, now=61.0)
        assert seen == [[below.order.file.path], ["a"], [""]]
        assert (await ledger.get_batch(batch.id)).position.stage is Stage.ENDING

    async def test_a_batch_goes_on_from_wherever_it_stood(self, ledger: LedgerAdapter) -> None:
        """Ended and reopened before every move, and the end is the same."""
        paths = ["d/f1.tif", "e/f2.tif"]
        batch = await ledger.apply_move(moves.begin(await finalized(ledger, paths), now=3.0))
        stood = []
        ends_by_error = False
        while not batch.ended:
            stood.append((batch.position.stage, batch.flow and (batch.flow.sources, batch.flow.gathers)))
            if ends_by_error := not ends_by_error:
                await ledger.apply_move(moves.fail(batch, "no", now=40.0))
            else:
                await ledger.cancel(batch.no, act())
            reopened = await ledger.reopen(batch.no, act(), status=batch.status)
            assert (reopened.position, reopened.status) == (batch.position, batch.status)
            assert reopened.flow == batch.flow
            batch = await _one_move(ledger, reopened, paths)
        assert stood == [
            (Stage.FILLING, None),
            (Stage.FLOWING, (1, 0)),  # its files are read
            (Stage.FLOWING, (0, 0)),  # documents are worked on
            (Stage.FLOWING, (0, 0)),  # the folders are to be found
            (Stage.FLOWING, (1, 2)),  # they are to get their tasks
            (Stage.FLOWING, (0, 0)),  # folders are worked on
            (Stage.ENDING, (0, 0)),
        ]
        one, dirs = await ledger.count_tasks(batch.no)
        assert (one.done, dirs.done, batch.status) == (2, 3, "DONE")

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


async def _one_move(ledger: LedgerAdapter, batch: Batch, paths: list[str]) -> Batch:
    flow = batch.flow
    if batch.position.stage is Stage.FILLING:
        return await ledger.begin_flow(batch, phases=FOLDERS, waits_at=2, now=4.0)
    if batch.position.stage is Stage.ENDING or flow is None:
        return await finished(ledger, batch)
    if flow.gathers:
        return await given_tasks(ledger, batch)
    if flow.sources:
        return await admit_all(ledger, batch, paths)
    if flow.open_tasks:
        return await _settle_all(ledger, batch)
    return await gathered(ledger, batch, ["", "d", "e"])


async def _settle_all(ledger: LedgerAdapter, batch: Batch) -> Batch:
    for phase, of_unit in ((1, False), (2, True)):
        while claims := await claimed(ledger, batch, phase, now=60.0):
            told = [done(claim, ends(claim, of_unit=of_unit)) for claim in claims]
            await ledger.settle_flow(batch.no, told, now=61.0)
    return await ledger.get_batch(batch.id)
