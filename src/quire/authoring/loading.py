"""Finds the pipeline that a reference names, and imports the code behind it.

Every process loads by reference: no code travels, and nothing is pickled. Errors name the file and the line
at which a person has to look.
"""

import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import Struct, structs

from quire.authoring.language_model import LanguageModel
from quire.authoring.modules import import_file, import_module_from
from quire.authoring.pipeline import Pipeline
from quire.authoring.places import shorten
from quire.authoring.references import FORMS, Reference, parse_reference
from quire.model.errors import Misconfigured
from quire.model.plan import Plan
from quire.model.step import Step

GROUP = "quire.pipelines"


class LoadedPipeline(Struct, frozen=True, kw_only=True):
    """A pipeline with its code. `reference` loads the same one in another process on this machine: the path
    of a file in it is absolute. `asks_model` is the place of the first step that asks a Model.
    """

    name: str
    version: int
    plan: Plan
    steps: dict[str, Step]
    reference: str
    asks_model: str = ""


def load_pipeline(
    reference: str, *, folder: Path | None = None, model: LanguageModel | None = None
) -> LoadedPipeline:
    """The pipeline that a reference names. Files and modules are looked for in `folder`, otherwise in the
    working folder. `model` answers the steps that take a Model. Raises Misconfigured with what to do.
    """
    parsed = parse_reference(reference)
    here = (folder or Path()).resolve()
    if parsed.file:
        parsed = structs.replace(parsed, file=_resolve(parsed.file, here))
    pipeline = _find_pipeline(parsed, here)
    plan = pipeline.plan()
    if parsed.expected is not None and parsed.expected != (plan.name, plan.version):
        name, version = parsed.expected
        raise Misconfigured(
            f"{reference} should be {name} version {version}, but it is {plan.name} version {plan.version}; "
            "point it to the file of that version"
        )
    return LoadedPipeline(
        name=plan.name,
        version=plan.version,
        plan=plan,
        steps=pipeline.steps(model),
        reference=parsed.write(),
        asks_model=pipeline.asks_model(),
    )


def make_reference(pipeline: Pipeline) -> str:
    """The reference under which other processes load a pipeline of this one. Raises Misconfigured for one
    that is in no file, or in no variable of its module.
    """
    module = sys.modules.get(pipeline.module)
    if module is None or not Path(pipeline.file).is_file():
        raise Misconfigured(
            f"the pipeline {pipeline.name} is written in no file, so workers cannot load it; move it to one"
        )
    for name, value in vars(module).items():
        if value is pipeline:
            return f"{pipeline.file}:{name}"
    raise Misconfigured(
        f"{shorten(pipeline.file)}: the pipeline {pipeline.name} is in no variable at the top level of the "
        "file, so workers cannot find it; keep it in one"
    )


def list_entry_points() -> tuple[str, ...]:
    """The names of the pipelines that installed packages bring, without loading them."""
    return tuple(sorted({one.name for one in entry_points(group=GROUP)}))


def _resolve(file: str, folder: Path) -> str:
    try:
        return str((folder / Path(file).expanduser()).resolve())
    except RuntimeError as error:  # "~" of a user without a home folder
        raise Misconfigured(f"{file!r}: there is no such home folder") from error


def _find_pipeline(reference: Reference, folder: Path) -> Pipeline:
    if reference.entry_point:
        point = _find_entry_point(reference.entry_point)
        reference = Reference(module=point.module, object_path=point.attr)
    if reference.file:
        module = import_file(Path(reference.file))
        where = shorten(reference.file)
    else:
        module = import_module_from(reference.module, folder)
        where = reference.module
    if reference.object_path:
        return _get_object(module, reference.object_path, where)
    return _get_only(module, where)


def _find_entry_point(name: str) -> EntryPoint:
    found = list(entry_points(group=GROUP, name=name))
    if not found:
        known = ", ".join(list_entry_points()) or "none"
        raise Misconfigured(
            f"no installed package brings a pipeline {name!r} (there are: {known}); write {FORMS}",
            code="unknown_pipeline",
        )
    if len({point.value for point in found}) > 1:
        packages = ", ".join(sorted(point.dist.name for point in found if point.dist is not None))
        raise Misconfigured(
            f"several packages bring a pipeline {name!r}: {packages}; name one as module:object",
            code="unknown_pipeline",
        )
    return found[0]


def _get_object(module: ModuleType, path: str, where: str) -> Pipeline:
    found: Any = module
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError as error:
            raise Misconfigured(f"{where} has no {path!r}; {_list_pipelines(module)}") from error
    if not isinstance(found, Pipeline):
        kind = type(found).__name__
        raise Misconfigured(f"{path!r} in {where} is a {kind} and no Pipeline; {_list_pipelines(module)}")
    return found


def _get_only(module: ModuleType, where: str) -> Pipeline:
    """The pipeline that is written in the module, or else the one that it imports."""
    found = _pipelines_of(module)
    own = {name: one for name, one in found.items() if one.module == module.__name__}
    chosen = {id(one): one for one in (own or found).values()}
    if len(chosen) == 1:
        return next(iter(chosen.values()))
    if not chosen:
        raise Misconfigured(f'{where} has no pipeline; write one: words = Pipeline("words")')
    names = ", ".join(f"{where}:{name}" for name in own or found)
    raise Misconfigured(f"{where} has several pipelines; choose one of: {names}")


def _list_pipelines(module: ModuleType) -> str:
    names = ", ".join(_pipelines_of(module))
    return f"its pipelines are: {names}" if names else "it has no pipeline at its top level"


def _pipelines_of(module: ModuleType) -> dict[str, Pipeline]:
    return {name: value for name, value in vars(module).items() if isinstance(value, Pipeline)}
