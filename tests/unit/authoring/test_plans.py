"""From decorated functions to the plan that is stored with a batch."""

from enum import StrEnum

import msgspec
import pytest

from quire import Document, Folder, Model, Output, Pipeline, Result
from quire.model.errors import Misconfigured
from quire.model.plan import (
    Accepts,
    OnFailure,
    Pace,
    PlanUnit,
    TakenValue,
    decode_plan,
    digest_of,
    encode_plan,
)
from quire.model.step import NO_OUTPUT, Step


class Notes(msgspec.Struct):
    score: float


def make_book(version: int = 3) -> Pipeline:
    book = Pipeline("book", version=version, queue="books", left_alone={"image/gif": "too small"})

    @book.step(accepts="*.txt", timeout=600, retries=3, on_failure="stop")
    async def developmental(document: Document, model: Model) -> Notes: ...

    @book.step
    async def line_edit(document: Document, developmental: Notes, model: Model) -> Notes: ...

    @book.step(each={"agent": ["blurb", "cover letter"]}, at_once=20, phase="assets")
    async def asset(document: Document, agent: str, line_edit: Notes) -> Output: ...

    @book.step(phase="assets", version=7, renames=[".TIF"], runs_on="ray", resource="ocr", delays=[1, 5])
    def page(document: Document, line_edit: Notes | None) -> Result[str]: ...

    @book.step(unit="folder", cached=False, stall=10, memory_mb=512)
    def overview(folder: Folder) -> Output: ...

    return book


def test_every_step_is_a_phase_unless_it_shares_one():
    plan = make_book().plan()
    assert [(phase.name, phase.unit, [step.name for step in phase.steps]) for phase in plan.phases] == [
        ("developmental", PlanUnit.FILE, ["developmental"]),
        ("line_edit", PlanUnit.FILE, ["line_edit"]),
        ("assets", PlanUnit.FILE, ["asset.blurb", "asset.cover letter", "page"]),
        ("overview", PlanUnit.FOLDER, ["overview"]),
    ]
    assert (plan.name, plan.version, plan.queue) == ("book", 3, "books")
    assert plan.left_alone == {"image/gif": "too small"}
    assert len(plan.code_digest) == 64


def test_options_become_limits():
    developmental, line_edit, assets, overview = make_book().plan().phases
    first, second, last = developmental.steps[0], line_edit.steps[0], overview.steps[0]
    assert first.accepts == Accepts(kinds=("*.txt",))
    assert (first.timeout_seconds, first.on_failure, first.asynchronous) == (600, OnFailure.STOP, True)
    assert first.max_attempts == 4, "three further tries"
    assert (second.max_attempts, second.timeout_seconds) == (3, 120)
    assert second.takes == (TakenValue("developmental", ("developmental",)),)
    assert (first.gives_value, second.gives_value, last.gives_value) == (True, True, False)
    assert (last.cached, last.stall_seconds, last.memory_mb, last.asynchronous) == (False, 10, 512, False)
    page = assets.steps[2]
    assert (page.version, page.compute, page.resource, page.delays) == (7, "ray", "ocr", (1, 5))
    assert page.renames == (".tif",)
    assert page.takes == (TakenValue("line_edit", ("line_edit",), required=False),)


def test_each_name_is_a_branch_with_its_name_as_an_option():
    blurb, letter, _ = make_book().plan().phases[2].steps
    assert (blurb.branch, blurb.step, blurb.options) == ("blurb", "book.asset", {"agent": "blurb"})
    assert (letter.branch, letter.step, letter.options) == (
        "cover letter",
        "book.asset",
        {"agent": "cover letter"},
    )
    assert blurb.at_once == 20


def test_a_later_step_takes_all_branches():
    pipeline = Pipeline("p")

    @pipeline.step(each={"agent": ["a", "b"]})
    def notes(document: Document, agent: str) -> Notes: ...

    @pipeline.step
    def all_notes(document: Document, notes: dict[str, Notes]) -> None: ...

    assert pipeline.plan().phases[1].steps[0].takes == (TakenValue("notes", ("notes.a", "notes.b")),)


def test_a_step_has_the_version_of_its_pipeline_unless_it_has_its_own():
    plan = make_book(version=5).plan()
    assert [step.version for phase in plan.phases for step in phase.steps] == [5, 5, 5, 5, 7, 5]


def test_a_plan_survives_being_stored_and_is_the_same_in_another_process():
    plan, again = make_book().plan(), make_book().plan()
    assert decode_plan(encode_plan(plan)) == plan
    assert digest_of(plan) == digest_of(again)
    assert plan.code_digest == again.code_digest
    assert digest_of(make_book(version=4).plan()) != digest_of(plan)


def test_the_steps_are_found_by_pipeline_and_name():
    steps = make_book().steps()
    assert sorted(steps) == [
        "book.asset",
        "book.developmental",
        "book.line_edit",
        "book.overview",
        "book.page",
    ]
    assert steps["book.page"].version == 7
    assert steps["book.page"].run_async is None
    assert steps["book.asset"].run_async is not None


def test_a_decorated_function_is_the_function():
    pipeline = Pipeline("p")

    def count(document: Document) -> None: ...

    assert pipeline.step(count) is count
    assert pipeline.step(name="other")(count) is count


def test_an_existing_step_is_used_as_it_is():
    made = Step(name="tiff_to_jpeg", version=4, run=lambda _: NO_OUTPUT, reads=("name",))
    pipeline = Pipeline("p", version=9)
    pipeline.add(
        made,
        name="tiffs",
        accepts="image/tiff",
        options={"quality": 95},
        phase="TIFF",
        task_prefix="tiff",
        pace=Pace(at_once=3),
    )
    (phase,) = pipeline.plan().phases
    (step,) = phase.steps
    assert (phase.name, phase.task_prefix, phase.pace.at_once) == ("TIFF", "tiff", 3)
    assert (step.name, step.step, step.version, step.cache_by) == ("tiffs", "tiff_to_jpeg", 4, ("name",))
    assert step.options == {"quality": 95}
    assert pipeline.steps() == {"tiff_to_jpeg": made}


class Agent(StrEnum):
    BLURB = "blurb"
    COVER = "cover"


@pytest.mark.parametrize(
    "names", [Agent, ["blurb", "cover"], ("blurb", "cover"), {"blurb": 1, "cover": 2}.keys()]
)
def test_the_names_of_each_come_from_any_ordered_collection(names: list[str]):
    pipeline = Pipeline("p")

    @pipeline.step(each={"agent": names})
    def asset(document: Document, agent: Agent) -> None: ...

    assert [step.branch for step in pipeline.plan().phases[0].steps] == ["blurb", "cover"]


def test_fixed_options_are_parameters_and_part_of_the_plan():
    pipeline = Pipeline("p")

    @pipeline.step(options={"quality": 80})
    def shrink(document: Document, quality: int) -> None: ...

    assert pipeline.plan().phases[0].steps[0].options == {"quality": 80}


def test_a_branch_may_take_only_the_documents_that_name_it():
    book = Pipeline("book", version=1)

    @book.step(accepts=("*.tif", "tag:part-{part}", "!tag:not-{part}"), each={"part": ["1", "2"]})
    def read(document: Document, part: str) -> str: ...

    (phase,) = book.plan().phases
    assert [step.accepts for step in phase.steps] == [
        Accepts(kinds=("*.tif",), needs=("tag:part-1",), refuses=("tag:not-1",)),
        Accepts(kinds=("*.tif",), needs=("tag:part-2",), refuses=("tag:not-2",)),
    ]


def test_a_sandboxed_step_may_read_the_folders_that_its_options_name():
    book = Pipeline("book", version=1)

    @book.step(sandbox=["data"], options={"data": "/srv/data"})
    def read(document: Document, data: str) -> str: ...

    @book.step(sandbox=True)
    def plain(document: Document) -> str: ...

    steps = book.steps()
    places = steps["book.read"].sandbox
    assert places is not None
    assert places({"data": "/srv/data"}) == ("/srv/data",)
    assert places({"data": ""}) == ()
    nothing = steps["book.plain"].sandbox
    assert nothing is not None
    assert nothing({"data": "/srv/data"}) == ()


def test_a_sandbox_that_names_an_unknown_option_is_a_mistake():
    book = Pipeline("book", version=1)

    @book.step(sandbox=["data"])
    def read(document: Document) -> str: ...

    with pytest.raises(Misconfigured, match="sandbox names the option 'data'"):
        book.check()
