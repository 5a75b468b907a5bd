"""What every ledger keeps of rounds: failed tasks run again, and nothing else does."""

import pytest
from msgspec import structs

from quire.engine import moves
from quire.ledger.port import SettleResult, StrayKind, TaskSelection
from quire.model.batch import Batch, FileOutcome, Position, Stage, TaskState
from quire.model.errors import Stale
from quire.testing.factories import file
from tests.suites.ledger_adapter import LedgerAdapter
from tests.suites.ledger_situations import ME, TWO, act, done, entered, erred, filled, started, walked, worked

PATHS = ["d/f0.tif", "d/f1.tif", "d/f2.tif"]
FAILS = {("ONE", "d/f0.tif"): "busy", ("TWO", "d/f2.tif.one"): "odd", ("TWO", "d/f1.tif"): "busy"}


async def ended(ledger: LedgerAdapter) -> Batch:
    """Three inputs: the first failed in ONE, the second in TWO, what was made of the third in TWO."""
    return await walked(ledger, await filled(ledger, PATHS, TWO), TWO, FAILS)


async def retried(ledger: LedgerAdapter, batch: Batch, phase_no: int, **selected: str) -> Batch:
    move = moves.retry_round(batch, TWO, phase_no, now=50.0)
    return await ledger.retry_tasks(move, TaskSelection(**selected), act())


class RoundsSuite:
    async def test_what_a_selection_hits_is_told_beforehand(self, ledger: LedgerAdapter) -> None:
        batch = await ended(ledger)
        chosen = await ledger.preview_retry(batch.no, TaskSelection())
        assert chosen.failed == [(1, "busy", 1), (2, "busy", 1), (2, "odd", 1)]
        assert (chosen.tasks, chosen.unsettled) == (3, 0)
        assert (await ledger.preview_retry(batch.no, TaskSelection(error_class="odd"))).failed == [
            (2, "odd", 1)
        ]
        assert (await ledger.preview_retry(batch.no, TaskSelection(path="d/f2.tif"))).failed == [
            (2, "odd", 1)
        ]
        assert (
            await ledger.preview_retry(batch.no, TaskSelection(path="d/f1.tif", error_class="odd"))
        ).tasks == 0

    async def test_of_a_batch_stopped_half_way_only_what_goes_on_is_told(self, ledger: LedgerAdapter) -> None:
        batch = await retried(ledger, await ended(ledger), 2, error_class="odd")
        assert batch.position.round == 2
        batch = await entered(ledger, batch, TWO)
        await ledger.cancel(batch.no, act())
        chosen = await ledger.preview_retry(batch.no, TaskSelection())
        assert (chosen.failed, chosen.unsettled) == ([], 1)

    async def test_all_that_failed_runs_again_and_nothing_else(self, ledger: LedgerAdapter) -> None:
        batch = await ended(ledger)
        assert await ledger.count_failures(batch.no) == {"busy": 2, "odd": 1}
        batch = await retried(ledger, batch, 1)
        assert batch.position == Position(Stage.DISCOVERING, 1, 0, 2)
        assert (batch.completed_at, batch.ended) == (None, False)
        assert await ledger.count_failures(batch.no) == {}
        seen: list[tuple[str, str]] = []
        batch = await walked(ledger, batch, TWO, seen=seen)
        assert seen == [
            ("ONE", "d/f0.tif"),
            *(("TWO", path) for path in ("d/f0.tif", "d/f1.tif", "d/f2.tif.one", "d/f0.tif.one")),
        ]
        assert batch.position == Position(Stage.DONE, 2, 0, 2)
        one, two = await ledger.count_tasks(batch.no)
        assert (one.total, one.done, one.failed) == (3, 3, 0)
        assert (two.total, two.done, two.failed) == (6, 6, 0)
        ends = await ledger.list_inputs(batch.no, limit=9)
        assert [(end.outcome, end.error_class, end.attempts) for end in ends] == [
            (FileOutcome.DONE, "", 5),
            (FileOutcome.DONE, "", 4),
            (FileOutcome.DONE, "", 4),
        ]
        for end in ends:
            made = sorted(made.path for _, made in end.made)
            assert made == [end.path + ".one", end.path + ".one.two", end.path + ".two"]

    async def test_only_an_error_class_may_be_meant(self, ledger: LedgerAdapter) -> None:
        batch = await retried(ledger, await ended(ledger), 2, error_class="odd")
        assert await ledger.count_failures(batch.no) == {"busy": 2}
        seen: list[tuple[str, str]] = []
        batch = await walked(ledger, batch, TWO, seen=seen)
        assert seen == [("TWO", "d/f2.tif.one")]
        ends = await ledger.list_inputs(batch.no, limit=9)
        assert [end.outcome for end in ends] == [FileOutcome.FAILED, FileOutcome.FAILED, FileOutcome.DONE]
        assert [task.path for task in await ledger.list_failed_tasks(batch.no, limit=9)] == PATHS[:2]

    async def test_only_a_path_may_be_meant(self, ledger: LedgerAdapter) -> None:
        batch = await retried(ledger, await ended(ledger), 1, path="d/f0.tif")
        seen: list[tuple[str, str]] = []
        batch = await walked(ledger, batch, TWO, seen=seen)
        assert seen == [("ONE", "d/f0.tif"), ("TWO", "d/f0.tif"), ("TWO", "d/f0.tif.one")]
        assert await ledger.count_failures(batch.no) == {"busy": 1, "odd": 1}

    async def test_what_fails_again_is_failed_and_may_be_retried_again(self, ledger: LedgerAdapter) -> None:
        batch = await retried(ledger, await ended(ledger), 2, error_class="odd")
        batch = await walked(ledger, batch, TWO, {("TWO", "d/f2.tif.one"): "worse"})
        assert await ledger.count_failures(batch.no) == {"busy": 2, "worse": 1}
        end = (await ledger.list_inputs(batch.no, limit=9))[2]
        assert (end.outcome, end.error_class, end.reason) == (FileOutcome.FAILED, "worse", "worse")
        batch = await retried(ledger, batch, 1)
        assert batch.position.round == 3
        batch = await walked(ledger, batch, TWO)
        assert [end.outcome for end in await ledger.list_inputs(batch.no, limit=9)] == [FileOutcome.DONE] * 3

    async def test_a_round_begins_once(self, ledger: LedgerAdapter) -> None:
        batch = await ended(ledger)
        begun = await retried(ledger, batch, 1)
        with pytest.raises(Stale):
            await retried(ledger, batch, 1)
        with pytest.raises(Stale):
            await ledger.retry_tasks(
                structs.replace(
                    moves.retry_round(batch, TWO, 2, now=50.0), expect=begun.position, to=batch.position
                ),
                TaskSelection(),
                act(),
            )
        again = await ledger.get_batch(batch.id)
        assert again.position == begun.position
        one, two = await ledger.count_tasks(batch.no)
        assert (one.total, two.total) == (2, 2)

    async def test_a_round_for_something_else_than_was_chosen_is_stale(self, ledger: LedgerAdapter) -> None:
        batch = await ended(ledger)
        for phase_no, selected in ((1, "odd"), (2, "busy"), (1, "nothing")):
            with pytest.raises(Stale):
                await retried(ledger, batch, phase_no, error_class=selected)
        assert (await ledger.get_batch(batch.id)).position == batch.position

    async def test_the_act_is_kept_with_who_and_why(self, ledger: LedgerAdapter) -> None:
        batch = await retried(ledger, await ended(ledger), 1)
        (told,) = [
            data
            for _, _, kind, data in await ledger.list_events(batch.no, limit=99)
            if kind == "batch_retried"
        ]
        assert told == {"actor": "ann", "reason": "because", "round": 2, "tasks": 3}

    async def test_history_is_kept(self, ledger: LedgerAdapter) -> None:
        batch = await walked(ledger, await retried(ledger, await ended(ledger), 1), TWO)
        files, attempts = await ledger.get_file_history(batch.no, "d/f0.tif")
        assert [(one.phase, one.round, one.path, one.state, one.outcome) for one in attempts] == [
            ("ONE", 1, "d/f0.tif", TaskState.SUPERSEDED, "erred"),
            ("TWO", 1, "d/f0.tif", TaskState.SUPERSEDED, "done"),
            ("ONE", 2, "d/f0.tif", TaskState.DONE, "done"),
            ("TWO", 2, "d/f0.tif", TaskState.DONE, "done"),
            ("TWO", 2, "d/f0.tif.one", TaskState.DONE, "done"),
        ]
        withdrawn = [one.path for one in files if one.gone == 0]
        assert withdrawn == ["d/f0.tif.two"]

    async def test_names_of_what_was_withdrawn_are_free(self, ledger: LedgerAdapter) -> None:
        batch = await ended(ledger)
        assert await ledger.count_paths(batch.no, ["d/f0.tif.two"]) == {"d/f0.tif.two": 1}
        batch = await retried(ledger, batch, 1)
        assert await ledger.count_paths(batch.no, ["d/f0.tif.two"]) == {}

    async def test_a_report_of_an_earlier_round_is_late(self, ledger: LedgerAdapter) -> None:
        batch = await started(ledger, files=1, plan=TWO)
        (claim,) = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0)
        await ledger.settle_reports(batch.no, [erred(claim, due_at=None)], now=11.0)
        batch = await retried(ledger, await walked(ledger, await _folded(ledger, batch), TWO), 1)
        assert await ledger.settle_reports(batch.no, [done(claim)], now=60.0) == SettleResult(0, 1, False)
        (stray,) = await ledger.list_stray_reports(batch.no, limit=9)
        assert stray.kind is StrayKind.LATE

    async def test_files_that_the_round_is_not_about_keep_their_ends(self, ledger: LedgerAdapter) -> None:
        batch = await retried(ledger, await ended(ledger), 2, error_class="odd")
        outcomes = [end.outcome for end in await ledger.list_inputs(batch.no, limit=9)]
        assert outcomes == [FileOutcome.FAILED, FileOutcome.FAILED, FileOutcome.PENDING]
        fine = await walked(ledger, await filled(ledger, PATHS, TWO, "01C"), TWO, {("ONE", PATHS[0]): "busy"})
        fine = await retried(ledger, fine, 1)
        outcomes = [end.outcome for end in await ledger.list_inputs(fine.no, limit=9)]
        assert outcomes == [FileOutcome.PENDING, FileOutcome.DONE, FileOutcome.DONE]
        await ledger.cancel(fine.no, act())
        outcomes = [end.outcome for end in await ledger.list_inputs(fine.no, limit=9)]
        assert outcomes == [FileOutcome.CANCELLED, FileOutcome.DONE, FileOutcome.DONE]

    async def test_a_file_that_was_replaced_later_is_back(self, ledger: LedgerAdapter) -> None:
        batch = await filled(ledger, PATHS[:1], TWO)
        batch = await worked(ledger, await entered(ledger, batch, TWO), {("ONE", PATHS[0]): "busy"})
        batch = await entered(ledger, await _folded(ledger, batch), TWO)
        batch = await worked(ledger, batch)
        tasks = await ledger.list_settled_tasks(batch, after=0, limit=9)
        move = moves.transform(batch, TWO, tasks, {}, complete=True, now=12.0)
        batch = await ledger.apply_move(structs.replace(move, gone=[1]))
        assert PATHS[0] not in [one.file.path for one in await ledger.list_files(batch, after=0, limit=9)]
        batch = await retried(ledger, batch, 1)
        assert [one.file for one in await ledger.list_files(batch, after=0, limit=9)] == [file(PATHS[0])]


async def _folded(ledger: LedgerAdapter, batch: Batch) -> Batch:
    batch = await ledger.get_batch(batch.id)
    tasks = await ledger.list_settled_tasks(batch, after=0, limit=9)
    return await ledger.apply_move(moves.transform(batch, TWO, tasks, {}, complete=True, now=12.0))
