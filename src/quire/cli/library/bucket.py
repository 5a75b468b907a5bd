"""Commands about the bucket itself: manifest, repair-metadata, config, test-s3."""

from typing import Annotated, Any

import typer

from quire.assembly.library import apply_shared_rules, describe_location
from quire.cli import exits
from quire.cli.library.options import (
    CommonOptions,
    DryRun,
    Verbose,
    default_bucket,
    library_command,
    use_library,
)
from quire.cli.options import print_json
from quire.cli.text import plural, printable, probe_line
from quire.library import listing, metadata, shared_config, store_probe
from quire.library.context import LibraryContext, LibraryRules
from quire.library.manifest import store
from quire.library.manifest.repair import rebuild_manifest, repair_manifest
from quire.library.shared_config import SharedConfig
from quire.model.probe import Probe
from quire.settings import LoadedSettings


@library_command()
def manifest(
    common: CommonOptions,
    verbose: Verbose = False,
    repair: Annotated[bool, typer.Option("--repair", help="Make the index readable and complete.")] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Add entries for stored PDFs that have none.")
    ] = False,
    sync: Annotated[
        bool, typer.Option("--sync", help="Write all additions into registry/manifest.json.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="With --rebuild: include all stored PDFs.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Show or repair the index of the library.

    Examples:
      quire library manifest -v
      quire library manifest --rebuild --dry-run

    Exit codes: 0 fine or repaired, 1 parts cannot be read, or could not run, 2 usage.
    """
    if repair + rebuild + sync > 1:
        raise typer.BadParameter("use only one of --repair, --rebuild and --sync")

    async def work(context: LibraryContext, _loaded: LoadedSettings) -> tuple[Any, Any]:
        index = store.LibraryManifest(context)
        done: Any = None
        if repair:
            done = await repair_manifest(index, dry_run=dry_run)
        elif rebuild:
            done = await rebuild_manifest(index, force=force, dry_run=dry_run)
        elif sync and not dry_run:
            done = await index.compact()
        return done, await index.read()

    done, view = use_library(work, common, probe=(repair or rebuild or sync) and not dry_run)
    _show_manifest(done, view, verbose=verbose, dry_run=dry_run, json_output=common.json_output)
    raise typer.Exit(exits.COULD_NOT_RUN if view.problems else exits.DONE)


def _show_manifest(done: Any, view: Any, *, verbose: bool, dry_run: bool, json_output: bool) -> None:
    if json_output:
        document = {"entries": len(view), "waiting_segments": view.segments, "problems": view.problems}
        print_json({**document, "did": done, "dry_run": dry_run})
        return
    if done is not None:
        for name in done.__struct_fields__:
            value = getattr(done, name)
            if value not in {"", 0}:
                typer.echo(f"{name}: {printable(value)}")
        if dry_run:
            typer.echo("Dry run: nothing was changed.")
    typer.echo(f"{plural(len(view), 'document')} in the manifest, {view.segments} additions not merged yet.")
    for problem in view.problems:
        typer.echo(f"Warning: {printable(problem)}", err=True)
    if verbose:
        for hit in view.hits():
            first = hit.entry.paths[0] if hit.entry.paths else "(no path)"
            typer.echo(f"{hit.hash}  {printable(first)}")


@library_command()
def repair_metadata(
    common: CommonOptions,
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Hashes; default: all stored PDFs.", metavar="[HASH…]", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Also rewrite PDFs that have a name.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Restore lost names and tags of stored PDFs.

    Names and tags come from the manifest. Copying a bucket often loses metadata. Each affected PDF is read
    and written once.

    Examples:
      quire library repair-metadata --dry-run

    Exit codes: 0 done, 1 stored bytes do not match their hash, or could not run, 2 usage.
    """

    async def work(context: LibraryContext, _loaded: LoadedSettings) -> Any:
        view = await store.LibraryManifest(context).read()
        jobs = [await listing.resolve_hash(context, name) for name in names or ()]
        return await metadata.repair_metadata(context, view, jobs, force=force, dry_run=dry_run)

    result = use_library(work, common, probe=not dry_run)
    if common.json_output:
        print_json({"labelled": result, "dry_run": dry_run})
    else:
        kept = result.looked_at - result.written - result.unknown - len(result.damaged)
        done = "would be written" if dry_run else "written"
        typer.echo(f"{result.written} {done}, {kept} kept, {result.unknown} not in the manifest either.")
        for job in result.damaged:
            typer.echo(
                f"{job}: its bytes do not match the hash; `remove` it and `ingest` the file again", err=True
            )
    raise typer.Exit(exits.COULD_NOT_RUN if result.damaged else exits.DONE)


@library_command()
def show_config(
    common: CommonOptions,
    show: Annotated[bool, typer.Option("--show", help="Show the settings (the default).")] = False,
    pairs: Annotated[
        list[str] | None, typer.Option("--set", help="Set a value; may be repeated.", metavar="KEY=VALUE")
    ] = None,
    more: Annotated[
        list[str] | None,
        typer.Argument(help="More values to set, after --set.", metavar="[KEY=VALUE…]", show_default=False),
    ] = None,
) -> None:
    """Show or change the settings shared by all workers of the bucket.

    They are stored in `registry/config.json`. The settings of a machine override them.

    Examples:
      quire library config --show
      quire library config --set max_retries=5 --set conversion_timeout=86400

    Exit codes: 0 shown or set, 1 invalid value for the key, or could not run, 2 usage.
    """
    del show
    if more and not pairs:
        raise typer.BadParameter("use --set before KEY=VALUE")
    words: dict[str, str] = {}
    for pair in [*(pairs or []), *(more or [])]:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"{pair[:80]!r} is not KEY=VALUE")
        words[name.strip()] = value

    async def work(context: LibraryContext, loaded: LoadedSettings) -> tuple[SharedConfig, LibraryRules]:
        if words:
            await shared_config.change_config(context, words)
        said = await shared_config.read_config(context)
        return said, (await apply_shared_rules(context, loaded)).rules

    said, rules = use_library(work, common)
    if common.json_output:
        print_json({"shared": said.said, "problems": said.problems, "in_force": rules})
        return
    for name, kind in shared_config.SHARED_KEYS.items():
        there = said.values.get(name)
        value = "not set" if there is None else str(there).lower()
        in_force = getattr(rules, kind.rule) / kind.scale if kind.rule else ""
        typer.echo(f"{name}: {value}" + (f" (in force here: {in_force:g})" if in_force != "" else ""))
    for problem in said.problems:
        typer.echo(f"Warning: {printable(problem)}.", err=True)


@library_command()
def check_store(common: CommonOptions) -> None:
    """Check that the store supports everything the library needs.

    Tries put, get, list, delete, metadata, conditions, races, large objects and the clock. Everything is
    written under a separate prefix and removed afterwards.

    Examples:
      quire library test-s3

    Exit codes: 0 the basics work, 1 they do not, or the store cannot be reached, 2 usage.
    """

    def print_result(probe: Probe) -> None:
        if not common.json_output:
            typer.echo(probe_line(probe))

    async def work(context: LibraryContext, loaded: LoadedSettings) -> tuple[list[Probe], str]:
        return await store_probe.probe_store(context, print_result), describe_location(
            loaded, default_bucket()
        )

    result, place = use_library(work, common)
    works = all(tried.ok for tried in result if tried.needed)
    conditional = works and all(tried.ok for tried in result if tried.advice == store_probe.UNSAFE)
    if common.json_output:
        abilities = [_describe_ability(tried) for tried in result]
        print_json(
            {"place": place, "works": works, "conditional_writes": conditional, "abilities": abilities}
        )
    else:
        _print_verdict(result, place, works=works, conditional=conditional)
    raise typer.Exit(exits.DONE if works else exits.COULD_NOT_RUN)


def _describe_ability(probe: Probe) -> dict[str, object]:
    shown = {"ability": probe.name, "ok": probe.ok, "needed": probe.needed, "detail": probe.detail}
    return {**shown, "lacking": probe.advice}


def _print_verdict(result: list[Probe], place: str, *, works: bool, conditional: bool) -> None:
    for tried in result:
        if not tried.ok:
            typer.echo(f"Without “{tried.name}”: {tried.advice}.")
    if not works:
        typer.echo(
            f"{printable(place)} cannot be used. Check its address, the access key and the bucket policy."
        )
    elif conditional:
        typer.echo(
            f"{printable(place)} supports everything the library needs. For published tools: "
            "config --set s3_supports_conditional_writes=true"
        )
    else:
        typer.echo(f"{printable(place)} can be read, but not used by workers, janitor or ingest.")
