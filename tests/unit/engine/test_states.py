"""The tables of what may follow what."""

import pytest

from quire.engine.states import REOPENED_STAGES, STAGES, TASKS, check_move
from quire.model.batch import TERMINAL, Position, Stage, TaskState
from quire.model.errors import Bug


def test_every_state_is_in_its_table():
    assert set(STAGES) == set(Stage)
    assert set(TASKS) == set(TaskState)


def test_ends_lead_nowhere_and_everything_else_leads_to_an_end():
    for stage, following in STAGES.items():
        assert bool(following) != (stage in TERMINAL)
    for start in set(Stage) - TERMINAL:
        reached, front = set(), {start}
        while front:
            reached |= front
            front = set().union(*(STAGES[stage] for stage in front)) - reached
        assert Stage.DONE in reached


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Position(Stage.DONE, 2), Position(Stage.WORKING, 2)),
        (Position(Stage.OPEN), Position(Stage.FILLING)),
        (Position(Stage.WORKING, 1), Position(Stage.DISCOVERING, 2)),
        (Position(Stage.TRANSFORMING, 2), Position(Stage.DISCOVERING, 1)),
        (Position(Stage.DISCOVERING, 1, 10), Position(Stage.DISCOVERING, 1, 10)),
        (Position(Stage.FILLING, 0, 10), Position(Stage.FILLING, 0, 5)),
        (Position(Stage.WORKING, 1), Position(Stage.DISCOVERING, 1, 0, 2)),
        (Position(Stage.DONE, 2), Position(Stage.WORKING, 1, 0, 2)),
        (Position(Stage.DONE, 2), Position(Stage.DISCOVERING, 1, 0, 3)),
        (Position(Stage.DONE, 2, 0, 2), Position(Stage.DISCOVERING, 1, 0, 1)),
    ],
)
def test_a_batch_never_goes_back_nor_stands_still(before, after):
    with pytest.raises(Bug):
        check_move(before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Position(Stage.FILLING, 0, 10), Position(Stage.FILLING, 0, 20)),
        (Position(Stage.FILLING, 0, 10), Position(Stage.DISCOVERING, 1)),
        (Position(Stage.TRANSFORMING, 1, 7), Position(Stage.DISCOVERING, 2)),
        (Position(Stage.TRANSFORMING, 2, 7), Position(Stage.DONE, 2)),
        (Position(Stage.WORKING, 1), Position(Stage.ERROR, 1)),
        (Position(Stage.FILLING, 0, 10), Position(Stage.GATHERING, 1)),
        (Position(Stage.GATHERING, 1, 3), Position(Stage.GATHERING, 1, 9)),
        (Position(Stage.GATHERING, 1, 3), Position(Stage.DISCOVERING, 1)),
        (Position(Stage.DONE, 2), Position(Stage.DISCOVERING, 1, 0, 2)),
        (Position(Stage.DONE, 2, 0, 2), Position(Stage.GATHERING, 2, 0, 3)),
    ],
)
def test_a_batch_goes_forward(before, after):
    check_move(before, after)


def test_only_ends_can_be_taken_up_again():
    assert set(REOPENED_STAGES) == TERMINAL
    for following in REOPENED_STAGES.values():
        assert following.isdisjoint(TERMINAL)
