"""The summary of a run: what went in, what came out, what failed and why."""

import json

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from quire.batches.batch_run import RunResult
from quire.batches.folder_run import RunRequest
from quire.cli.text import format_bytes, plural, printable
from quire.model.batch import Batch

SHOWN_FAILURES = 20


def show_summary(result: RunResult, request: RunRequest) -> None:
    summary = result.summary
    if summary is None:
        return
    console = Console(highlight=False, soft_wrap=True)
    counts = summary.counts
    pace = counts["files"] / result.seconds if result.seconds > 0 else 0.0
    speed = f"{pace:.1f} files/s, {format_bytes(int(counts['bytes_in'] / max(result.seconds, 1e-9)))}/s in"
    console.print()
    if result.batch is not None and result.batch.error:
        console.print(Text(f"The batch could not continue: {printable(result.batch.error)}", style="red"))
    if not counts["files"]:
        console.print(
            Text("Nothing to do: no files were found in " + ", ".join(map(printable, request.roots)))
        )
    console.print(
        Text(f"{plural(counts['files'], 'file')} in: ")
        + Text(f"{counts['done']} done", style="green")
        + Text(", ")
        + Text(f"{counts['failed']} failed", style="red" if counts["failed"] else "")
        + Text(f", {counts['skipped']} skipped")
        + Text(f", {counts['cancelled']} cancelled" if counts["cancelled"] else "")
        + Text(f", {counts['doubtful']} doubtful" if counts["doubtful"] else "", style="yellow")
        + Text("; ")
        + Text(f"{plural(counts['outputs'], 'result')}, {format_bytes(counts['bytes_out'])}")
    )
    cached = (
        f"; {counts['from_cache']} of {counts['tasks']} tasks from the cache" if counts["from_cache"] else ""
    )
    console.print(Text(f"{result.seconds:.1f} s, {speed}{cached}"))
    if summary.failures:
        console.print(_failures(summary.failures, counts["failed"]))
    console.print(Text(f"Results: {printable(request.out)}"))
    console.print(Text(f"Report:  {printable(summary.report)}"))
    console.print(Text(f"Page:    {printable(summary.page)}"))


def _failures(failures: list[tuple[str, str, str]], total: int) -> Table:
    table = Table(
        title="Failed", title_justify="left", title_style="bold red", box=None, padding=(0, 2, 0, 0)
    )
    table.add_column("file", overflow="fold", ratio=2)
    table.add_column("class", no_wrap=True)
    table.add_column("reason", overflow="fold", ratio=3)
    for path, error_class, reason in failures[:SHOWN_FAILURES]:
        table.add_row(Text(printable(path)), Text(printable(error_class)), Text(printable(reason)))
    if total > SHOWN_FAILURES:
        table.add_row(Text(f"… and {total - SHOWN_FAILURES} more in the report"), Text(""), Text(""))
    return table


def show_held(batch: Batch, *, json_output: bool) -> None:
    """The batch waits until a person resumes it."""
    if json_output:
        document = {"batch_id": batch.id, "held": batch.hold, "reason": batch.hold_reason}
        typer.echo(json.dumps(document))
    typer.echo(
        f"Held: {printable(batch.hold_reason or batch.hold)}. To continue: quire batch resume {batch.id}, "
        "with a larger budget if that was the reason, then run the same command again.",
        err=True,
    )


def show_interruption(result: RunResult, *, json_output: bool) -> None:
    batch_id = result.batch.id if result.batch is not None else None
    if json_output:
        typer.echo(json.dumps({"interrupted": True, "batch_id": batch_id}))
    typer.echo("Stopped. Run the same command again to pick up where it left off.", err=True)
