"""`quire pipeline`: what this configuration finds, what a pipeline does, and what is wrong with one."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quire.cli import exits
from quire.cli.errors import exit_on_error, refuse_unknown_pipelines
from quire.cli.options import Config, Json, print_json
from quire.cli.text import format_table, plural, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quire.assembly.own_pipelines import FoundPipeline
    from quire.model.plan import Plan
    from quire.settings import LoadedSettings

PIPES_WIDTH = 80

References = Annotated[
    list[str] | None,
    typer.Argument(
        help="module:object, file.py or file.py:object; default: all of the settings.",
        metavar="[REFERENCE]...",
        show_default=False,
    ),
]
Wanted = Annotated[
    str,
    typer.Argument(
        help="NAME, NAME@VERSION, module:object or file.py[:object].", metavar="PIPELINE", show_default=False
    ),
]


def list_pipelines(json_output: Json = False, config: Config = None) -> None:
    """List the pipelines that this configuration finds.

    Pipelines come with Quire, from the setting `pipelines`, and from installed packages (entry points of the
    group `quire.pipelines`). A reference that cannot be used is listed with the reason.

    Examples:
      quire pipeline list
      quire pipeline list --config team.toml --json

    Exit codes: 0 listed, 1 could not run, 2 usage.
    """
    with exit_on_error(json_output=json_output):
        lines = _list_lines(_load_settings(config))
    if json_output:
        print_json({"pipelines": [line for line, _ in lines]})
        return
    rows = [
        (line["name"] or "?", line["version"] or "?", line["steps"] or "?", _describe_origin(line, shown))
        for line, shown in lines
    ]
    typer.echo(format_table(("pipeline", "version", "steps", "from"), rows, right={1, 2}))


def show(pipeline: Wanted, json_output: Json = False, config: Config = None) -> None:
    """Draw the phases of a pipeline and what flows between them.

    Phases stand below each other, steps of one phase side by side. Each step says which documents it accepts,
    the values of earlier steps that it takes, and its limits.

    Examples:
      quire pipeline show preprocess
      quire pipeline show words.py
      quire pipeline show book@2 --json

    Exit codes: 0 shown, 1 could not run (the pipeline has faults), 2 usage, or there is no such pipeline.
    """
    from quire.assembly.member_pipelines import choose_pipeline

    with exit_on_error(json_output=json_output):
        settings = _load_settings(config).settings
        with refuse_unknown_pipelines():
            name, pipelines = choose_pipeline(settings, pipeline, to_run=False)
        found = pipelines[name]
    source = pipelines.found[0].source if pipelines.found else None
    if json_output:
        print_json(_describe(found) | {"reference": "built in" if source is None else source.text})
        return
    origin = "built in" if source is None else source.shown
    from quire.cli.pipeline.drawing import draw

    typer.echo(f"{printable(found.name)}, version {found.version} ({printable(origin)})")
    for line in draw(found, min(120, shutil.get_terminal_size((PIPES_WIDTH, 24)).columns)):
        typer.echo(line)


def check(references: References = None, json_output: Json = False, config: Config = None) -> None:
    """Check pipelines without running them.

    Loads each reference and reports everything that is wrong, with file and line. Without a reference, checks
    all of the setting `pipelines`. Pipelines that come with Quire are fine as they are.

    Examples:
      quire pipeline check words.py
      quire pipeline check press.book:book old/book.py
      quire pipeline check --config team.toml

    Exit codes: 0 all of them can be used, 1 at least one cannot, 2 usage.
    """
    from quire.assembly.member_pipelines import BUILT_IN
    from quire.assembly.own_pipelines import find_pipelines, list_sources

    built_in: list[str] = []
    with exit_on_error(json_output=json_output):
        if references:
            built_in = [one for one in references if one in BUILT_IN]
            own = [one for one in references if one not in BUILT_IN]
            sources = list_sources((), own, packages=False)
        else:
            loaded = _load_settings(config)
            where = loaded.sources["pipelines"]
            sources = list_sources(loaded.settings.pipelines, written_in=where, packages=False)
        found = find_pipelines(sources, BUILT_IN)
    if json_output:
        lines = [_describe_built_in(name) for name in built_in] + [_describe_found(one) for one in found]
        print_json({"fine": not _is_faulty(found), "pipelines": lines})
    else:
        for name in built_in:
            typer.echo(f"ok      {name}: comes with Quire")
        if found or not built_in:
            _show_checks(found)
    raise typer.Exit(exits.COULD_NOT_RUN if _is_faulty(found) else exits.DONE)


def _load_settings(config: Path | None) -> "LoadedSettings":
    from quire.settings import load_here

    return load_here(config=config)


def _list_lines(loaded: "LoadedSettings") -> list[tuple[dict[str, Any], str]]:
    """Each pipeline, and its reference as people see it."""
    from quire.assembly.member_pipelines import BUILT_IN, find_recipe_pipeline
    from quire.assembly.own_pipelines import find_pipelines, list_sources, sort_usable
    from quire.assembly.pipelines import build_built_in

    sources = list_sources(loaded.settings.pipelines, written_in=loaded.sources["pipelines"])
    found = find_pipelines(sources, BUILT_IN)
    built_in = {"reference": "", "source": "built in", "default": True, "problem": ""}
    plans = [*build_built_in(loaded.settings), *(one.plan for one in find_recipe_pipeline())]
    lines = [(_describe_line(one) | built_in, "") for one in plans]
    defaults = {one.plan.name: one for one in reversed(sort_usable(found))}
    for one in found:
        is_default = one.loaded is not None and defaults.get(one.plan.name) is one
        lines.append((_describe_found(one) | {"default": is_default}, one.source.shown))
    return lines


def _describe_found(found: "FoundPipeline") -> dict[str, Any]:
    plan = None if found.loaded is None else found.loaded.plan
    overruled = f"overruled by {found.overruled_by}" if found.overruled_by else ""
    return _describe_line(plan) | {
        "reference": found.source.text,
        "source": found.source.written_in,
        "problem": found.problem or overruled,
    }


def _describe_built_in(name: str) -> dict[str, Any]:
    return _describe_line(None) | {"name": name, "reference": name, "source": "built in", "problem": ""}


def _describe_line(pipeline: "Plan | None") -> dict[str, Any]:
    from quire.model.plan import digest_of

    if pipeline is None:
        return {"name": None, "version": None, "phases": None, "steps": None, "digest": None}
    return {
        "name": pipeline.name,
        "version": pipeline.version,
        "phases": len(pipeline.phases),
        "steps": sum(len(phase.steps) for phase in pipeline.phases),
        "digest": digest_of(pipeline),
    }


def _describe_origin(line: dict[str, Any], shown: str) -> str:
    if not line["reference"]:
        return str(line["source"])
    kept = "" if line["default"] or line["problem"] else "; for batches of this version"
    problem = f"; CANNOT BE USED: {line['problem']}" if line["problem"] else kept
    if str(line["problem"]).startswith("overruled"):
        problem = f"; {line['problem']}"
    return f"{shown} ({line['source']}){problem}"


def _describe(pipeline: "Plan") -> dict[str, Any]:
    import msgspec

    from quire.model.plan import encode_plan

    plan = msgspec.json.decode(encode_plan(pipeline))
    return _describe_line(pipeline) | {"phases": plan["phases"]}


def _is_faulty(found: "Sequence[FoundPipeline]") -> bool:
    return any(one.problem for one in found)


def _show_checks(found: "Sequence[FoundPipeline]") -> None:
    if not found:
        typer.echo("No pipelines are set; give a reference, or set `pipelines`.", err=True)
    for one in found:
        reference = printable(one.source.shown)
        if one.problem:
            typer.echo(f"FAILED  {reference}")
            for line in one.problem.splitlines():
                typer.echo(f"        {printable(line)}")
            continue
        known = _describe_line(one.plan)
        counts = f"{plural(known['phases'], 'phase')}, {plural(known['steps'], 'step')}"
        typer.echo(f"ok      {reference}: {one.plan.name} version {one.plan.version}, {counts}")
