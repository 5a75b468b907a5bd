"""Batches, files and events as lines. Without rich: it takes longer to load than most lists take to read."""

from collections.abc import Iterator, Sequence

import typer

from quire.batches.lines import BatchEvent, BatchLine, FileLine
from quire.cli.text import format_table, printable


def show_list(batches: Sequence[BatchLine]) -> None:
    if not batches:
        typer.echo("No batches.")
        return
    rows = [(one.batch_id, _minute(one.created_at), one.total_files, one.summary) for one in batches]
    typer.echo(format_table(("batch", "opened (UTC)", "files", "state"), rows, right={2}))


def file_lines(file: FileLine) -> Iterator[str]:
    """Lines, not a table: the widths of a table are known only at its end."""
    yield f"{file.status.value:<9} {printable(file.error_class or ''):<18} {printable(file.path)}"
    failed = [f"{one.step}: {one.reason}" for one in file.steps if one.failed]
    # One failure is the reason of the file itself; several stand below each other.
    for reason in failed if len(failed) > 1 else [file.reason or ""]:
        if reason:
            yield f"{'':<28} {printable(reason)}"


def event_line(event: BatchEvent) -> str:
    data = " ".join(f"{name}={value}" for name, value in event.data.items())
    return f"{event.at}  {printable(event.kind)}  {printable(data)}".rstrip()


def _minute(timestamp: str) -> str:
    return timestamp[:16].replace("T", " ")
