"""The pipelines of a process, from its settings: those that come with Quire and those of its people.

Light to import: pipelines are built, and code is loaded, when one is asked for. A command that lists batches
needs none of them.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from quire.assembly.worker_steps import WorkerPipeline
from quire.model.errors import Misconfigured, Reject
from quire.model.pipelines import Pipelines
from quire.model.plan import Plan, digest_of
from quire.settings import Settings
from quire.settings.references import parse_choice

if TYPE_CHECKING:
    from quire.assembly.own_pipelines import FoundPipeline
    from quire.authoring.loading import LoadedPipeline

BUILT_IN = ("preprocess", "markdown", "ocr", "recipe")
RECIPE = "quire.pipelines.recipe:recipe"

Find = Callable[[], Sequence["FoundPipeline"]]


class MemberPipelines(Pipelines):
    """Also knows what was found, and from where worker processes load what is not built in."""

    def __init__(self, settings: Settings, find: Find, *, built_in: bool = True) -> None:
        """Without `built_in` only those that `find` gives."""
        super().__init__(lambda: _build_built_in(settings) if built_in else (), self._list_plans)
        self._find = find
        self._model = settings.model

    @cached_property
    def found(self) -> Sequence["FoundPipeline"]:
        return self._find()

    @cached_property
    def loaded(self) -> Sequence["LoadedPipeline"]:
        """Raises Misconfigured that lists every problem."""
        from quire.assembly.own_pipelines import choose_usable

        return choose_usable(self.found)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Pipelines of installed packages that cannot be used."""
        from quire.assembly.own_pipelines import list_warnings

        return tuple(list_warnings(self.found))

    def for_workers(self) -> tuple[WorkerPipeline, ...]:
        return tuple(
            WorkerPipeline(
                reference=one.reference,
                name=one.plan.name,
                version=one.plan.version,
                digest=digest_of(one.plan),
                model=self._model if one.asks_model else "",
            )
            for one in self.loaded
        )

    def _list_plans(self) -> Iterable[Plan]:
        return [one.plan for one in self.loaded]


def find_own_pipelines(settings: Settings, given: Sequence[str] = ()) -> MemberPipelines:
    """Every pipeline of a process that works on all batches. `given` are references of its command line."""

    def find() -> Sequence["FoundPipeline"]:
        from quire.assembly.own_pipelines import find_pipelines, list_sources

        own = find_pipelines(list_sources(settings.pipelines, given), BUILT_IN, model=settings.model)
        return [*own, *find_recipe_pipeline()]

    return MemberPipelines(settings, find)


def find_recipe_pipeline() -> Sequence["FoundPipeline"]:
    """The pipeline of recipe import: built in, and loaded like those of people, because it is written like
    them. It asks a model only in imports for which one is configured.
    """
    from quire.assembly.own_pipelines import FoundPipeline, PipelineSource
    from quire.authoring.loading import load_pipeline
    from quire.authoring.references import Reference

    loaded = load_pipeline(RECIPE)
    loaded = structs.replace(loaded, plan=structs.replace(loaded.plan, code_digest=""))
    reference = Reference(module="quire.pipelines.recipe", object_path="recipe")
    source = PipelineSource(reference=reference, written_in="Quire", optional=True)
    return [FoundPipeline(source=source, loaded=loaded)]


def choose_recipe_pipeline(settings: Settings) -> MemberPipelines:
    """For a process that imports recipes and does nothing else."""
    return MemberPipelines(settings, find_recipe_pipeline, built_in=False)


def choose_pipeline(
    settings: Settings, wanted: str, folder: Path | None = None, *, to_run: bool = True
) -> tuple[str, MemberPipelines]:
    """The one pipeline that a run is for, by name, `NAME@VERSION` or reference; its name with it. Raises
    Reject `unknown_pipeline` for a name that nothing has or a file that does not exist, Misconfigured for a
    reference that cannot be used. Without `to_run` it is only looked at, and needs no model.
    """
    model = settings.model if to_run else None
    choice = parse_choice(wanted)
    if choice is not None and choice[0] in BUILT_IN:
        return choice[0], _choose_built_in(settings, choice, wanted)
    from quire.assembly.own_pipelines import find_pipelines, list_sources

    if choice is None:
        sources = list_sources((), [wanted], folder=folder, packages=False)
        if (file := sources[0].reference.file) and not Path(file).exists():
            raise Reject(f"there is no file {file}", code="unknown_pipeline")
        chosen = find_pipelines(sources, BUILT_IN, model=model)[0]
        if chosen.problem:
            raise Misconfigured(chosen.problem, code="bad_pipelines")
    else:
        found = find_pipelines(list_sources(settings.pipelines), BUILT_IN, model=model)
        chosen = _choose_by_name(choice, found, wanted)
    return chosen.plan.name, MemberPipelines(settings, lambda: [chosen], built_in=False)


def _choose_built_in(settings: Settings, choice: tuple[str, int], wanted: str) -> MemberPipelines:
    known = choose_recipe_pipeline(settings) if choice[0] == "recipe" else MemberPipelines(settings, list)
    version = known[choice[0]].version
    if choice[1] not in {0, version}:
        raise Reject(
            f"unknown pipeline {wanted!r}; the built-in {choice[0]} is version {version}",
            code="unknown_pipeline",
        )
    return known


def _choose_by_name(
    choice: tuple[str, int], found: Sequence["FoundPipeline"], wanted: str
) -> "FoundPipeline":
    """A problem with another pipeline than the wanted one is no obstacle."""
    from quire.assembly.own_pipelines import describe_problem, sort_usable

    name, version = choice
    usable = sort_usable(found)
    for one in usable:
        if one.plan.name == name and version in {0, one.plan.version}:
            return one
    known = ", ".join(sorted({*BUILT_IN, *(f"{one.plan.name}" for one in usable)}))
    problems = "".join(f"\n  - {describe_problem(one)}" for one in found if one.problem)
    hint = f"; for a file write {wanted}.py" if Path(f"{wanted}.py").is_file() else ""
    unusable = f"\nThese references cannot be used:{problems}" if problems else ""
    raise Reject(
        f"unknown pipeline {wanted!r}; choose one of: {known}{hint}{unusable}", code="unknown_pipeline"
    )


def _build_built_in(settings: Settings) -> Iterable[Plan]:
    from quire.assembly.pipelines import build_built_in

    return build_built_in(settings)
