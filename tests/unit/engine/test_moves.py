"""The moves of a batch: given where it stands and the next rows, what changes. No I/O."""

import pytest

from quire.engine import moves
from quire.ledger.port import Verdict
from quire.model.batch import FileOutcome, Position, Stage, TaskState
from quire.model.pipeline import Added, Change, Kept
from quire.testing.factories import batch, file, listed, phase, pipeline, product, settled

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
    files = [listed(4, "a.tif"), listed(5, "b.pdf"), listed(9, "c.tif")]
    move = moves.discover(
        batch(Stage.DISCOVERING, 1, 3, last_task=7), only_tiff, files, complete=False, now=5.0
    )
    assert move.new_tasks == [(8, 4), (9, 9)]
    assert move.last_task == 9
    assert move.to == Position(Stage.DISCOVERING, 1, 9)


def test_the_end_of_discovery_starts_the_work_even_without_tasks():
    move = moves.discover(batch(Stage.DISCOVERING, 1, 9), TWO, [], complete=True, now=5.0)
    assert (move.to, move.new_tasks) == (Position(Stage.WORKING, 1), [])


def test_a_failed_task_leaves_its_file_and_says_why():
    task = settled(3, TaskState.FAILED, of=listed(7, root=2), error_class="corrupt", error="bad strip")
    move = moves.transform(batch(Stage.TRANSFORMING, 1), TWO, [task], {}, complete=True, now=5.0)
    assert (move.new_files, move.gone, move.retagged) == ([], [], [])
    assert move.verdicts == [Verdict(2, FileOutcome.FAILED, 1, "corrupt", "bad strip")]


@pytest.mark.parametrize(
    ("change", "gone", "retagged", "added"),
    [
        (Change(Kept(())), [], [], []),
        (Change(Kept(("seen",))), [], [(7, ("seen",))], []),
        (Change(None), [7], [], []),
        (Change(None, (Added(file("n"), "r"),)), [7], [], [(41, "n")]),
        (
            Change(Kept(("s",)), (Added(file("n"), "r"), Added(file("m"), "r"))),
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
        [settled(3, of=listed(7))],
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
        return Change(Kept(()), (Added(file("made.jpg"), "jpeg"),))

    tasks = [settled(1, of=listed(1, "a.tif")), settled(2, of=listed(2, "b.tif"))]
    moves.transform(
        batch(Stage.TRANSFORMING, 1), pipeline(phase(becomes=becomes)), tasks, {}, complete=True, now=5.0
    )
    assert seen == [False, True]


def test_a_files_own_path_is_not_taken_but_a_namesakes_is():
    seen = []

    def becomes(one, _result, taken):
        seen.append("a.tif" in taken)
        return Change(Kept(()))

    one = pipeline(phase(becomes=becomes))
    for count in (1, 2):
        moves.transform(
            batch(Stage.TRANSFORMING, 1),
            one,
            [settled(of=listed(path="A.tif"))],
            {"a.tif": count},
            complete=True,
            now=0,
        )
    assert seen == [False, True]


def test_a_move_is_bounded_by_what_it_makes():
    many = [settled(number, products=(product(),) * 10) for number in range(1, 6)]
    assert [len(moves.within(many, limit)) for limit in (1000, 30, 35, 1)] == [5, 3, 3, 1]


def test_after_the_last_phase_the_batch_is_done_and_untouched_files_are_skipped():
    move = moves.transform(batch(Stage.TRANSFORMING, 2), TWO, [], {}, complete=True, now=5.0)
    assert (move.to.stage, move.status) == (Stage.DONE, "DONE")
    assert move.skips is not None


def test_rivals_are_asked_only_for_results():
    one = phase(rivals=lambda one, result: (one.path + ".JPG", *(made.role for made in result.products)))
    tasks = [
        settled(1, of=listed(1, "A.tif"), products=(product("page"),)),
        settled(2, TaskState.FAILED, of=listed(2, "B.tif")),
    ]
    assert moves.rivals(one, tasks) == {"a.tif.jpg", "page"}
