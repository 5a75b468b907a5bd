"""How many tasks of a phase may be claimed: worker processes, coroutines, limits."""

from quire.engine.rooms import PhaseRooms, find_group
from quire.model.plan import PlanPhase, PlanStep

ROOMS = {"": 8, "ray": 0}


def step(name="one", **changes):
    return PlanStep(name=name, step=changes.pop("step", name), version=1, **changes)


def phase(*steps):
    return PlanPhase(name="phase", steps=steps)


def room(of, /, rooms=ROOMS, **capacities):
    return PhaseRooms(rooms, lambda _, call: capacities[call.step]).of_phase(of)


def test_a_plain_step_has_the_room_of_the_worker_processes():
    assert room(phase(step())) == 8
    assert room(phase(step(compute="ray"))) == 0
    assert room(phase(step(compute="elsewhere"))) == 0


def test_a_plain_step_with_a_limit_has_no_more_than_its_limit_leaves():
    assert room(phase(step(at_once=5)), one=2) == 2
    assert room(phase(step(resource="openai")), one=50) == 8
    assert room(phase(step(at_once=5)), one=0) == 0


def test_coroutines_have_room_though_all_worker_processes_are_busy():
    one = phase(step(asynchronous=True))
    assert room(one, rooms={"": 0}, one=100) == 100
    assert room(one, rooms={"": 8}, one=0) == 0
    assert find_group(one) == ("", (("one", 1),))


def test_branches_of_one_step_share_its_room():
    branches = [step(f"asset-{agent}", step="asset", asynchronous=True, branch=agent) for agent in "abc"]
    assert room(phase(*branches), asset=20) == 20


def test_the_step_with_the_least_room_sets_the_pace_of_its_phase():
    one = phase(step(asynchronous=True), step("two", asynchronous=True))
    assert room(one, one=3, two=100) == 6
    assert room(one, one=0, two=100) == 0


def test_a_phase_of_both_kinds_needs_worker_processes():
    one = phase(step(asynchronous=True), step("two"))
    assert find_group(one) == ("", ())
    assert room(one, one=100) == 8
    assert room(one, rooms={"": 0}, one=100) == 0


def test_phases_with_the_same_coroutines_share_room_and_others_do_not():
    first, second = phase(step(asynchronous=True)), phase(step("two", asynchronous=True))
    assert find_group(first) != find_group(second)
    rooms = PhaseRooms(ROOMS, lambda _, call: {"one": 5, "two": 7}[call.step])
    assert rooms.of_group(find_group(second), second) == 7
    assert rooms.of_group(("", ()), phase(step(at_once=1))) == 8
