"""What every ledger keeps of units: directories and whole batches as the input of one task."""

from quire.engine import moves
from quire.ledger.port import TaskSelection
from quire.model.batch import FileOutcome, Stage
from quire.model.pipeline import Unit
from quire.model.work import EarlierResult, StepResult
from quire.testing.factories import former_phase as phase
from quire.testing.factories import former_pipeline as pipeline
from tests.suites.ledger_adapter import LedgerAdapter
from tests.suites.ledger_situations import DIRECTORIES, ME, act, done, entered, filled, folded, walked, worked

PATHS = ["d/f0.tif", "d/f1.tif", "e/f2.tif"]
WHOLE = pipeline(phase("ALL", unit=Unit.BATCH))


class UnitsSuite:
    async def test_files_are_gathered_into_their_directories(self, ledger: LedgerAdapter) -> None:
        batch = await filled(ledger, PATHS, DIRECTORIES)
        batch = await folded(
            ledger, await worked(ledger, await entered(ledger, batch, DIRECTORIES)), DIRECTORIES
        )
        assert batch.position.stage is Stage.GATHERING
        files = await ledger.list_unit_candidates(batch, whole=False, after=0, limit=2)
        assert [one.file.path for one in files] == PATHS[:2]
        assert await ledger.find_units(batch, ["d", "e"]) == {}
        batch = await ledger.apply_move(moves.gather(batch, DIRECTORIES, files, {}, complete=False, now=5.0))
        known = await ledger.find_units(batch, ["d", "e"])
        assert list(known) == ["d"]
        rest = await ledger.list_unit_candidates(batch, whole=False, after=files[-1].no, limit=9)
        batch = await ledger.apply_move(moves.gather(batch, DIRECTORIES, rest, known, complete=True, now=5.0))
        first, second = await ledger.list_units(batch, after=0, limit=9)
        assert (first.file.path, second.file.path) == ("d", "e")
        assert await ledger.list_units(batch, after=first.no, limit=9) == [second]
        assert [one.file.path for one in await ledger.list_unit_members(batch.no, first.no)] == PATHS[:2]
        assert await ledger.count_paths(batch.no, ["d"]) == {
            "d": 1
        }  # as the folder of its files, not as a unit
        assert [one.file.path for one in await ledger.list_files(batch, after=0, limit=9)] == PATHS

    async def test_the_verdict_on_a_unit_reaches_all_its_members(self, ledger: LedgerAdapter) -> None:
        batch = await filled(ledger, PATHS, DIRECTORIES)
        batch = await walked(ledger, batch, DIRECTORIES, {("DIRS", "d"): "torn"})
        ends = await ledger.list_inputs(batch.no, limit=9)
        assert [(one.path, one.outcome, one.error_class, one.attempts) for one in ends] == [
            ("d/f0.tif", FileOutcome.FAILED, "torn", 2),
            ("d/f1.tif", FileOutcome.FAILED, "torn", 2),
            ("e/f2.tif", FileOutcome.DONE, "", 2),
        ]
        assert [file.path for _, file in ends[2].made] == ["e/sheet.pdf"]
        _, attempts = await ledger.get_file_history(batch.no, "d/f1.tif")
        assert [(one.phase, one.path, one.outcome) for one in attempts] == [
            ("ONE", "d/f1.tif", "done"),
            ("DIRS", "d", "erred"),
        ]

    async def test_the_orders_of_units_name_the_list_of_their_members(self, ledger: LedgerAdapter) -> None:
        batch = await entered(ledger, await filled(ledger, PATHS, WHOLE), WHOLE)
        (claim,) = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0)
        unit = claim.order.file
        assert (unit.path, unit.size, unit.digest) == ("", 7, "f" * 64)
        assert unit.key.startswith("members/")

    async def test_a_directory_is_told_what_those_right_below_it_gave(self, ledger: LedgerAdapter) -> None:
        paths = [
            *("a/x.tif", "a/b/x.tif", "a/b/c/x.tif", "a/d/x.tif"),
            *("A/e/x.tif", "a_b/x.tif", "axb/c/x.tif", "x.tif"),
        ]
        plan = pipeline(DIRECTORIES.phases[1])
        batch = await entered(ledger, await filled(ledger, paths, plan), plan)
        told: dict[str, tuple[EarlierResult, ...]] = {}
        while claims := await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0):
            below = await ledger.load_child_results(batch.no, [claim.order.task_no for claim in claims])
            for claim in claims:
                path = claim.order.file.path
                told[path] = below[claim.order.task_no]
                result = StepResult(facts={"of": path})
                await ledger.settle_reports(batch.no, [done(claim, result=result)], now=11.0)
        assert {path: [one.path for one in below] for path, below in told.items()} == {
            "a/b/c": [],
            "a/b": ["a/b/c"],
            "a/d": [],
            "A/e": [],
            "axb/c": [],
            "a": ["a/b", "a/d"],
            "a_b": [],
            "": [],  # the same rank as the others without a folder above them
        }
        assert told["a"][0].result == StepResult(facts={"of": "a/b"})

    async def test_directories_of_uploaded_paths_are_told_as_well(self, ledger: LedgerAdapter) -> None:
        """Those begin with a slash."""
        paths = ["/x.tif", "/a/x.tif", "/a/b/x.tif", "/a/b/c/x.tif", "/d/x.tif"]
        plan = pipeline(DIRECTORIES.phases[1])
        batch = await entered(ledger, await filled(ledger, paths, plan), plan)
        told: dict[str, list[str]] = {}
        while claims := await ledger.claim_tasks(batch.no, member=ME, limit=9, now=10.0):
            below = await ledger.load_child_results(batch.no, [claim.order.task_no for claim in claims])
            for claim in claims:
                told[claim.order.file.path] = [one.path for one in below[claim.order.task_no]]
                await ledger.settle_reports(batch.no, [done(claim)], now=11.0)
        assert told == {"/a/b/c": [], "/a/b": ["/a/b/c"], "/a": ["/a/b"], "/d": [], "": ["/a", "/d"]}

    async def test_a_later_round_makes_changed_directories_anew(self, ledger: LedgerAdapter) -> None:
        batch = await filled(ledger, PATHS, DIRECTORIES)
        batch = await walked(ledger, batch, DIRECTORIES, {("ONE", "d/f0.tif"): "busy"})
        (_, old), _ = (one.made[0] for one in await ledger.list_inputs(batch.no, limit=9) if one.made)
        assert old.path == "d/sheet.pdf"
        batch = await ledger.retry_tasks(
            moves.retry_round(batch, DIRECTORIES, 1, now=50.0), TaskSelection(), act()
        )
        seen: list[tuple[str, str]] = []
        batch = await walked(ledger, batch, DIRECTORIES, seen=seen)
        assert seen == [("ONE", "d/f0.tif"), ("DIRS", "d")]
        ends = await ledger.list_inputs(batch.no, limit=9)
        assert [one.outcome for one in ends] == [FileOutcome.DONE] * 3
        assert [[file.path for _, file in one.made] for one in ends] == [["d/sheet.pdf"], [], ["e/sheet.pdf"]]
        one, dirs = await ledger.count_tasks(batch.no)
        assert (one.total, one.done, dirs.total, dirs.done) == (3, 3, 2, 2)

    async def test_a_failed_unit_is_retried_by_the_path_of_any_member(self, ledger: LedgerAdapter) -> None:
        batch = await filled(ledger, PATHS, DIRECTORIES)
        batch = await walked(ledger, batch, DIRECTORIES, {("DIRS", "d"): "torn"})
        assert (await ledger.preview_retry(batch.no, TaskSelection(path="e/f2.tif"))).tasks == 0
        selection = TaskSelection(path="d/f1.tif")
        assert (await ledger.preview_retry(batch.no, selection)).failed == [(2, "torn", 1)]
        batch = await ledger.retry_tasks(moves.retry_round(batch, DIRECTORIES, 2, now=50.0), selection, act())
        seen: list[tuple[str, str]] = []
        batch = await walked(ledger, batch, DIRECTORIES, seen=seen)
        assert seen == [("DIRS", "d")]
        ends = await ledger.list_inputs(batch.no, limit=9)
        assert [(one.outcome, one.error_class) for one in ends] == [(FileOutcome.DONE, "")] * 3
        assert await ledger.count_failures(batch.no) == {}

    async def test_a_failure_of_a_unit_that_is_made_anew_is_forgotten_by_all_members(
        self, ledger: LedgerAdapter
    ) -> None:
        batch = await filled(ledger, PATHS, DIRECTORIES)
        fails = {("ONE", "d/f0.tif"): "busy", ("DIRS", "d"): "torn"}
        batch = await walked(ledger, batch, DIRECTORIES, fails)
        selection = TaskSelection(error_class="busy")
        batch = await ledger.retry_tasks(moves.retry_round(batch, DIRECTORIES, 1, now=50.0), selection, act())
        batch = await walked(ledger, batch, DIRECTORIES)
        ends = await ledger.list_inputs(batch.no, limit=9)
        assert [one.outcome for one in ends] == [FileOutcome.DONE] * 3

    async def test_a_directory_knows_what_an_earlier_round_gave_below_it(self, ledger: LedgerAdapter) -> None:
        paths = ["a/x.tif", "a/b/x.tif"]
        batch = await filled(ledger, paths, DIRECTORIES)
        batch = await walked(ledger, batch, DIRECTORIES, {("DIRS", "a"): "torn"})
        batch = await ledger.retry_tasks(
            moves.retry_round(batch, DIRECTORIES, 2, now=50.0), TaskSelection(), act()
        )
        batch = await entered(ledger, batch, DIRECTORIES)
        (claim,) = await ledger.claim_tasks(batch.no, member=ME, limit=9, now=60.0)
        below = await ledger.load_child_results(batch.no, [claim.order.task_no])
        assert [one.path for one in below[claim.order.task_no]] == ["a/b"]
