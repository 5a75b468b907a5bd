"""`quire batch`: look at batches. The commands that change something are in `batch_act`."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from quire.batches import inspection
from quire.assembly.components import Components
from quire.batches.export import Summary, export_batch
from quire.batches.lines import (
    BatchDetails,
    BatchEvent,
    BatchLine,
    FileHistory,
)
from quire.cli import exits
from quire.cli.batch import control
from quire.cli.batch.files import Form, write_files
from quire.cli.batch.options import (
    Config,
    Home,
    Id,
    Json,
    JsonLines,
    answered,
    print_json,
)
from quire.cli.batch.output import (
    event_line,
    show_list,
    show_standing,
    show_story,
)
from quire.cli.console import Talk
from quire.cli.run.progress import amount
from quire.cli.signals import stop_on_signals
from quire.cli.text import many, shown
from quire.ingest.archive import ArchiveResult, archive_batch
from quire.ledger.port import BatchFilter
from quire.model.batch import Batch, FileOutcome
from quire.settings import Settings

PAGE = 100
FOLLOW_SECONDS = 1.0

batch = typer.Typer(
    name="batch", help="Look at batches, retry what failed, and intervene.", no_args_is_help=True
)


@batch.command("list")
def list_(
    everything: Annotated[bool, typer.Option("--all", help="All batches (the default).")] = False,
    running: Annotated[bool, typer.Option("--running", help="Those that have not ended.")] = False,
    ended: Annotated[bool, typer.Option("--ended", help="Those that have.")] = False,
    status: Annotated[
        str | None, typer.Option("--status", help="Those with this status, such as DONE.", show_default=False)
    ] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="Those of this tenant.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 20,
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """List batches, newest first.

    Examples:
      quire batch list --running

      quire batch list --status ERROR --limit 100 --json

    Exit codes: 0 listed, also when there is none, 1 could not, 2 usage.
    """
    if everything + running + ended > 1:
        raise typer.BadParameter("give one of --all, --running and --ended")
    only_ended = True if ended else (False if running else None)

    async def ask(office: Components, _settings: Settings) -> list[BatchLine]:
        found: list[BatchLine] = []
        wanted = BatchFilter(ended=only_ended, status=status, tenant=tenant, limit=min(limit, PAGE))
        while len(found) < limit and (page := await inspection.list_batches(office, wanted)):
            found += page
            wanted = msgspec.structs.replace(wanted, before=page[-1].no)
        return found[:limit]

    found = answered(ask, home=home, config=config, json_output=json_output)
    if json_output:
        # The place in the list is for paging inside; it says nothing to anybody else.
        lines = [{**msgspec.structs.asdict(one)} for one in found]
        print_json({"batches": [{name: one[name] for name in one if name != "no"} for one in lines]})
    else:
        show_list(found)


@batch.command()
def show(batch_id: Id, json_output: Json = False, home: Home = None, config: Config = None) -> None:
    """Show where a batch stands: its phases, what failed, what it has spent.

    Reads counters, so that it answers at once for a batch of any size.

    Examples:
      quire batch show 01JA…

      quire batch show 01JA… --json | jq .progress

    Exit codes: 0 shown, whatever its state is, 1 could not, 2 usage.
    """

    async def ask(office: Components, _settings: Settings) -> BatchDetails:
        return await inspection.show(office, batch_id)

    standing = answered(ask, home=home, config=config, json_output=json_output)
    if json_output:
        print_json(standing)
    else:
        show_standing(standing)


@batch.command()
def files(
    batch_id: Id,
    state: Annotated[
        FileOutcome | None, typer.Option("--state", help="Those that ended so.", show_default=False)
    ] = None,
    error_class: Annotated[
        str | None, typer.Option("--class", help="Those of this error class.", show_default=False)
    ] = None,
    file: Annotated[
        str | None, typer.Option("--file", help="The whole story of this file.", show_default=False)
    ] = None,
    json_output: JsonLines = False,
    csv: Annotated[bool, typer.Option("--csv", help="CSV for a spreadsheet.")] = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """List the files of a batch with their ends, or tell all that happened to one of them.

    Written as it is read, so that a batch may be of any size.

    Examples:
      quire batch files 01JA… --state failed

      quire batch files 01JA… --state failed --csv > failed.csv

      quire batch files 01JA… --file scans/p1.tif

    Exit codes: 0 listed, 1 could not, 2 usage.
    """
    if csv and json_output:
        raise typer.BadParameter("give one of --json and --csv")
    if file is not None:
        if csv or state is not None or error_class is not None:
            raise typer.BadParameter("--file tells the story of one file; only --json goes with it")
        _tell_story(batch_id, file, home, config, json_output=json_output)
        return
    form = Form.CSV if csv else (Form.JSON if json_output else Form.PEOPLE)

    async def write(office: Components, _settings: Settings) -> None:
        await write_files(inspection.files(office, batch_id, outcome=state, error_class=error_class), form)

    answered(write, home=home, config=config, json_output=json_output)


def _tell_story(
    batch_id: str, path: str, home: Path | None, config: Path | None, *, json_output: bool
) -> None:
    async def ask(office: Components, _settings: Settings) -> FileHistory:
        return await inspection.story(office, batch_id, path)

    story = answered(ask, home=home, config=config, json_output=json_output)
    if json_output:
        print_json(story)
    else:
        show_story(story)


@batch.command()
def events(
    batch_id: Id,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the batch has ended.")] = False,
    json_output: JsonLines = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Tell what happened to a batch, and who did what and why.

    Examples:
      quire batch events 01JA…

      quire batch events 01JA… --follow --json

    Exit codes: 0 told, 1 could not, 2 usage, 130 stopped by Ctrl-C.
    """

    async def tell(office: Components, _settings: Settings) -> None:
        async for event in _events(office, batch_id, follow=follow):
            if json_output:
                print_json(event, indent=None)
            else:
                typer.echo(event_line(event))

    answered(tell, home=home, config=config, json_output=json_output)


def _events(office: Components, batch_id: str, *, follow: bool) -> AsyncIterator[BatchEvent]:
    if follow:
        return inspection.follow(office, batch_id, lambda: asyncio.sleep(FOLLOW_SECONDS))
    return inspection.events(office, batch_id)


@batch.command()
def export(
    batch_id: Id,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where results go.", show_default=False)],
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Lay the results and the report of a batch that has ended out in a folder, as `quire run` does.

    Examples:
      quire batch export 01JA… --out ./results

    Exit codes: 0 every file is done or skipped, 3 laid out, but some files failed or were not finished,
    1 could not, 2 usage, 130 stopped by Ctrl-C.
    """
    talk = Talk(json_output=json_output)

    async def lay_out(office: Components, settings: Settings) -> tuple[Batch, Summary | None]:
        stop = stop_on_signals(talk.say)
        return await export_batch(
            batch_id, out, office, own_folders=[settings.home], progress=lambda _: None, stop=stop
        )

    _, summary = answered(lay_out, home=home, config=config, json_output=json_output)
    if summary is None:
        if json_output:
            print_json({"interrupted": True, "batch_id": batch_id})
        typer.echo("Stopped. The same command again goes on.", err=True)
        raise typer.Exit(exits.INTERRUPTED)
    if json_output:
        typer.echo(summary.report.read_text(encoding="utf-8"), nl=False)
    else:
        _tell_export(summary, out)
    unfinished = sum(summary.counts[name] for name in ("failed", "cancelled", "pending"))
    raise typer.Exit(exits.FINISHED_WITH_FAILURES if unfinished else exits.DONE)


def _tell_export(summary: Summary, out: Path) -> None:
    counts = summary.counts
    ends = ", ".join(f"{counts[end]} {end}" for end in FileOutcome if counts[end])
    results = f"{many(counts['outputs'], 'result')}, {amount(counts['bytes_out'])}"
    typer.echo(f"{many(counts['files'], 'file')}: {ends or 'none'}; {results}")
    typer.echo(f"Results: {shown(out)}")
    typer.echo(f"Report:  {shown(summary.report)}")


@batch.command()
def archive(batch_id: Id, json_output: Json = False, home: Home = None, config: Config = None) -> None:
    """Copy the uploaded originals of a batch that has ended to the archive now, and read them back.

    With archive.enabled the server does so by itself, before it deletes them from staging. Nothing is deleted
    here, and the same command again only looks whether everything is right.

    Examples:
      quire batch archive 01JA…

    Exit codes: 0 archived, 1 could not, 2 usage.
    """

    async def work(office: Components, _settings: Settings) -> ArchiveResult:
        return await archive_batch(office, batch_id)

    made = answered(work, home=home, config=config, json_output=json_output)
    if json_output:
        print_json(made)
    else:
        typer.echo(f"{many(made.files, 'file')} archived, {amount(made.bytes)}.")


for _command in (
    control.retry,
    control.cancel,
    control.pause,
    control.resume,
    control.reset,
    control.priority,
):
    batch.command()(_command)
