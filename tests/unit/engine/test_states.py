"""The tables of what may follow what."""

import pytest

from quire.engine.states import FORMER_STAGES, REOPENED_STAGES, STAGES, TASKS, check_move
from quire.model.batch import TERMINAL, Position, Stage, TaskState
from quire.model.errors import Bug


def test_every_state_is_in_one_table():
    assert set(STAGES) | set(FORMER_STAGES) == set(Stage)
    assert set(STAGES).isdisjoint(FORMER_STAGES)
    assert set(TASKS) == set(TaskState)


def test_ends_lead_nowhere_and_everything_else_leads_to_an_end():
    following = STAGES | FORMER_STAGES
    for stage in Stage:
        assert bool(following[stage]) != (stage in TERMINAL)
    for start in set(Stage) - TERMINAL:
        reached, front = set(), {start}
        while front:
            reached |= front
            front = set().union(*(following[stage] for stage in front)) - reached
        assert Stage.DONE in reached


def test_no_batch_comes_into_a_former_stage():
    for following in (STAGES | FORMER_STAGES).values():
        assert following.isdisjoint(FORMER_STAGES)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Position(Stage.DONE, 2), Position(Stage.FLOWING, 2)),
        (Position(Stage.OPEN), Position(Stage.FILLING)),
        (Position(Stage.FLOWING, 1), Position(Stage.DONE, 2)),
        (Position(Stage.ENDING, 2), Position(Stage.DONE, 1)),
        (Position(Stage.FLOWING, 1, 10), Position(Stage.FLOWING, 1, 10)),
        (Position(Stage.WORKING, 1), Position(Stage.TRANSFORMING, 1)),
        (Position(Stage.ENDING, 2), Position(Stage.DONE, 2, 0, 2)),
        (Position(Stage.ENDING, 2, 0, 2), Position(Stage.DONE, 2, 0, 1)),
    ],
)
def test_a_batch_never_goes_back_nor_stands_still(before, after):
    with pytest.raises(Bug):
        check_move(before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Position(Stage.QUEUED), Position(Stage.FILLING)),
        (Position(Stage.FILLING), Position(Stage.ERROR)),
        (Position(Stage.FLOWING, 2, 10), Position(Stage.ENDING, 2)),
        (Position(Stage.ENDING, 2, 7, 3), Position(Stage.DONE, 2, 0, 3)),
        (Position(Stage.WORKING, 1), Position(Stage.ERROR, 1)),
        (Position(Stage.TRANSFORMING, 1, 7), Position(Stage.FLOWING, 1)),
    ],
)
def test_a_batch_goes_forward(before, after):
    check_move(before, after)


def test_only_ends_can_be_taken_up_again():
    assert set(REOPENED_STAGES) == TERMINAL
    for following in REOPENED_STAGES.values():
        assert following.isdisjoint(TERMINAL)
