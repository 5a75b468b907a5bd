"""The moves of a batch: given where it stands and the next rows, what changes. No I/O."""

import pytest

from quire.engine import moves
from quire.ledger.port import InputOutcome, NewTask, UnitContent
from quire.model.batch import FileOutcome, Position, Stage, TaskState
from quire.model.pipeline import AddedFile, KeptFile, ListChange, Pace, Unit
from quire.testing.factories import batch, file, listed_file, product, settled_task
from quire.testing.factories import former_phase as phase
from quire.testing.factories import former_pipeline as pipeline

TWO = pipeline(phase("ONE"), phase("TWO"))


def test_filling_numbers_files_from_where_it_stands():
    move = moves.fill(batch(Stage.FILLING, 0, 10), TWO, [file("x"), file("y")], complete=False, now=5.0)
    assert [(new.no, new.root_no, new.added.file.path) for new in move.new_files] == [
        (11, 11, "x"),
        (12, 12, "y"),
    ]
    assert move.to == Position(Stage.FILLING, 0, 12)
    assert move.last_file == 12
    assert move.opens_phase is None


def test_the_last_files_open_the_first_phase():
    move = moves.fill(batch(Stage.FILLING, 0, 0), TWO, [file("x")], complete=True, now=5.0)
    assert (move.to, move.opens_phase, move.status) == (Position(Stage.DISCOVERING, 1), "ONE", "ONE")


def test_an_empty_manifest_still_goes_through_every_phase():
    move = moves.fill(batch(Stage.FILLING, 0, 0), TWO, [], complete=True, now=5.0)
    assert move.to == Position(Stage.DISCOVERING, 1)


def test_discovering_makes_tasks_only_for_files_the_phase_finds():
    only_tiff = pipeline(phase(finds=lambda one: one.name.endswith(".tif")))
    files = [listed_file(4, "a.tif"), listed_file(5, "b.pdf"), listed_file(9, "c.tif")]
    move = moves.discover(
        batch(Stage.DISCOVERING, 1, 3, last_task=7), only_tiff, files, complete=False, now=5.0
    )
    assert move.new_tasks == [NewTask(8, 4), NewTask(9, 9)]
    assert move.last_task == 9
    assert move.to == Position(Stage.DISCOVERING, 1, 9)


def test_the_end_of_discovery_starts_the_work_even_without_tasks():
    move = moves.discover(batch(Stage.DISCOVERING, 1, 9), TWO, [], complete=True, now=5.0)
    assert (move.to, move.new_tasks) == (Position(Stage.WORKING, 1), [])


def test_a_failed_task_leaves_its_file_and_says_why():
    task = settled_task(
        3, TaskState.FAILED, of=listed_file(7, root=2), error_class="corrupt", error="bad strip"
    )
    move = moves.transform(batch(Stage.TRANSFORMING, 1), TWO, [task], {}, complete=True, now=5.0)
    assert (move.new_files, move.gone, move.retagged) == ([], [], [])
    assert move.verdicts == [InputOutcome(2, FileOutcome.FAILED, 1, "corrupt", "bad strip")]


@pytest.mark.parametrize(
    ("change", "gone", "retagged", "added"),
    [
        (ListChange(KeptFile(())), [], [], []),
        (ListChange(KeptFile(("seen",))), [], [(7, ("seen",))], []),
        (ListChange(None), [7], [], []),
        (ListChange(None, (AddedFile(file("n"), "r"),)), [7], [], [(41, "n")]),
        (
            ListChange(KeptFile(("s",)), (AddedFile(file("n"), "r"), AddedFile(file("m"), "r"))),
            [],
            [(7, ("s",))],
            [(41, "n"), (42, "m")],
        ),
    ],
)
def test_preserve_replace_augment_remove(change, gone, retagged, added):
    one = pipeline(phase(becomes=lambda *_: change))
    move = moves.transform(
        batch(Stage.TRANSFORMING, 1, last_file=40),
        one,
        [settled_task(3, of=listed_file(7))],
        {},
        complete=False,
        now=5.0,
    )
    assert (list(move.gone), list(move.retagged)) == (gone, retagged)
    assert [(new.no, new.added.file.path) for new in move.new_files] == added
    assert all(new.root_no == 7 for new in move.new_files)
    assert move.last_file == 40 + len(added)
    assert move.to == Position(Stage.TRANSFORMING, 1, 3)


def test_results_of_the_same_chunk_see_each_others_names():
    seen = []

    def becomes(one, _result, taken):
        seen.append("made.jpg" in taken)
        return ListChange(KeptFile(()), (AddedFile(file("made.jpg"), "jpeg"),))

    tasks = [settled_task(1, of=listed_file(1, "a.tif")), settled_task(2, of=listed_file(2, "b.tif"))]
    moves.transform(
        batch(Stage.TRANSFORMING, 1), pipeline(phase(becomes=becomes)), tasks, {}, complete=True, now=5.0
    )
    assert seen == [False, True]


def test_a_files_own_path_is_not_taken_but_a_namesakes_is():
    seen = []

    def becomes(one, _result, taken):
        seen.append("a.tif" in taken)
        return ListChange(KeptFile(()))

    one = pipeline(phase(becomes=becomes))
    for count in (1, 2):
        moves.transform(
            batch(Stage.TRANSFORMING, 1),
            one,
            [settled_task(of=listed_file(path="A.tif"))],
            {"a.tif": count},
            complete=True,
            now=0,
        )
    assert seen == [False, True]


def test_a_move_is_bounded_by_what_it_makes():
    many = [settled_task(number, products=(product(),) * 10) for number in range(1, 6)]
    assert [len(moves.limit_products(many, limit)) for limit in (1000, 30, 35, 1)] == [5, 3, 3, 1]


def test_after_the_last_phase_the_batch_is_done_and_untouched_files_are_skipped():
    move = moves.transform(batch(Stage.TRANSFORMING, 2), TWO, [], {}, complete=True, now=5.0)
    assert (move.to.stage, move.status) == (Stage.DONE, "DONE")
    assert move.skips is not None


def test_rivals_are_asked_only_for_results():
    one = phase(rivals=lambda one, result: (one.path + ".JPG", *(made.role for made in result.products)))
    tasks = [
        settled_task(1, of=listed_file(1, "A.tif"), products=(product("page"),)),
        settled_task(2, TaskState.FAILED, of=listed_file(2, "B.tif")),
    ]
    assert moves.rival_paths(one, tasks) == {"a.tif.jpg", "page"}


BY_FOLDER = pipeline(phase("FOLDERS", unit=Unit.DIRECTORY, finds=lambda one: one.name != "no"))


def test_files_are_gathered_by_folder_and_known_units_are_used_again():
    files = [
        listed_file(4, "a/x"),
        listed_file(5, "a/no"),
        listed_file(6, "b/y", root=2),
        listed_file(7, "top"),
        listed_file(8, "b/z"),
    ]
    standing = batch(Stage.GATHERING, 1, 3, last_file=10)
    move = moves.gather(standing, BY_FOLDER, files, {"a": 9}, complete=False, now=5.0)
    units = [(new.no, new.root_no, new.added.file.path, new.added.listed) for new in move.new_files]
    assert units == [(11, 2, "b", False), (12, 7, "", False)]
    assert move.members == [(9, 4), (11, 6), (12, 7), (11, 8)]
    assert (move.to, move.last_file) == (Position(Stage.GATHERING, 1, 8), 12)


def test_a_whole_batch_is_one_unit_and_then_discovered():
    whole = pipeline(phase(unit=Unit.BATCH))
    files = [listed_file(1, "a/x"), listed_file(2, "b/y")]
    move = moves.gather(batch(Stage.GATHERING, 1, last_file=2), whole, files, {}, complete=True, now=5.0)
    assert (move.members, move.to) == ([(3, 1), (3, 2)], Position(Stage.DISCOVERING, 1))


def test_every_unit_is_a_task_and_ranks_are_the_phases_own():
    deep_first = pipeline(
        phase(unit=Unit.DIRECTORY, finds=lambda _: False, rank=lambda one: -one.path.count("/"))
    )
    units = [listed_file(5, "a"), listed_file(6, "a/b/c")]
    contents = [UnitContent(5, "k", 1, "d")]
    move = moves.discover(
        batch(Stage.DISCOVERING, 1), deep_first, units, complete=True, now=5.0, contents=contents
    )
    assert move.new_tasks == [NewTask(1, 5, 0), NewTask(2, 6, -2)]
    assert (move.ranked, move.units, move.to.stage) == (True, contents, Stage.WORKING)


def test_a_phase_with_units_begins_by_gathering():
    move = moves.transform(
        batch(Stage.TRANSFORMING, 1),
        pipeline(phase("ONE"), *BY_FOLDER.phases),
        [],
        {},
        complete=True,
        now=5.0,
    )
    assert (move.to, move.opens_phase) == (Position(Stage.GATHERING, 2), "FOLDERS")
    assert move.regathers is None


def test_what_is_made_of_a_unit_descends_from_it_and_its_end_is_told_to_its_members():
    one = pipeline(
        phase(
            unit=Unit.DIRECTORY, becomes=lambda *_: ListChange(None, (AddedFile(file("a/list.txt"), "list"),))
        )
    )
    tasks = [
        settled_task(1, of=listed_file(7, "a", root=2)),
        settled_task(2, TaskState.FAILED, of=listed_file(8, "b", root=3)),
    ]
    standing = batch(Stage.TRANSFORMING, 1, last_file=40)
    move = moves.transform(standing, one, tasks, {}, complete=True, now=5.0)
    assert [(new.no, new.root_no, new.parent_no) for new in move.new_files] == [(41, 2, 7)]
    assert [(said.outcome, said.unit_no) for said in move.verdicts] == [
        (FileOutcome.DONE, 7),
        (FileOutcome.FAILED, 8),
    ]
    assert move.gone == []


def test_the_first_dispatch_waits_as_the_phase_says():
    slow = pipeline(phase(pace=Pace(first_seconds=3.0)))
    move = moves.discover(batch(Stage.DISCOVERING, 1), slow, [], complete=True, now=5.0)
    assert move.dispatch_at == 8.0
    # One without a wait does not inherit that of the phase before; amid the discovery nothing is said.
    assert moves.discover(batch(Stage.DISCOVERING, 1), TWO, [], complete=True, now=5.0).dispatch_at == 0.0
    part = moves.discover(batch(Stage.DISCOVERING, 1), slow, [listed_file(1)], complete=False, now=5.0)
    assert part.dispatch_at is None


def test_a_new_round_begins_in_the_phase_that_failed():
    move = moves.retry_round(batch(Stage.DONE, 2), TWO, 1, now=5.0)
    assert (move.to, move.opens_phase, move.status) == (Position(Stage.DISCOVERING, 1, 0, 2), "ONE", "ONE")
    over = moves.transform(batch(Stage.TRANSFORMING, 2, round_no=2), TWO, [], {}, complete=True, now=5.0)
    assert over.to == Position(Stage.DONE, 2, 0, 2)


def test_units_of_earlier_rounds_give_way():
    move = moves.retry_round(batch(Stage.DONE, 1), BY_FOLDER, 1, now=5.0)
    assert move.regathers is Unit.DIRECTORY


def test_an_error_keeps_where_the_batch_stood():
    move = moves.fail(batch(Stage.DISCOVERING, 2, 17, round_no=3), "why", now=5.0)
    assert move.to == Position(Stage.ERROR, 2, 17, 3)
    assert move.error == "why"
