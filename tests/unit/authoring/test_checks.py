"""What is wrong with a pipeline is said when it is loaded: all of it, with file and line and what to do."""

import re
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from quire import Document, Folder, Model, Output, Pipeline, Result
from quire.model.errors import Misconfigured
from quire.model.plan import Accepts, PlanUnit


class Notes(msgspec.Struct):
    score: float


class OtherNotes(msgspec.Struct):
    text: str


def value_step(document: Document) -> Notes:
    return Notes(1.0)


def build(*steps: tuple[Callable[..., Any], dict[str, Any]], **more: Any) -> Pipeline:
    pipeline = Pipeline("p", **more)
    for function, options in steps:
        pipeline.step(**options)(function)
    return pipeline


def problem_of(*steps: tuple[Callable[..., Any], dict[str, Any]], **more: Any) -> str:
    with pytest.raises(Misconfigured) as caught:
        build(*steps, **more).check()
    return str(caught.value)


def plain(document: Document) -> Output: ...


def no_return(document: Document): ...


def takes_args(document: Document, *others: str) -> None: ...


def takes_kwargs(document: Document, **others: str) -> None: ...


def positional(document: Document, /) -> None: ...


def optional_document(document: Document | None) -> None: ...


def asks_plainly(document: Document, model: Model) -> None: ...


def returns_path(document: Document) -> Path: ...


def returns_nested(document: Document) -> dict[str, list[Path]]: ...


def returns_set(document: Document) -> set[Output]: ...


def forward(document: Document) -> "Nowhere": ...  # noqa: F821


async def yields(document: Document) -> AsyncIterator[Output]:
    yield Output.text("a.txt", "x")


def takes_folder(folder: Folder) -> None: ...


def takes_unknown(document: Document, sumary: Notes) -> None: ...


def takes_value(document: Document, value_step: Notes) -> None: ...


def takes_other(document: Document, value_step: OtherNotes) -> None: ...


def takes_itself(takes_itself: Notes) -> Notes: ...


def takes_plain(document: Document, plain: str) -> None: ...


def of_folder(folder: Folder) -> Notes: ...


def takes_of_folder(document: Document, of_folder: Notes) -> None: ...


def folder_takes_value(folder: Folder, value_step: Notes) -> None: ...


def maybe(document: Document) -> Notes | None: ...


def takes_maybe(document: Document, maybe: Notes) -> None: ...


def for_agent(document: Document, agent: str) -> Notes: ...


def for_number(document: Document, agent: int) -> Notes: ...


def takes_agents(document: Document, for_agent: Notes) -> None: ...


def class_(document: Document) -> None: ...


@pytest.mark.parametrize(
    ("function", "options", "words"),
    [
        (no_return, {}, "say what it returns: `-> Output`"),
        (takes_args, {}, "cannot take *others"),
        (takes_kwargs, {}, "cannot take **others"),
        (positional, {}, "remove the `/` after document"),
        (optional_document, {}, "the parameter document is always given; annotate it as Document"),
        (asks_plainly, {}, "a step that asks a Model is an `async def`"),
        (returns_path, {}, "it returns Path, which cannot travel to later steps"),
        (returns_nested, {}, "cannot travel to later steps"),
        (returns_set, {}, "has no order; return a list[Output]"),
        (forward, {}, "the annotation 'Nowhere' cannot be found"),
        (yields, {}, "returns its outputs in a list; it cannot `yield` them"),
        (takes_folder, {}, 'it takes a Folder, so it must say unit="folder"'),
        (plain, {"unit": "folder"}, 'with unit="folder" it takes a Folder, not a Document'),
        (takes_unknown, {}, "the parameter sumary is no earlier step (there is no earlier step)"),
        (takes_itself, {}, "the parameter takes_itself is the step itself"),
        (lambda _: None, {}, "the step's name '<lambda>' must be letters"),
        (plain, {"name": "a-b"}, "the step's name 'a-b' must be letters"),
        (plain, {"name": "a" * 65}, "must be letters"),
        (plain, {"name": "class"}, "is a word of Python"),
        (plain, {"phase": "first phase"}, "the phase's name 'first phase' must be"),
        (plain, {"accepts": "txt"}, "for all files of this kind write '*.txt'"),
        (plain, {"accepts": ".PDF"}, "write '*.PDF'"),
        (plain, {"accepts": "texts/*.txt"}, "globs are of names only"),
        (plain, {"accepts": "images/*"}, "content types begin with one of: application, audio"),
        (plain, {"accepts": "text/"}, "with a slash it is a content type"),
        (plain, {"accepts": ""}, "write a content type, a glob"),
        (plain, {"accepts": ["*.txt", "!"]}, "write a content type, a glob"),
        (plain, {"accepts": " *.txt"}, "without spaces"),
        (plain, {"accepts": "!!*.txt"}, "one ! is enough"),
        (plain, {"accepts": "tag:"}, "name the tag"),
        (plain, {"accepts": "config:=x"}, "name the key"),
        (plain, {"accepts": ["*.txt", "!*.txt"]}, "is asked for and refused"),
        (plain, {"accepts": 7}, "accepts=7: Expected str | dict | list, got int"),
        (plain, {"accepts": [7]}, "Expected str, got int"),
        (for_agent, {"each": {}}, "the parameter agent is no earlier step"),
        (for_agent, {"each": {"agent": []}}, "each gives no names to 'agent'"),
        (for_agent, {"each": {"agent": ["a", "a"]}}, "each: the name 'a' is there twice"),
        (for_agent, {"each": {"agent": ["a", ""]}}, "each: the name '' must have 1 to 64"),
        (for_agent, {"each": {"agent": [" a"]}}, "no spaces around it"),
        (for_agent, {"each": {"agent": ["a/b"]}}, "no slash or control character"),
        (for_agent, {"each": {"agent": ["a\nb"]}}, "no slash or control character"),
        (for_agent, {"each": {"agent": ["a" * 65]}}, "must have 1 to 64"),
        (for_agent, {"each": {"agent": {"a", "b"}}}, "a set has no order; write a list"),
        (for_agent, {"each": {"agent": "abc"}}, "Expected list, got str"),
        (for_agent, {"each": ["a", "b"]}, "got list; name the parameter and its values: each="),
        (for_agent, {"each": {"agent": ["a"], "x": ["b"]}}, "each takes one parameter"),
        (for_number, {"each": {"agent": ["a"]}}, "the parameter agent is given 'a': Expected `int`"),
        (plain, {"each": {"agent": ["a"]}}, "so the function needs a parameter agent: str"),
        (plain, {"unit": "page"}, "unit='page': Invalid enum value 'page'"),
        (plain, {"on_failure": "ignore"}, "on_failure='ignore'"),
        (plain, {"timeout": 0}, "timeout=0: Expected float > 0.0"),
        (plain, {"timeout": "600"}, "timeout='600': Expected float, got str"),
        (plain, {"timeout": float("nan")}, "timeout=nan"),
        (plain, {"timeout": float("inf")}, "timeout=inf"),
        (plain, {"retries": -1}, "retries=-1: Expected int >= 0"),
        (plain, {"retries": True}, "retries=True: Expected int, got bool"),
        (plain, {"retries": 1.5}, "retries=1.5: Expected int"),
        (plain, {"delays": [1, -1]}, "delays=[1, -1]: Expected float >= 0.0"),
        (plain, {"retries": 1, "delays": [1, 2]}, "there are 2 delays for 1 retries"),
        (plain, {"memory_mb": 0}, "memory_mb=0"),
        (plain, {"version": 0}, "version=0"),
        (plain, {"at_once": -1}, "at_once=-1"),
        (plain, {"resource": "a b"}, "resource='a b': use letters"),
        (plain, {"runs_on": "/"}, "runs_on='/': use letters"),
        (plain, {"cache_by": ["colour"]}, "cache_by='colour' is no field of a file"),
        (plain, {"cache_by": ["name.x"]}, "cache_by='name.x' is no field of a file"),
        (plain, {"renames": ["tif"]}, "renames='tif': write extensions as '.tif'"),
        (takes_folder, {"unit": "folder", "renames": [".tif"]}, "renames is for steps on files"),
        (plain, {"options": {"a": object()}}, "options cannot be written as JSON"),
        (
            for_agent,
            {"each": {"agent": ["a"]}, "options": {"agent": "a"}},
            "'agent' is in each and in options",
        ),
        (partial(plain), {"name": "half"}, "a step is a function"),
    ],
)
def test_a_wrong_step_is_explained(function: Callable[..., Any], options: dict[str, Any], words: str):
    problem = problem_of((function, options))
    assert words in problem
    assert problem.startswith("the pipeline p cannot be used:\n  ")
    if not isinstance(function, partial):
        line = function.__code__.co_firstlineno
        assert f"{Path(__file__).name}:{line}: " in problem


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([(value_step, {}), (takes_other, {})], "annotated as OtherNotes, but that step gives Notes"),
        ([(takes_value, {}), (value_step, {})], "the parameter value_step is a step that comes later"),
        (
            [(value_step, {"phase": "one"}), (takes_value, {"phase": "one"})],
            "the parameter value_step runs side by side with it in phase 'one'",
        ),
        ([(plain, {}), (takes_plain, {})], "but it gives none: it returns Output; let it return a Result"),
        (
            [(value_step, {"name": "summary"}), (takes_unknown, {})],
            "is no earlier step; did you mean summary?",
        ),
        ([(of_folder, {"unit": "folder"}), (takes_of_folder, {})], "documents do not wait for a folder"),
        (
            [(value_step, {}), (folder_takes_value, {"unit": "folder"})],
            "ask each document of the folder for it: `document.value(value_step)`",
        ),
        ([(maybe, {}), (takes_maybe, {})], "may be missing, because that step returns"),
        (
            [(for_agent, {"each": {"agent": ["a", "b"]}}), (takes_agents, {})],
            "annotated as Notes, but that step gives dict[str,",
        ),
        ([(plain, {}), (plain, {})], "there is a step of this name already"),
        ([(plain, {}), (value_step, {"name": "plain"})], "give one of them another name"),
        (
            [(plain, {"phase": "a"}), (value_step, {}), (maybe, {"phase": "a"})],
            "the steps of phase 'a' must stand together",
        ),
        (
            [(plain, {"phase": "a"}), (of_folder, {"phase": "a", "unit": "folder"})],
            "the steps of phase 'a' must have the same `unit`",
        ),
        ([(plain, {}), (value_step, {}), (maybe, {"phase": "plain"})], "must stand together"),
    ],
)
def test_steps_that_do_not_fit_together_are_explained(steps: list, words: str):
    assert words in problem_of(*steps)


def test_all_problems_are_told_at_once():
    problem = problem_of((no_return, {"timeout": -1}), (takes_unknown, {"retries": -1}))
    assert len(problem.splitlines()) == 5
    # The step that cannot be understood is not blamed a second time by the one after it.
    assert len(re.findall("test_checks.py:", problem)) == 4


def test_a_step_that_cannot_be_understood_does_not_make_others_wrong():
    problem = problem_of((forward, {"name": "value_step"}), (takes_value, {}))
    assert len(problem.splitlines()) == 2


@pytest.mark.parametrize("name", ["", "a-b", "1a", "a b", "ä", "a" * 65, "def", 3])
def test_the_name_of_a_pipeline_is_plain(name: str):
    pipeline = Pipeline(name)
    pipeline.step(plain)
    with pytest.raises(Misconfigured, match=r"test_checks\.py:\d+: the pipeline's name"):
        pipeline.check()


@pytest.mark.parametrize("version", [0, -1, 1.5, "1", True])
def test_the_version_of_a_pipeline_is_a_number(version: int):
    assert "version is a whole number from 1 on" in problem_of((plain, {}), version=version)


def test_a_pipeline_without_steps_is_an_error():
    with pytest.raises(Misconfigured, match=r"test_checks\.py:\d+: the pipeline has no steps"):
        Pipeline("empty").plan()


def test_an_unknown_option_is_refused_where_it_is_written():
    with pytest.raises(TypeError, match="a step has no option 'retry'; did you mean 'retries'"):
        Pipeline("p").step(retry=3)
    with pytest.raises(TypeError, match="the options are: accepts, at_once"):
        Pipeline("p").step(qqq=3)


def test_options_are_given_by_name():
    with pytest.raises(Misconfigured, match=r"test_checks\.py:\d+: a step's options are given by name"):
        Pipeline("p").step("text/plain")


def test_what_is_right_passes():
    def wide(document: Document, value_step: Notes | OtherNotes | None = None) -> Result[list[int]]: ...

    def anything(document: Document, wide: object, value_step) -> None: ...

    def sequence(document: Document, wide: list[float]) -> None: ...

    def agents(document: Document, for_agent: dict[str, Notes]) -> None: ...

    build(
        (value_step, {"accepts": ["text/*", "!*.log", "tag:x", "config:a=b", "README", "*.jpg"]}),
        (wide, {"accepts": Accepts(kinds=("*",))}),
        (anything, {"each": {}}),
        (sequence, {"delays": (1, 2.5), "retries": 2}),
        (for_agent, {"each": {"agent": ("gpt-4.1", "a b")}}),
        (agents, {}),
        (of_folder, {"unit": "folder"}),
        (takes_folder, {"unit": "batch"}),
    ).check()


def test_a_step_of_a_folder_takes_the_value_of_an_earlier_one():
    def page(folder: Folder, of_folder: Notes) -> None: ...

    plan = build((of_folder, {"unit": "folder"}), (page, {"unit": "folder"})).plan()
    assert [phase.unit for phase in plan.phases] == [PlanUnit.FOLDER, PlanUnit.FOLDER]
    assert plan.phases[1].steps[0].takes[0].steps == ("of_folder",)


def test_a_step_added_later_is_checked_too():
    pipeline = build((plain, {}))
    pipeline.check()
    pipeline.step(no_return)
    with pytest.raises(Misconfigured):
        pipeline.check()
