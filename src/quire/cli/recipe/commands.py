"""`quire recipe import`: the recipe on photos or on a web page, printed."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from quire.cli import exits
from quire.cli.console import Reporter
from quire.cli.errors import exit_on_error
from quire.cli.options import Config, Home, Json, print_json
from quire.cli.signals import stop_on_signals
from quire.cli.text import printable

if TYPE_CHECKING:
    from quire.assembly.recipe_import import WantedRecipe
    from quire.recipes.port import RecipeJob
    from quire.settings import Settings

Format = Literal["text", "json", "jsonld"]
_STAGES = {
    "READING_FILES": "Preparing the photos …",
    "OCR_PENDING": "Reading the photos …",
    "PARSING": "Finding the recipe …",
}


def import_recipe(
    sources: Annotated[
        list[str],
        typer.Argument(
            help="Photos of one recipe, in order, or the address of a page.", metavar="PHOTO...|URL"
        ),
    ],
    output: Annotated[
        Format, typer.Option("--format", help="How to print it: text, json or jsonld (schema.org).")
    ] = "text",
    title: Annotated[
        str, typer.Option("--title", help="The title, if it is known.", show_default=False)
    ] = "",
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Import the recipe on photos or on a web page, and print it.

    Up to eight photos are read as the pages of one recipe. Everything happens on this machine; only the
    page is fetched. Pages on private addresses are refused unless the setting recipes.allow_private
    permits them. With --json the whole outcome is printed: the draft, how it was found, and warnings.

    Examples:
      quire recipe import card.jpg
      quire recipe import front.jpg back.jpg --format jsonld > pancakes.json
      quire recipe import https://example.org/pancakes --format json

    Exit codes: 0 printed, 3 no recipe could be read, 1 could not run, 2 usage, 130 stopped by Ctrl-C.
    """
    from quire.settings import load_here

    wanted = _read_sources(sources, title)
    overrides = {} if home is None else {"home": str(home)}
    with exit_on_error(json_output=json_output):
        settings = load_here(config=config, overrides=overrides).settings
        job = asyncio.run(_import(wanted, settings, Reporter(json_output=json_output)))
        if job is None:
            typer.echo("quire: stopped; nothing was imported", err=True)
            raise typer.Exit(exits.INTERRUPTED)
        raise typer.Exit(_show(job, output, json_output=json_output))


async def _import(wanted: "WantedRecipe", settings: "Settings", reporter: Reporter) -> "RecipeJob | None":
    from quire.assembly.recipe_import import import_recipe

    stop = stop_on_signals(reporter.say)
    return await import_recipe(
        settings,
        wanted,
        stop,
        observe=lambda stage: reporter.say(_STAGES[stage]) if stage in _STAGES else None,
        trouble=reporter.report_outage,
    )


def _read_sources(sources: list[str], title: str) -> "WantedRecipe":
    """Ends the command for what is neither photos nor one address."""
    from quire.assembly.recipe_import import WantedRecipe
    from quire.model.envelopes import MAX_IMAGES
    from quire.recipes.photos import MAX_PHOTO_BYTES

    urls = [one for one in sources if one.lower().startswith(("http://", "https://"))]
    if urls:
        if len(sources) > 1:
            raise typer.BadParameter("give one address, or photos, not both or several")
        return WantedRecipe(url=urls[0])
    if len(sources) > MAX_IMAGES:
        raise typer.BadParameter(f"at most {MAX_IMAGES} photos belong to one recipe, not {len(sources)}")
    paths = [Path(one) for one in sources]
    if missing := [one for one, path in zip(sources, paths, strict=True) if not path.is_file()]:
        raise typer.BadParameter(
            f"no such photo: {', '.join(map(printable, missing))} (addresses begin with https:// or http://)"
        )
    if large := [str(path) for path in paths if path.stat().st_size > MAX_PHOTO_BYTES]:
        raise typer.BadParameter(
            f"larger than {MAX_PHOTO_BYTES >> 20} MiB: {', '.join(map(printable, large))}"
        )
    return WantedRecipe(photos=paths, filename=paths[0].name, title_hint=title)


def _show(job: "RecipeJob", output: Format, *, json_output: bool) -> int:
    """Returns the exit code."""
    from quire.recipes.lines import to_view

    if json_output:
        print_json(to_view(job))
        return exits.DONE if job.error_code is None else exits.FINISHED_WITH_FAILURES
    warnings = ((job.result or {}).get("pipeline") or {}).get("warnings") or []
    for warning in warnings:
        typer.echo(f"Warning: {printable(str(warning))}", err=True)
    if job.error_code is not None:
        typer.echo(f"quire: no recipe: {printable(job.error_message or '')} ({job.error_code})", err=True)
        return exits.FINISHED_WITH_FAILURES
    typer.echo(_write(job, output), nl=False)
    return exits.DONE


def _write(job: "RecipeJob", output: Format) -> str:
    import msgspec

    from quire.model.recipe import RecipeDraft
    from quire.steps.recipe.output import write_json, write_json_ld, write_text

    draft = msgspec.convert((job.result or {})["recipe_draft"], RecipeDraft)
    if output == "text":
        lines = write_text(draft).splitlines()
        return "\n".join(printable(line) for line in lines) + "\n"
    written = write_json(draft) if output == "json" else write_json_ld(draft)
    return written.rstrip("\n") + "\n"
