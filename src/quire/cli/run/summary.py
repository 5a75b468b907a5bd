"""The last words of a run: what went in, what came out, what failed and why."""

import json

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from quire.batches.folder_run import RunRequest, RunResult
from quire.cli.run.progress import amount
from quire.cli.text import many, shown
from quire.model.batch import Batch

SHOWN_FAILURES = 20


def show_summary(ended: RunResult, request: RunRequest) -> None:
    summary = ended.summary
    if summary is None:
        return
    console = Console(highlight=False, soft_wrap=True)
    counts = summary.counts
    pace = counts["files"] / ended.seconds if ended.seconds > 0 else 0.0
    speed = f"{pace:.1f} files/s, {amount(int(counts['bytes_in'] / max(ended.seconds, 1e-9)))}/s in"
    console.print()
    if ended.batch is not None and ended.batch.error:
        console.print(Text(f"The batch could not go on: {shown(ended.batch.error)}", style="red"))
    if not counts["files"]:
        console.print(Text("Nothing to do: no files were found in " + ", ".join(map(shown, request.roots))))
    console.print(
        Text(f"{many(counts['files'], 'file')} in: ")
        + Text(f"{counts['done']} done", style="green")
        + Text(", ")
        + Text(f"{counts['failed']} failed", style="red" if counts["failed"] else "")
        + Text(f", {counts['skipped']} skipped")
        + Text(f", {counts['cancelled']} cancelled" if counts["cancelled"] else "")
        + Text("; ")
        + Text(f"{many(counts['outputs'], 'result')}, {amount(counts['bytes_out'])}")
    )
    cached = (
        f"; {counts['from_cache']} of {counts['tasks']} tasks from the cache" if counts["from_cache"] else ""
    )
    console.print(Text(f"{ended.seconds:.1f} s, {speed}{cached}"))
    if summary.failures:
        console.print(_failures(summary.failures, counts["failed"]))
    console.print(Text(f"Results: {shown(request.out)}"))
    console.print(Text(f"Report:  {shown(summary.report)}"))
    console.print(Text(f"Look:    {shown(summary.page)}"))


def _failures(failures: list[tuple[str, str, str]], total: int) -> Table:
    table = Table(
        title="Failed", title_justify="left", title_style="bold red", box=None, padding=(0, 2, 0, 0)
    )
    table.add_column("file", overflow="fold", ratio=2)
    table.add_column("class", no_wrap=True)
    table.add_column("reason", overflow="fold", ratio=3)
    for path, error_class, reason in failures[:SHOWN_FAILURES]:
        table.add_row(Text(shown(path)), Text(shown(error_class)), Text(shown(reason)))
    if total > SHOWN_FAILURES:
        table.add_row(Text(f"… and {total - SHOWN_FAILURES} more in the report"), Text(""), Text(""))
    return table


def show_held(batch: Batch, *, json_output: bool) -> None:
    """It stands where it is until a person says otherwise."""
    if json_output:
        words = {"batch_id": batch.id, "held": batch.hold, "reason": batch.hold_reason}
        typer.echo(json.dumps(words))
    typer.echo(
        f"Held: {shown(batch.hold_reason or batch.hold)}. To go on: quire batch resume {batch.id}, "
        "with a larger budget if that was the reason, then the same command again.",
        err=True,
    )


def show_interruption(ended: RunResult, *, json_output: bool) -> None:
    batch_id = ended.batch.id if ended.batch is not None else None
    if json_output:
        typer.echo(json.dumps({"interrupted": True, "batch_id": batch_id}))
    typer.echo("Stopped. Run the same command again to go on where it stopped.", err=True)
