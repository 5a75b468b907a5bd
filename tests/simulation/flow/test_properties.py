"""What must hold of every ending, whatever the plan: many random plans in the plain model."""

from collections import Counter
from random import Random

import pytest
from msgspec import structs

from quire.model.plan import PlanUnit, decode_plan, encode_plan
from tests.simulation.flow.model import run_plan
from tests.simulation.flow.naming import fold
from tests.simulation.flow.plans import made_case
from tests.simulation.flow.steps import shape_of

SEEDS = 600
CASES = [made_case(seed) for seed in range(SEEDS)]
ENDINGS = [run_plan(case.plan, case.inputs, case.world.run_step()) for case in CASES]


def test_the_order_of_inputs_changes_nothing():
    for case, found in zip(CASES, ENDINGS, strict=True):
        mixed = list(case.inputs)
        Random(case.seed).shuffle(mixed)
        assert run_plan(case.plan, mixed, case.world.run_step()) == found


def test_no_two_files_have_one_name_unless_inputs_had():
    for case, found in zip(CASES, ENDINGS, strict=True):
        inputs = Counter(fold(file.path) for file in case.inputs)
        there = Counter(fold(row.path) for row in found.files)
        assert not [path for path, number in there.items() if number > max(inputs[path], 1)], case.seed
        assert len({row.path for row in found.files}) == len(found.files), case.seed


def test_every_input_has_one_end():
    for case, found in zip(CASES, ENDINGS, strict=True):
        assert [one.path for one in found.inputs] == [file.path for file in case.inputs]
        for one in found.inputs:
            assert (one.outcome == "done") == (not one.error_class), case.seed
            failed = [task for task in found.tasks if task.failure and one.path in task.about]
            assert (one.outcome == "failed") == bool(failed), case.seed


def test_every_file_stands_in_a_folder_of_inputs_and_descends_from_one():
    for case, found in zip(CASES, ENDINGS, strict=True):
        inputs = {file.path for file in case.inputs}
        for row in found.files:
            assert row.root in inputs
            assert row.lineage[0] == row.root or (row.born and row.lineage[0] not in inputs)


def test_plans_survive_being_stored():
    for case in CASES:
        stored = decode_plan(encode_plan(case.plan))
        assert stored == case.plan
        for phase in stored.phases:
            for step in phase.steps:
                assert isinstance(shape_of(step.options).names, tuple)


def test_a_world_that_is_healed_has_no_bad_ends():
    for case in CASES[:100]:
        healed = structs.replace(case.world, healed=1.0)
        found = run_plan(case.plan, case.inputs, healed.run_step())
        classes = {one.error_class for one in found.inputs}
        assert classes <= {"", "not_handled", "input_missing", "name_twice", "two_replacements"}


@pytest.mark.parametrize(
    "what",
    [
        *("done", "skipped", "rejected", "erred", "input_missing", "name_twice", "two_replacements"),
        *("marked", "short", "folder made", "batch made", "retagged", "replaced", "stopped"),
    ],
)
def test_the_cases_are_rich_enough(what):
    assert _seen()[what] >= 5


def _seen():
    seen = Counter()
    for case, found in zip(CASES, ENDINGS, strict=True):
        seen.update(one.outcome for one in found.inputs)
        seen.update(one.error_class for one in found.inputs)
        inputs = {file.path for file in case.inputs}
        for row in found.files:
            if row.path in inputs and row.born:
                seen["retagged"] += 1
            elif row.born:
                unit = case.plan.phases[row.born - 1].unit
                seen[f"{unit} made"] += 1
                seen["replaced"] += row.root not in {one.path for one in found.files}
                if unit is PlanUnit.FILE:
                    seen["short"] += not fold(row.path).startswith(fold(row.root))
                    seen["marked"] += any(len(part) == 12 for part in row.file.name.split("."))
            seen["stopped"] += row.listed and not row.walks
    return seen
