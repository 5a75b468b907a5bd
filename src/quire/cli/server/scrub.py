"""`quire scrub`: the check of the whole store that `quire serve` does at intervals, as a command.

Promise: whatever ends it, the next one continues at its position. Must not know: how blobs are checked.
"""

import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quire.cli import exits
from quire.cli.components import use_components
from quire.cli.options import Config, Home, Json, print_json
from quire.cli.signals import stop_on_signals
from quire.cli.text import format_bytes, plural, printable

if TYPE_CHECKING:
    from quire.assembly.components import Components
    from quire.assembly.scrub import ScrubResult
    from quire.blobs.scrub_record import DamagedEntry, ScrubRecord
    from quire.settings import Settings

_MEANING = {
    "restored": "restored from a right copy",
    "waiting": "set aside; stored again when the right bytes come",
    "left": "left as it is, and refused when it is read",
}


def scrub(
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate",
            min=0,
            help="Megabytes per second; 0: no limit. Default: scrub.megabytes_per_second.",
            show_default=False,
        ),
    ] = None,
    originals: Annotated[
        list[Path] | None,
        typer.Option(
            "--originals",
            exists=True,
            file_okay=False,
            help="Also look for right copies in this folder; may be repeated.",
            metavar="FOLDER",
            show_default=False,
        ),
    ] = None,
    read_all: Annotated[
        bool, typer.Option("--read-all", help="Read also objects whose stored checksum could be compared.")
    ] = False,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Begin anew instead of continuing.")
    ] = False,
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Read the whole store and repair damaged blobs.

    Compares every stored blob with its digest. A damaged one is set aside, and restored if the same bytes are
    found elsewhere: in an upload, in an archive copy, or in a folder given by --originals. Otherwise an
    input is stored anew when its file comes again, and a result is made anew when it is asked for again.
    After Ctrl-C or a crash the next scrub continues where this one was. `quire serve` does the same every
    scrub.every_days. `quire doctor` shows when the last one finished and what it found.

    Examples:
      quire scrub
      quire scrub --rate 0 --originals scans
      quire scrub --json

    Exit codes: 0 everything is right or restored, 1 could not run, 2 usage, 3 some blobs are damaged and not
    restored, 130 stopped by Ctrl-C: run it again to continue.
    """

    async def work(components: "Components", settings: "Settings") -> "ScrubResult":
        from quire.assembly.scrub import ScrubRequest, scrub_store

        request = ScrubRequest(
            megabytes_per_second=settings.scrub.megabytes_per_second if rate is None else rate,
            reads_all=read_all,
            from_start=from_start,
            originals=tuple(originals or ()),
        )
        stop = stop_on_signals(lambda _: typer.echo("Stopping: saving the position …", err=True))
        return await scrub_store(settings, components, request, stop, progress=_Progress())

    result = use_components(work, home=home, config=config, json_output=json_output)
    if json_output:
        print_json(result)
    else:
        _print_result(result)
    if not result.finished:
        raise typer.Exit(exits.INTERRUPTED)
    if result.counts.damaged > result.counts.restored:
        raise typer.Exit(exits.FINISHED_WITH_FAILURES)


class _Progress:
    """Says on stderr that it begins, and on a terminal how far it is."""

    def __init__(self) -> None:
        self._has_begun = False

    def __call__(self, record: "ScrubRecord") -> None:
        counts = record.counts
        seen = f"{plural(counts.blobs, 'blob')}, {format_bytes(counts.bytes)}, {counts.damaged} damaged"
        if not self._has_begun:
            typer.echo(f"Continuing after {seen}" if record.position else "Reading the store …", err=True)
        elif sys.stderr.isatty():
            typer.echo(f"{seen}; at {printable(record.position or '')[:20]}", err=True)
        self._has_begun = True


def _print_result(result: "ScrubResult") -> None:
    counts = result.counts
    _print_entries(result.damaged, counts.damaged)
    checked = f"{plural(counts.blobs, 'blob')} checked, {format_bytes(counts.bytes)}"
    by_checksum = f", {counts.by_checksum} by the checksum that the store keeps" if counts.by_checksum else ""
    without = f"; {counts.unchecked} have no digest to compare" if counts.unchecked else ""
    typer.echo(f"{checked}{by_checksum}{without}.")
    typer.echo(f"{counts.damaged} damaged, {counts.restored} of them restored.")
    if not result.finished:
        typer.echo("Stopped before the end; run quire scrub again to continue.")
    elif counts.damaged > counts.restored:
        typer.echo(
            "Run the folders again, or send the files again; look after the disk of the store. Damaged "
            "copies are kept in its folder 'damaged'."
        )


def _print_entries(entries: "Collection[DamagedEntry]", count: int) -> None:
    for entry in entries:
        used = f" ({printable(entry.used_by[0])})" if entry.used_by else ""
        kind = "input" if entry.is_input else "result or value"
        typer.echo(f"{entry.state:<9} {printable(entry.key)}{used}: {kind}, {_MEANING[entry.state]}")
    if count > len(entries):
        typer.echo(f"… and {count - len(entries)} more")
