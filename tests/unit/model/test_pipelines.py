"""A process finds the pipeline of a batch, in the right version, and says why when it has none."""

import pytest
from msgspec import structs

from quire.model.batch import Batch, Position, Stage
from quire.model.errors import Misconfigured
from quire.model.files import File
from quire.model.pipelines import (
    Pipelines,
    first_phase,
    has_other_code,
    is_other_plan,
    stored_plan,
    to_pipelines,
)
from quire.model.plan import Accepts, Plan, PlanPhase, PlanStep, PlanUnit, encode_plan
from quire.model.step import NO_OUTPUT, Step, find_step


def plan(name="book", version=1, **changes):
    step = PlanStep(name="count", step=f"{name}/count", version=version, **changes)
    return Plan(name=name, version=version, phases=(PlanPhase(name="count", steps=(step,)),))


def batch(of, text=None):
    return Batch(
        no=1,
        id="01B",
        pipeline=of.name,
        pipeline_version=of.version,
        plan=encode_plan(of) if text is None else text,
        position=Position(Stage.OPEN),
        status="OPEN",
        manifest_key=None,
        total_files=0,
        last_file=0,
        created_at=0,
        updated_at=0,
    )


def refuse():
    raise AssertionError("own pipelines were loaded")


def test_the_first_version_of_a_name_is_the_default_and_each_is_found():
    new, old = plan(version=3), plan(version=2)
    found = Pipelines(own=lambda: [new, old])
    assert found["book"] is new
    assert found.find("book", 2) is old
    assert found.find("book", 1) is None
    assert (list(found), len(found), found.every()) == (["book"], 1, [new, old])
    assert found.versions("book") == (new, old)


def test_code_of_others_is_not_loaded_for_a_built_in_pipeline():
    plain = plan("plain")
    found = Pipelines(lambda: [plain], refuse)
    assert found[plain.name] is plain
    assert found.of(batch(plain)) is plain
    with pytest.raises(AssertionError):
        found.every()


def test_a_batch_gets_the_pipeline_of_its_version_with_the_limits_of_this_process():
    slow = plan(version=2, timeout_seconds=900.0)
    found = Pipelines(own=lambda: [plan(version=3), slow])
    assert found.of(batch(plan(version=2))) is slow
    assert found.why_left_alone(batch(plan(version=2))) is None


@pytest.mark.parametrize(
    ("submitted", "words"),
    [
        (plan("other"), "no pipeline other version 1 here; add it to the setting"),
        (plan(version=7), 'only version 3, 2; use the version that submitted it.*"book@7=FILE"'),
        (
            plan(version=3, on_failure="stop"),
            "its steps or their rules have changed, and its version has not",
        ),
        (plan(version=3, accepts=Accepts(kinds=("*.txt",))), "raise the version"),
    ],
)
def test_a_batch_of_another_pipeline_is_left_alone_with_a_reason(submitted, words):
    found = Pipelines(own=lambda: [plan(version=3), plan(version=2)])
    with pytest.raises(Misconfigured, match=words):
        found.of(batch(submitted))
    assert found.why_left_alone(batch(submitted)).startswith("batch 01B")


def test_a_batch_that_an_earlier_version_stored_without_a_plan_is_adopted():
    plain = plan("plain")
    former = batch(plain, text='{"name": "plain"}')
    assert not is_other_plan(plain, former)
    assert Pipelines(lambda: [plain]).of(former) is plain


def test_the_stored_plan_needs_no_code():
    assert stored_plan(batch(plan())) == plan()
    for text in ("", "{}", "[", '{"name": "x", "version": 1, "phases": [{"name": "A", "step": "s"}]}'):
        assert stored_plan(batch(plan(), text=text)) is None


def test_other_code_is_told_from_another_plan():
    here = structs.replace(plan(), code_digest="aa")
    assert has_other_code(here, batch(structs.replace(plan(), code_digest="bb")))
    assert not has_other_code(here, batch(here))
    assert not has_other_code(here, batch(plan()))  # whoever submitted it did not say


def test_a_plain_mapping_becomes_pipelines_and_pipelines_stay_what_they_are():
    one = plan()
    made = to_pipelines({"book": one})
    assert made["book"] is one
    assert to_pipelines(made) is made


def test_the_first_phase_of_a_file_is_one_that_takes_it_by_itself():
    folder = PlanPhase(
        name="folder", unit=PlanUnit.FOLDER, steps=(PlanStep(name="f", step="x/f", version=1),)
    )
    texts = PlanStep(name="t", step="x/t", version=1, accepts=Accepts(kinds=("*.txt",)))
    made = Plan(name="x", version=1, phases=(folder, PlanPhase(name="texts", steps=(texts,))))
    text = File(key="k", path="a.txt", name="a.txt", size=1, content_type="text/plain")
    assert first_phase(made, text).name == "texts"
    assert first_phase(made, structs.replace(text, name="a.png")) is None


def test_a_step_is_found_in_the_version_that_is_asked_for():
    new = Step(name="book/count", version=3, run=lambda _: NO_OUTPUT)
    old = Step(name="book/count", version=2, run=lambda _: NO_OUTPUT)
    steps = {"book/count": new, "book/count@2": old}
    assert find_step(steps, "book/count", 3) is new
    assert find_step(steps, "book/count", 2) is old
    assert find_step(steps, "book/count", 1) is None
    assert find_step(steps, "book/other", 1) is None


def test_a_pipeline_of_settings_is_the_same_with_other_options_and_a_batch_keeps_what_it_accepts():
    text, pdf = Accepts(kinds=("text/plain",)), Accepts(kinds=("application/pdf",))
    before = structs.replace(plan(accepts=text, options={"quality": 1}), from_settings=True)
    here = structs.replace(plan(accepts=pdf, options={"quality": 2}, memory_mb=7), from_settings=True)

    found = Pipelines(lambda: [here]).of(batch(before))

    (step,) = found.phases[0].steps
    assert (step.accepts, step.options, step.memory_mb) == (text, {"quality": 2}, 7)
    assert not is_other_plan(here, batch(before))
    assert is_other_plan(structs.replace(here, from_settings=False), batch(before))
