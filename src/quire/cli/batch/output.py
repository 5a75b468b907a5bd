"""How batches, their events and the story of a file look to people. Everything fits into 80 columns."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from quire.batches.lines import (
    BatchDetails,
    BatchEvent,
    BatchLine,
    FileHistory,
    FileLine,
)
from quire.cli.run.progress import amount
from quire.cli.text import shown

SHOWN_FAILED = 10


def show_list(batches: Sequence[BatchLine]) -> None:
    console = _console()
    if not batches:
        console.print("No batches.")
        return
    table = _table("batch", "opened (UTC)", "files", "state")
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    table.columns[2].justify = "right"
    for one in batches:
        cells = (one.batch_id, _moment(one.created_at), one.total_files, one.state)
        table.add_row(*(Text(shown(cell)) for cell in cells))
    console.print(table)


def show_standing(standing: BatchDetails) -> None:
    console = _console()
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), title_justify="left")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _facts(standing):
        table.add_row(Text(name), Text(shown(value)))
    console.print(table)
    if standing.phases:
        console.print()
        console.print(_phases(standing))
    if standing.failures:
        console.print()
        console.print(_failures(standing))


def _facts(standing: BatchDetails) -> Iterator[tuple[str, str]]:
    yield "batch", standing.batch_id
    yield "state", standing.state
    yield "pipeline", f"{standing.pipeline}, version {standing.pipeline_version}"
    if standing.round > 1:
        yield "round", str(standing.round)
    yield "priority", standing.tier
    if standing.tenant:
        yield "tenant", standing.tenant
    yield "files", str(standing.total_files)
    if standing.refused_files or standing.skipped_files:
        yield "at the door", f"{standing.refused_files} refused, {standing.skipped_files} skipped"
    yield "started", standing.started_at
    yield "updated", standing.updated_at
    if isinstance(standing.completed_at, str):
        yield "ended", standing.completed_at
    if isinstance(standing.error, str):
        yield "error", standing.error
    if standing.hold is not None:
        yield "held", f"{standing.hold.kind}: {standing.hold.reason or ''}"
    if standing.phase_retry_count:
        yield "failed tries", str(standing.phase_retry_count)
    yield "spent", _spent(standing)
    limits = {"s": standing.budget.seconds, "tokens": standing.budget.tokens, "money": standing.budget.money}
    if budget := ", ".join(f"{limit:g} {unit}" for unit, limit in limits.items() if limit is not None):
        yield "budget", budget


def _spent(standing: BatchDetails) -> str:
    spent = standing.spent
    said = [f"{spent.seconds:.1f} s", f"{amount(spent.bytes_in)} in", f"{amount(spent.bytes_out)} out"]
    if spent.tokens_in or spent.tokens_out:
        said.append(f"{spent.tokens_in + spent.tokens_out} tokens")
    if spent.money:
        said.append(f"{spent.money:g} money")
    return ", ".join(said)


def _phases(standing: BatchDetails) -> Table:
    table = _table("phase", "tasks", "done", "failed", "from cache")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, phase in standing.phases.items():
        cells = (name, phase.total, phase.completed, phase.failed, phase.cached)
        table.add_row(*(Text(shown(cell)) for cell in cells))
    return table


def _failures(standing: BatchDetails) -> Table:
    classes = ", ".join(f"{name} {tasks}" for name, tasks in standing.failures.items())
    table = _table("failed in", "file", "reason", title=f"Failed tasks: {shown(classes)}")
    for task in standing.failed_tasks[:SHOWN_FAILED]:
        table.add_row(*(Text(shown(cell)) for cell in (task.phase, task.path, task.error)))
    left = sum(standing.failures.values()) - SHOWN_FAILED
    if left > 0:
        table.add_row(Text(""), Text(f"… and {left} more:"), Text("quire batch files ID --state failed"))
    return table


def file_lines(file: FileLine) -> Iterator[str]:
    """A file as it comes by: no table, whose widths are known only at its end."""
    yield f"{file.status.value:<9} {shown(file.error_class or ''):<18} {shown(file.path)}"
    if file.reason:
        yield f"{'':<28} {shown(file.reason)}"


def show_story(story: FileHistory) -> None:
    console = _console()
    for line in file_lines(story.file):
        console.print(Text(line))
    for table in (_made(story), _attempts(story)):
        if table.row_count:
            console.print()
            console.print(table)


def _made(story: FileHistory) -> Table:
    table = _table("file", "is", "made in", "now", "size")
    for file in story.files:
        replaced = f"replaced in {file.replaced_in}" if file.replaced_in else "there"
        now = "taken back" if file.withdrawn else replaced
        cells = (file.path, file.role, file.made_in or "offered", now, amount(file.size))
        table.add_row(*(Text(shown(cell)) for cell in cells))
    return table


def _attempts(story: FileHistory) -> Table:
    table = _table("phase", "round", "try", "file", "came out", "s", "reason")
    for one in story.attempts:
        reason = ": ".join(filter(None, (one.error_class, one.error)))
        numbers = (str(one.round), str(one.attempt))
        cells = (one.phase, *numbers, one.path, one.outcome or "running", f"{one.seconds:.1f}", reason)
        table.add_row(*(Text(shown(cell)) for cell in cells))
    return table


def event_line(event: BatchEvent) -> str:
    data = " ".join(f"{name}={value}" for name, value in event.data.items())
    return f"{event.at}  {shown(event.kind)}  {shown(data)}".rstrip()


def _moment(timestamp: str) -> str:
    return timestamp[:16].replace("T", " ")


def _console() -> Console:
    return Console(highlight=False)


def _table(*names: str, title: str | None = None) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), title_justify="left")
    # Text: rich would take square brackets in a name for markup.
    table.title = None if title is None else Text(title)
    for name in names:
        table.add_column(name, overflow="fold")
    return table
