"""`quire batch`: commands that inspect batches. Those that change a batch are in `control`."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quire.cli import exits
from quire.cli.components import use_components
from quire.cli.console import Reporter
from quire.cli.options import BatchId, Config, Home, Json, JsonLines, print_json
from quire.cli.signals import stop_on_signals
from quire.cli.text import format_bytes, plural, printable
from quire.model.batch import BatchState, FileOutcome
from quire.model.errors import Reject

if TYPE_CHECKING:
    from quire.assembly.components import Components
    from quire.batches.export import Summary
    from quire.batches.lines import BatchEvent, BatchLine
    from quire.model.batch import Batch
    from quire.settings import Settings

PAGE = 100
FOLLOW_SECONDS = 1.0


def list_batches(
    everything: Annotated[bool, typer.Option("--all", help="List all batches (the default).")] = False,
    running: Annotated[
        bool, typer.Option("--running", help="List only batches that have not ended.")
    ] = False,
    ended: Annotated[bool, typer.Option("--ended", help="List only batches that have ended.")] = False,
    state: Annotated[
        BatchState | None,
        typer.Option("--state", help="List only batches in this state.", show_default=False),
    ] = None,
    phase: Annotated[
        str | None,
        typer.Option("--phase", help="List only batches at work in this phase.", show_default=False),
    ] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="List only batches of this tenant.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Maximum number of batches.")] = 20,
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """List batches, newest first.

    Examples:
      quire batch list --running
      quire batch list --state error --limit 100 --json
      quire batch list --phase IMAGE_PROCESSING

    Exit codes: 0 listed, even if there are none, 1 could not run, 2 usage.
    """
    if everything + running + ended > 1:
        raise typer.BadParameter("use only one of --all, --running and --ended")
    import msgspec

    from quire.batches import inspection
    from quire.cli.batch.lines import show_list
    from quire.ledger.port import BatchFilter

    only_ended = True if ended else (False if running else None)

    async def find(components: "Components", _settings: "Settings") -> "list[BatchLine]":
        found: list[BatchLine] = []
        wanted = BatchFilter(
            ended=only_ended, state=state, phase=phase, tenant=tenant, limit=min(limit, PAGE)
        )
        try:
            while len(found) < limit and (page := await inspection.list_batches(components, wanted)):
                found += page
                wanted = msgspec.structs.replace(wanted, before=page[-1].no)
        except Reject as error:
            raise typer.BadParameter(str(error)) from error
        return found[:limit]

    found = use_components(find, home=home, config=config, json_output=json_output)
    if json_output:
        # `no` is for paging; it means nothing outside.
        lines = [{**msgspec.structs.asdict(one)} for one in found]
        print_json({"batches": [{name: one[name] for name in one if name != "no"} for one in lines]})
    else:
        show_list(found)


def show(batch_id: BatchId, json_output: Json = False, home: Home = None, config: Config = None) -> None:
    """Show the progress, failures and cost of a batch.

    Reads counters, so it is fast for a batch of any size.

    Examples:
      quire batch show 01JA…
      quire batch show 01JA… --json | jq .progress

    Exit codes: 0 shown, whatever the state of the batch, 1 could not run, 2 usage.
    """
    from quire.batches import inspection
    from quire.cli.batch.output import show_details

    details = use_components(
        lambda components, _: inspection.show(components, batch_id),
        home=home,
        config=config,
        json_output=json_output,
    )
    if json_output:
        print_json(details)
    else:
        show_details(details)


def files(
    batch_id: BatchId,
    state: Annotated[
        FileOutcome | None,
        typer.Option("--state", help="List only files that ended this way.", show_default=False),
    ] = None,
    error_class: Annotated[
        str | None, typer.Option("--class", help="List only files with this error class.", show_default=False)
    ] = None,
    file: Annotated[
        str | None, typer.Option("--file", help="Show the history of this file.", show_default=False)
    ] = None,
    json_output: JsonLines = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV for a spreadsheet.")] = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """List the files of a batch, or show the history of one file.

    Lines are printed as they are read, so a batch may be of any size.

    Examples:
      quire batch files 01JA… --state failed
      quire batch files 01JA… --state failed --csv > failed.csv
      quire batch files 01JA… --file scans/p1.tif

    Exit codes: 0 listed, 1 could not run, 2 usage.
    """
    if csv and json_output:
        raise typer.BadParameter("use only one of --json and --csv")
    if file is not None:
        if csv or state is not None or error_class is not None:
            raise typer.BadParameter("--file shows the history of one file; combine it only with --json")
        _show_history(batch_id, file, home, config, json_output=json_output)
        return
    from quire.batches import inspection
    from quire.cli.batch.files import FileFormat, write_files

    form = FileFormat.CSV if csv else (FileFormat.JSON if json_output else FileFormat.PEOPLE)

    async def write(components: "Components", _settings: "Settings") -> None:
        found = inspection.list_files(components, batch_id, outcome=state, error_class=error_class)
        await write_files(found, form)

    use_components(write, home=home, config=config, json_output=json_output)


def _show_history(
    batch_id: str, path: str, home: Path | None, config: Path | None, *, json_output: bool
) -> None:
    from quire.batches import inspection
    from quire.cli.batch.output import show_history

    history = use_components(
        lambda components, _: inspection.get_file_history(components, batch_id, path),
        home=home,
        config=config,
        json_output=json_output,
    )
    if json_output:
        print_json(history)
    else:
        show_history(history)


def events(
    batch_id: BatchId,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for events until the batch ends.")
    ] = False,
    json_output: JsonLines = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Show what happened to a batch, who did it and why.

    Examples:
      quire batch events 01JA…
      quire batch events 01JA… --follow --json

    Exit codes: 0 shown, 1 could not run, 2 usage, 130 stopped by Ctrl-C.
    """
    from quire.cli.batch.lines import event_line

    async def write(components: "Components", _settings: "Settings") -> None:
        async for event in _read_events(components, batch_id, follow=follow):
            if json_output:
                print_json(event, indent=None)
            else:
                typer.echo(event_line(event))

    use_components(write, home=home, config=config, json_output=json_output)


def _read_events(components: "Components", batch_id: str, *, follow: bool) -> "AsyncIterator[BatchEvent]":
    from quire.batches import inspection

    if follow:
        return inspection.follow_events(components, batch_id, lambda: asyncio.sleep(FOLLOW_SECONDS))
    return inspection.list_events(components, batch_id)


def export(
    batch_id: BatchId,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.", show_default=False)],
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Write the results of a finished batch to a folder.

    The folder holds the results and the report, as after `quire run`.

    Examples:
      quire batch export 01JA… --out ./results

    Exit codes: 0 every file is done or skipped, 3 exported, but some files failed or were not finished,
    1 could not run, 2 usage, 130 stopped by Ctrl-C.
    """
    from quire.batches.export import export_batch

    reporter = Reporter(json_output=json_output)

    async def write(components: "Components", settings: "Settings") -> "tuple[Batch, Summary | None]":
        stop = stop_on_signals(reporter.say)
        return await export_batch(
            batch_id, out, components, own_folders=[settings.home], progress=lambda _: None, stop=stop
        )

    _, summary = use_components(write, home=home, config=config, json_output=json_output)
    if summary is None:
        if json_output:
            print_json({"interrupted": True, "batch_id": batch_id})
        typer.echo("Stopped. Run the same command again to continue.", err=True)
        raise typer.Exit(exits.INTERRUPTED)
    if json_output:
        typer.echo(summary.report.read_text(encoding="utf-8"), nl=False)
    else:
        _show_export(summary, out)
    unfinished = sum(summary.counts[name] for name in ("failed", "cancelled", "pending"))
    raise typer.Exit(exits.FINISHED_WITH_FAILURES if unfinished else exits.DONE)


def _show_export(summary: "Summary", out: Path) -> None:
    counts = summary.counts
    ends = ", ".join(f"{counts[end]} {end}" for end in FileOutcome if counts[end])
    ends += f" ({counts['doubtful']} doubtful)" if counts["doubtful"] else ""
    results = f"{plural(counts['outputs'], 'result')}, {format_bytes(counts['bytes_out'])}"
    typer.echo(f"{plural(counts['files'], 'file')}: {ends or 'none'}; {results}")
    typer.echo(f"Results: {printable(out)}")
    typer.echo(f"Report:  {printable(summary.report)}")


def archive(batch_id: BatchId, json_output: Json = False, home: Home = None, config: Config = None) -> None:
    """Copy the originals of a finished batch to the archive.

    Every copy is read back and compared. Nothing is deleted, and running the command again only verifies the
    archive. With archive.enabled the server archives originals before it deletes them from staging.

    Examples:
      quire batch archive 01JA…

    Exit codes: 0 archived, 1 could not run, 2 usage.
    """
    from quire.ingest.archive import archive_batch

    result = use_components(
        lambda components, _: archive_batch(components, batch_id),
        home=home,
        config=config,
        json_output=json_output,
    )
    if json_output:
        print_json(result)
    else:
        typer.echo(f"{plural(result.files, 'file')} archived, {format_bytes(result.bytes)}.")
