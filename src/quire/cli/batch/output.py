"""A batch and the history of a file as tables, which fit into 80 columns."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from quire.batches.lines import BatchDetails, InputHistory
from quire.cli.batch.lines import file_lines
from quire.cli.text import format_bytes, printable
from quire.model.batch import TaskState

SHOWN_FAILED = 10
TOP = "(top folder)"  # whose path is empty

# All other columns hold names and numbers, which are hard to read and to copy in two pieces.
_WRAPPED = ("file", "reason")


def show_details(details: BatchDetails) -> None:
    console = _console()
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), title_justify="left")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _facts(details):
        table.add_row(Text(name), Text(printable(value)))
    console.print(table)
    if details.phases:
        console.print()
        console.print(_phases(details))
    if details.failures:
        console.print()
        console.print(_failures(details))


def _facts(details: BatchDetails) -> Iterator[tuple[str, str]]:
    yield "batch", details.batch_id
    yield "state", details.summary
    yield "pipeline", f"{details.pipeline}, version {details.pipeline_version}"
    if details.round > 1:
        yield "round", str(details.round)
    yield "priority", details.tier
    if details.tenant:
        yield "tenant", details.tenant
    yield "files", str(details.total_files)
    if details.refused_files or details.skipped_files:
        yield "not accepted", f"{details.refused_files} refused, {details.skipped_files} skipped"
    yield "started", details.started_at
    yield "updated", details.updated_at
    if isinstance(details.completed_at, str):
        yield "ended", details.completed_at
    if isinstance(details.error, str):
        yield "error", details.error
    if details.hold is not None:
        yield "held", f"{details.hold.kind}: {details.hold.reason or ''}"
    if details.phase_retry_count:
        yield "failed attempts", str(details.phase_retry_count)
    yield "spent", _spent(details)
    limits = {"s": details.budget.seconds, "tokens": details.budget.tokens, "money": details.budget.money}
    if budget := ", ".join(f"{limit:g} {unit}" for unit, limit in limits.items() if limit is not None):
        yield "budget", budget


def _spent(details: BatchDetails) -> str:
    spent = details.spent
    parts = [
        f"{spent.seconds:.1f} s",
        f"{format_bytes(spent.bytes_in)} in",
        f"{format_bytes(spent.bytes_out)} out",
    ]
    if spent.tokens_in or spent.tokens_out:
        parts.append(f"{spent.tokens_in + spent.tokens_out} tokens")
    if spent.money:
        parts.append(f"{spent.money:g} money")
    return ", ".join(parts)


def _phases(details: BatchDetails) -> Table:
    table = _table("phase", "tasks", "done", "failed", "from cache")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, phase in details.phases.items():
        cells = (name, phase.total, phase.completed, phase.failed, phase.cached)
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table


def _failures(details: BatchDetails) -> Table:
    classes = ", ".join(f"{name} {tasks}" for name, tasks in details.failures.items())
    table = _table("failed in", "file", "reason", title=f"Failed tasks: {printable(classes)}")
    for task in details.failed_tasks[:SHOWN_FAILED]:
        table.add_row(*(Text(printable(cell)) for cell in (task.step, task.path or TOP, task.error)))
    left = sum(details.failures.values()) - SHOWN_FAILED
    if left > 0:
        table.add_row(Text(""), Text(f"… and {left} more:"), Text("quire batch files ID --state failed"))
    return table


def show_history(history: InputHistory) -> None:
    console = _console()
    for line in file_lines(history.file):
        console.print(Text(line), soft_wrap=True)
    for table in (_produced_files(history), _attempts(history)):
        if table.row_count:
            console.print()
            console.print(table)


def _produced_files(history: InputHistory) -> Table:
    table = _table("file", "role", "made in", "now", "size")
    for file in history.files:
        replaced = f"replaced in {file.replaced_in}" if file.replaced_in else "current"
        now = "withdrawn" if file.withdrawn else replaced
        cells = (file.path, file.role, file.made_in or "input", now, format_bytes(file.size))
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table


def _attempts(history: InputHistory) -> Table:
    table = _table("step", "round", "attempt", "file", "outcome", "s", "reason")
    for one in history.attempts:
        reason = ": ".join(filter(None, (one.error_class, one.error)))
        numbers = (str(one.round), str(one.attempt))
        # A retry of what came before has made the task anew.
        outcome = "replaced" if one.task_state is TaskState.SUPERSEDED else one.outcome or "running"
        cells = (one.step, *numbers, one.path or TOP, outcome, f"{one.seconds:.1f}", reason)
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table


def _console() -> Console:
    return Console(highlight=False)


def _table(*names: str, title: str | None = None) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), title_justify="left")
    # Text: rich interprets square brackets in a plain string as markup.
    table.title = None if title is None else Text(title)
    for name in names:
        table.add_column(name, overflow="fold", no_wrap=name not in _WRAPPED)
    return table
