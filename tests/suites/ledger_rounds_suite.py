"""What every ledger keeps of rounds: failed tasks run again, and nothing else does. What is withdrawn for
them, and what becomes of steps side by side and of folders, is in `ledger_flow_control_suite`.
"""

from typing import Any

import pytest

from quire.ledger.port import StrayKind, TaskSelection
from quire.model.batch import Batch, Budget, FileOutcome, Hold, Position, Stage, TaskState
from quire.model.errors import Stale
from tests.suites import flow_situations
from tests.suites.flow_situations import admitted, claimed, done, failed, finished, walked, worked
from tests.suites.ledger_adapter import LedgerAdapter
from tests.suites.ledger_situations import act

PATHS = ["d/f1.tif", "d/f2.tif", "d/f3.tif"]
FAILING = {("ONE", "d/f1.tif"): "busy", ("TWO", "d/f3.tif.one"): "odd", ("TWO", "d/f2.tif"): "busy"}
# Of each file ONE makes another one, which walks on; TWO makes an asset of all of them.
TWO: dict[str, Any] = {"phases": ("ONE", "TWO"), "makes": {"ONE": (".one", True), "TWO": (".two", False)}}


async def ended(ledger: LedgerAdapter) -> Batch:
    """Three inputs: the first failed in ONE, the second in TWO, what was made of the third in TWO."""
    return await walked(ledger, await admitted(ledger, paths=PATHS, phases=TWO["phases"]), FAILING, **TWO)


async def retried(ledger: LedgerAdapter, batch: Batch, **selected: str) -> Batch:
    return await flow_situations.retried(ledger, batch, TaskSelection(**selected), names=TWO["phases"])


async def outcomes_of(ledger: LedgerAdapter, batch: Batch) -> list[FileOutcome]:
    return [end.outcome for end in await ledger.list_inputs(batch.no, limit=9)]


class RoundsSuite:
    async def test_what_a_selection_hits_is_told_beforehand(self, ledger: LedgerAdapter) -> None:
        batch = await ended(ledger)
        chosen = await ledger.preview_retry(batch.no, TaskSelection())
        assert chosen.failed == [(1, "busy", 1), (2, "busy", 1), (2, "odd", 1)]
        assert (chosen.tasks, chosen.unsettled) == (3, 0)
        for selection in (TaskSelection(error_class="odd"), TaskSelection(path="d/f3.tif")):
            assert (await ledger.preview_retry(batch.no, selection)).failed == [(2, "odd", 1)]
        neither = TaskSelection(path="d/f2.tif", error_class="odd")
        assert (await ledger.preview_retry(batch.no, neither)).tasks == 0

    async def test_of_a_batch_stopped_half_way_only_what_goes_on_is_told(self, ledger: LedgerAdapter) -> None:
        batch = await retried(ledger, await ended(ledger), error_class="odd")
        assert batch.position.round == 2
        await ledger.cancel(batch.no, act())
        chosen = await ledger.preview_retry(batch.no, TaskSelection())
        assert (chosen.failed, chosen.unsettled) == ([], 1)

    async def test_all_that_failed_runs_again_and_nothing_else(self, ledger: LedgerAdapter) -> None:
        batch = await ended(ledger)
        assert await ledger.count_failures(batch.no) == {"busy": 2, "odd": 1}
        batch = await retried(ledger, batch)
        assert batch.position == Position(Stage.FLOWING, 1, 0, 2)
        assert (batch.completed_at, batch.ended) == (None, False)
        assert await ledger.count_failures(batch.no) == {}
        seen: list[tuple[str, str]] = []
        batch = await walked(ledger, batch, seen=seen, now=60.0, **TWO)
        assert seen[0] == ("ONE", "d/f1.tif")
        assert sorted(seen[1:]) == [
            ("TWO", path) for path in ("d/f1.tif", "d/f1.tif.one", "d/f2.tif", "d/f3.tif.one")
        ]
        assert batch.position == Position(Stage.DONE, 2, 0, 2)
        one, two = await ledger.count_tasks(batch.no)
        assert (one.total, one.done, one.failed) == (3, 3, 0)
        assert (two.total, two.done, two.failed) == (6, 6, 0)
        ends = await ledger.list_inputs(batch.no, limit=9)
        assert [(end.outcome, end.error_class) for end in ends] == [(FileOutcome.DONE, "")] * 3
        for end in ends:
            made = sorted(made.path for _, made in end.made)
            assert made == [end.path + ".one", end.path + ".one.two", end.path + ".two"]

    async def test_only_an_error_class_may_be_meant(self, ledger: LedgerAdapter) -> None:
        batch = await retried(ledger, await ended(ledger), error_class="odd")
        assert await ledger.count_failures(batch.no) == {"busy": 2}
        seen: list[tuple[str, str]] = []
        batch = await walked(ledger, batch, seen=seen, now=60.0, **TWO)
        assert seen == [("TWO", "d/f3.tif.one")]
        assert await outcomes_of(ledger, batch) == [FileOutcome.FAILED, FileOutcome.FAILED, FileOutcome.DONE]
        assert [task.path for task in await ledger.list_failed_tasks(batch.no, limit=9)] == PATHS[:2]

    async def test_only_a_path_may_be_meant(self, ledger: LedgerAdapter) -> None:
        batch = await retried(ledger, await ended(ledger), path="d/f1.tif")
        seen: list[tuple[str, str]] = []
        batch = await walked(ledger, batch, seen=seen, now=60.0, **TWO)
        assert seen == [("ONE", "d/f1.tif"), ("TWO", "d/f1.tif"), ("TWO", "d/f1.tif.one")]
        assert await ledger.count_failures(batch.no) == {"busy": 1, "odd": 1}

    async def test_what_fails_again_is_failed_and_may_be_retried_again(self, ledger: LedgerAdapter) -> None:
        batch = await retried(ledger, await ended(ledger), error_class="odd")
        batch = await walked(ledger, batch, {("TWO", "d/f3.tif.one"): "worse"}, now=60.0, **TWO)
        assert await ledger.count_failures(batch.no) == {"busy": 2, "worse": 1}
        end = (await ledger.list_inputs(batch.no, limit=9))[2]
        assert (end.outcome, end.error_class) == (FileOutcome.FAILED, "worse")
        batch = await retried(ledger, batch)
        assert batch.position.round == 3
        batch = await walked(ledger, batch, now=70.0, **TWO)
        assert await outcomes_of(ledger, batch) == [FileOutcome.DONE] * 3

    async def test_a_selection_that_hits_nothing_begins_no_round(self, ledger: LedgerAdapter) -> None:
        batch = await ended(ledger)
        for selected in ({"error_class": "nothing"}, {"path": "d/f1.tif", "error_class": "odd"}):
            with pytest.raises(Stale):
                await retried(ledger, batch, **selected)
        assert (await ledger.get_batch(batch.id)).position == batch.position

    async def test_the_act_is_kept_with_who_and_why(self, ledger: LedgerAdapter) -> None:
        batch = await retried(ledger, await ended(ledger))
        (told,) = [
            data
            for _, _, kind, data in await ledger.list_events(batch.no, limit=99)
            if kind == "batch_retried"
        ]
        assert told == {"actor": "ann", "reason": "because", "round": 2, "tasks": 3}

    async def test_history_is_kept(self, ledger: LedgerAdapter) -> None:
        batch = await walked(ledger, await retried(ledger, await ended(ledger)), now=60.0, **TWO)
        files, attempts = await ledger.get_file_history(batch.no, "d/f1.tif")
        assert [(one.phase, one.round, one.path, one.state, one.outcome) for one in attempts] == [
            ("ONE", 1, "d/f1.tif", TaskState.DONE, "erred"),
            ("ONE", 2, "d/f1.tif", TaskState.DONE, "done"),
            ("TWO", 1, "d/f1.tif", TaskState.SUPERSEDED, "done"),
            ("TWO", 2, "d/f1.tif", TaskState.DONE, "done"),
            ("TWO", 2, "d/f1.tif.one", TaskState.DONE, "done"),
        ]
        withdrawn = [one.path for one in files if one.gone == 0]
        assert withdrawn == ["d/f1.tif.two"]

    async def test_names_of_what_was_withdrawn_are_free(self, ledger: LedgerAdapter) -> None:
        batch = await ended(ledger)
        assert list(await ledger.find_listed(batch.no, ["d/f1.tif.two"])) == ["d/f1.tif.two"]
        batch = await retried(ledger, batch)
        assert await ledger.find_listed(batch.no, ["d/f1.tif.two"]) == {}

    async def test_a_report_of_an_earlier_round_is_late(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 1, phases=TWO["phases"])
        (claim,) = await claimed(ledger, batch)
        await ledger.settle_flow(batch.no, [failed(claim)], now=11.0)
        batch = await retried(ledger, await finished(ledger, batch))
        (again,) = await claimed(ledger, batch, now=60.0)
        assert again.order.attempt == 2
        settled = await ledger.settle_flow(batch.no, [done(claim)], now=61.0)
        assert (settled.applied, settled.strays) == (0, 1)
        (stray,) = await ledger.list_stray_reports(batch.no, limit=9)
        assert stray.kind is StrayKind.LATE

    async def test_files_that_the_round_is_not_about_keep_their_ends(self, ledger: LedgerAdapter) -> None:
        batch = await retried(ledger, await ended(ledger), error_class="odd")
        failed_twice = [FileOutcome.FAILED, FileOutcome.FAILED]
        assert await outcomes_of(ledger, batch) == [*failed_twice, FileOutcome.PENDING]
        fine = await admitted(ledger, paths=PATHS, phases=TWO["phases"], batch_id="01C")
        fine = await walked(ledger, fine, {("ONE", PATHS[0]): "busy"}, **TWO)
        fine = await retried(ledger, fine)
        done_twice = [FileOutcome.DONE, FileOutcome.DONE]
        assert await outcomes_of(ledger, fine) == [FileOutcome.PENDING, *done_twice]
        await ledger.cancel(fine.no, act())
        assert await outcomes_of(ledger, fine) == [FileOutcome.CANCELLED, *done_twice]

    async def test_a_round_goes_on_from_where_it_was_cancelled(self, ledger: LedgerAdapter) -> None:
        batch = await retried(ledger, await ended(ledger))
        batch = await worked(ledger, batch, only=("ONE",), now=60.0, **TWO)
        await ledger.cancel(batch.no, act())
        batch = await ledger.reopen(batch.no, act(), status="TWO")
        batch = await walked(ledger, batch, now=70.0, **TWO)
        assert (batch.position.round, batch.status) == (2, "DONE")
        assert await outcomes_of(ledger, batch) == [FileOutcome.DONE] * 3

    async def test_a_round_of_a_batch_that_has_spent_its_budget_is_held(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger, 1, budget=Budget(seconds=0.05))
        (claim,) = await claimed(ledger, batch)
        await ledger.settle_flow(batch.no, [failed(claim)], now=11.0)
        batch = await retried(ledger, await finished(ledger, batch))
        assert (batch.position.stage, batch.hold) == (Stage.FLOWING, Hold.BUDGET)
        assert await claimed(ledger, batch, now=60.0) == []
