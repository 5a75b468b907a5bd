"""Finds the pipelines that people have written: on the command line, in the settings, in installed packages.

Promises: code is loaded only from these three places, never from a ledger, queue or store; every reference
that cannot be used is named with its reason. An earlier place wins over a later one.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from quire.authoring.places import shorten
from quire.authoring.references import Reference
from quire.model.errors import Bug, Misconfigured, QuireError
from quire.model.plan import MACHINES, Plan
from quire.settings.references import read_reference

if TYPE_CHECKING:
    from quire.authoring.loading import LoadedPipeline

ENTRY_POINTS = "quire.pipelines"
GIVEN = "the command line"
SETTING = "the setting pipelines"
QUEUE_PREFIX = "quire-"
COMPUTES = ("local", "queue", "ray", *MACHINES)  # where steps of own pipelines can run

Load = Callable[[str], "LoadedPipeline"]


class PipelineSource(Struct, frozen=True, kw_only=True):
    """A reference and where it is written. `optional`: of an installed package, which nobody asked for here;
    a fault in it is a warning.
    """

    reference: Reference
    written_in: str
    optional: bool = False

    @property
    def text(self) -> str:
        return self.reference.write()

    @property
    def shown(self) -> str:
        """As people see it: the path of a file below the working folder is relative."""
        reference = self.reference
        return (
            structs.replace(reference, file=shorten(reference.file)).write() if reference.file else self.text
        )


class FoundPipeline(Struct, frozen=True, kw_only=True):
    """What came of a reference: a pipeline, or the reason why it cannot be used. `overruled_by` names the
    reference whose pipeline of the same name and version is used instead.
    """

    source: PipelineSource
    loaded: "LoadedPipeline | None" = None
    problem: str = ""
    overruled_by: str = ""

    @property
    def is_usable(self) -> bool:
        return self.loaded is not None and not self.problem and not self.overruled_by

    @property
    def plan(self) -> Plan:
        """Only of one that was loaded."""
        if self.loaded is None:
            raise Bug(f"{self.source.text} was not loaded")
        return self.loaded.plan


def list_sources(
    references: Sequence[str],
    given: Sequence[str] = (),
    *,
    written_in: str = SETTING,
    folder: Path | None = None,
    packages: bool = True,
) -> list[PipelineSource]:
    """The references of the settings, those `given` on the command line before them, and those of installed
    packages after them. Relative files that were given start at `folder`. Raises Misconfigured.
    """
    found = [PipelineSource(reference=_read(one, folder), written_in=GIVEN) for one in given]
    found += [PipelineSource(reference=_read(one, folder), written_in=written_in) for one in references]
    return found + (list(_list_packages()) if packages else [])


def _read(text: str, folder: Path | None) -> Reference:
    try:
        return read_reference(text, folder or Path.cwd())
    except ValueError as error:
        raise Misconfigured(
            f"{text!r} is no reference to a pipeline; write {error}", code="bad_reference"
        ) from error


def find_pipelines(
    sources: Iterable[PipelineSource],
    built_in: Collection[str],
    load: Load | None = None,
    *,
    model: str | None = None,
) -> list[FoundPipeline]:
    """Load every reference. Raises nothing for one that cannot be used: its problem is in the answer. `model`
    is the setting of the processes that are to run them; None: nobody runs them here.
    """
    found: list[FoundPipeline] = []
    for source in sources:
        one = _load(source, built_in, load or _load_reference)
        if one.is_usable and model is not None:
            one = structs.replace(one, problem=_find_model_problem(one, model))
        found.append(_compare(one, found) if one.is_usable else one)
    return found


def choose_usable(found: Sequence[FoundPipeline]) -> "list[LoadedPipeline]":
    """The pipelines to use, as `sort_usable` orders them. Raises Misconfigured that lists every problem with
    a reference that somebody asked for.
    """
    if problems := [describe_problem(one) for one in found if one.problem and not one.source.optional]:
        listed = "".join(f"\n  - {problem}" for problem in problems)
        raise Misconfigured(
            f"Pipelines cannot be used, so nothing was started. Correct this and run again:{listed}",
            code="bad_pipelines",
        )
    return [one.loaded for one in sort_usable(found) if one.loaded is not None]


def sort_usable(found: Sequence[FoundPipeline]) -> list[FoundPipeline]:
    """For each name the default version first: what was given on the command line, then what was not written
    as a kept version, then higher versions before lower ones.
    """
    return sorted((one for one in found if one.is_usable), key=_precedence)


def list_warnings(found: Sequence[FoundPipeline]) -> list[str]:
    """What is left out without being asked about."""
    return [describe_problem(one) for one in found if one.problem and one.source.optional]


def describe_problem(found: FoundPipeline) -> str:
    return f"{found.source.shown} ({found.source.written_in}): {found.problem}"


def _precedence(found: FoundPipeline) -> tuple[bool, bool, int]:
    return found.source.written_in != GIVEN, found.source.reference.expected is not None, -found.plan.version


def _list_packages() -> Iterator[PipelineSource]:
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda one: (one.name, one.value)):
        package = entry.dist.name if entry.dist is not None else entry.name
        reference = Reference(module=entry.module, object_path=entry.attr)
        yield PipelineSource(reference=reference, written_in=f"the package {package}", optional=True)


def _load_reference(target: str) -> "LoadedPipeline":
    from quire.authoring.loading import load_pipeline

    return load_pipeline(target)


def _load(source: PipelineSource, built_in: Collection[str], load: Load) -> FoundPipeline:
    try:
        loaded = load(source.reference.write())
    except QuireError as error:
        return FoundPipeline(source=source, problem=str(error))
    plan = loaded.plan
    if not plan.queue:
        loaded = structs.replace(loaded, plan=structs.replace(plan, queue=QUEUE_PREFIX + plan.name))
    return FoundPipeline(source=source, loaded=loaded, problem="; ".join(_find_problems(plan, built_in)))


def _find_problems(plan: Plan, built_in: Collection[str]) -> Iterator[str]:
    if plan.name in built_in:
        yield f"{plan.name} is the name of a built-in pipeline; give yours another name"
    for name, compute in {(step.name, step.compute) for phase in plan.phases for step in phase.steps}:
        if compute and compute not in COMPUTES:
            yield f"the step {name} runs on {compute!r}; choose one of {', '.join(COMPUTES)}"


def _find_model_problem(found: FoundPipeline, model: str) -> str:
    """Steps that ask a model cannot run without one; empty when there is nothing to say."""
    if found.loaded is None or not found.loaded.asks_model:
        return ""
    if not model:
        return (
            f"{found.loaded.asks_model}: the step asks a Model, and none is configured; set `model` "
            "(QUIRE_MODEL) to the function that answers: file.py:function"
        )
    from quire.authoring.model_functions import load_model

    try:
        load_model(model)
    except QuireError as error:
        return f"the setting model: {error}"
    return ""


def _compare(found: FoundPipeline, earlier: Sequence[FoundPipeline]) -> FoundPipeline:
    """The same name and version twice in one place is a mistake; a later place is overruled by an earlier."""
    same = [
        one
        for one in earlier
        if one.is_usable and (one.plan.name, one.plan.version) == (found.plan.name, found.plan.version)
    ]
    if not same:
        return found
    other = same[0].source
    by = other.shown
    if other.written_in != found.source.written_in or _place_of(other) == _place_of(found.source):
        return structs.replace(found, overruled_by=by)
    problem = (
        f"{found.plan.name} version {found.plan.version} is also in {by}; remove one of them, "
        "or give one another version"
    )
    return structs.replace(found, problem=problem)


def _place_of(source: PipelineSource) -> Reference:
    """The reference without the version that is expected there."""
    return structs.replace(source.reference, expected=None)
