"""Moves of a batch as pure functions: its beginning, its end, and an error."""

from tests.situations.plans import phase, plan, step

from quire.engine import moves
from quire.model.batch import Position, Stage
from quire.model.plan import encode_plan
from quire.testing.factories import batch, outbox_message

TWO = plan(phase(step("one")), phase(step("two")))


def test_a_batch_begins_with_its_manifest_and_the_name_of_its_first_phase():
    move = moves.begin(batch(Stage.QUEUED, 0, plan=encode_plan(TWO)), now=5.0)
    assert (move.expect, move.to) == (Position(Stage.QUEUED, 0), Position(Stage.FILLING))
    assert (move.status, move.event) == ("ONE", ("batch_started", {}))


def test_one_whose_plan_has_no_phases_has_started():
    assert moves.begin(batch(Stage.QUEUED, 0), now=5.0).status == "STARTED"


def test_at_the_end_files_that_no_step_took_are_skipped():
    move = moves.end(batch(Stage.ENDING, 2, round_no=3), TWO, now=5.0)
    assert (move.to, move.status) == (Position(Stage.DONE, 2, 0, 3), "DONE")
    assert move.skips is not None
    assert move.skips[0] == "not_handled"
    assert "“plan”" in move.skips[1]
    assert move.event == ("batch_done", {"round": 3})


def test_the_end_names_the_queue_that_goes_on():
    message = outbox_message()
    move = moves.end(batch(Stage.ENDING, 2), TWO, now=5.0, message=message)
    assert move.message is message
    assert move.event == ("batch_done", {"round": 1, "handed_over_to": message.queue})


def test_an_error_keeps_where_the_batch_stood():
    move = moves.fail(batch(Stage.FLOWING, 2, 17, round_no=3), "why", now=5.0)
    assert move.to == Position(Stage.ERROR, 2, 17, 3)
    assert move.error == "why"
