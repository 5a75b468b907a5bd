"""Who settles claims in the same transaction, while no other batch has anything to do."""

import pytest

from quire.engine.continuation import BELIEVED_SECONDS, Continuations
from quire.engine.rooms import PhaseRooms
from quire.ledger.flow_values import PhaseLimit
from quire.model.plan import Pace, PlanUnit
from quire.testing.factories import batch, phase, pipeline
from quire.testing.time import FakeClock

ME = 3
PLAN = pipeline(phase("ONE"), phase("TWO"), phase("ALL", unit=PlanUnit.BATCH))


def rooms(room=5):
    return PhaseRooms({"": room}, lambda _compute, _call: room)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def continuations(clock):
    return Continuations(clock)


def test_a_batch_that_is_alone_goes_on_with_its_highest_phase_first(continuations):
    continuations.note([(batch(no=7), PLAN)])
    found = continuations.find(7, ME, rooms())
    assert (found.batch.no, found.plan) == (7, PLAN)
    assert (found.request.member, found.request.most) == (ME, 5)
    # Tasks of the whole batch are not waited for here.
    assert found.request.phases == (PhaseLimit(2, 5), PhaseLimit(1, 5))


def test_beside_another_batch_all_are_asked(continuations):
    continuations.note([(batch(no=7), PLAN), (batch(no=8), PLAN)])
    assert continuations.find(7, ME, rooms()) is None
    continuations.note([(batch(no=7), PLAN)])
    assert continuations.find(8, ME, rooms()) is None
    continuations.note([])
    assert continuations.find(7, ME, rooms()) is None


def test_that_it_is_alone_is_believed_for_a_moment(continuations, clock):
    continuations.note([(batch(no=7), PLAN)])
    clock.advance(BELIEVED_SECONDS)
    assert continuations.find(7, ME, rooms()) is None


def test_without_room_nothing_is_claimed(continuations):
    continuations.note([(batch(no=7), PLAN)])
    assert continuations.find(7, ME, rooms(0)) is None


@pytest.mark.parametrize("pace", [Pace(at_once=2), Pace(between_seconds=1.0)])
def test_a_phase_with_a_pace_is_asked_for_as_before(continuations, pace):
    continuations.note([(batch(no=7), pipeline(phase("ONE"), phase("TWO", pace=pace)))])
    assert continuations.find(7, ME, rooms()) is None
