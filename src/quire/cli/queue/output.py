"""Queues and messages as text. Bodies come from outside: escaped, and cut short."""

from collections.abc import Iterator, Mapping, Sequence

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from quire.cli.text import printable
from quire.consumers.lines import Body, DeadLine, QueueLine, WaitingLine

SHORT, LONG = 60, 4000


def show_queues(lines: Sequence[QueueLine]) -> None:
    if not lines:
        typer.echo("No queue has messages. `quire queue list --all` also lists configured queues.")
        return
    table = _table("queue", "waiting", "delayed", "in flight", "dead", "oldest", "done/s", "retried")
    table.padding = (0, 1, 0, 0)  # otherwise the names of our queues would not fit into 80 columns
    for column in table.columns[1:]:
        column.justify = "right"
    for one in lines:
        age = "" if one.oldest_age_seconds is None else duration(one.oldest_age_seconds)
        retried = "" if one.retry_rate is None else f"{one.retry_rate:.0%}"
        numbers = (one.waiting, one.delayed, one.in_flight, one.dead)
        cells = (one.queue, *numbers, age, f"{one.acknowledged_per_second:.1f}", retried)
        table.add_row(*(Text(printable(cell)) for cell in cells))
    _console().print(table)


def show_waiting(queue: str, lines: Sequence[WaitingLine]) -> None:
    if not lines:
        typer.echo(f"No messages in {printable(queue)}.")
        return
    for one in lines:
        to = f" by {one.leased_to}" if one.leased_to else ""
        damaged = ", damaged: will not be delivered" if one.is_damaged else ""
        facts = f"{one.state}{to}{damaged}, priority {one.priority}, delivered {one.deliveries} times"
        typer.echo(f"{printable(one.id)}  {printable(facts)}, sent {one.sent_at}, due {one.due_at}")
        typer.echo(f"    {body_of(one, SHORT)}")


def show_dead(queue: str, lines: Sequence[DeadLine], *, more: int | None) -> None:
    if not lines:
        typer.echo(f"No dead letters in {printable(queue)}.")
        return
    for one in lines:
        typer.echo(f"{printable(one.id)}  {printable(one.error_class or 'error')}  {one.buried_at}")
        typer.echo(f"    {_cut(printable(one.reason), SHORT * 2)}")
        typer.echo(f"    {body_of(one, SHORT)}")
    if more is not None:
        typer.echo(f"… there may be more: --after {more}", err=True)


def show_groups(queue: str, classes: Mapping[str, int]) -> None:
    if not classes:
        typer.echo(f"No dead letters in {printable(queue)}.")
        return
    table = _table("class", "dead letters")
    table.columns[1].justify = "right"
    for name, number in classes.items():
        table.add_row(Text(printable(name or "error")), Text(str(number)))
    _console().print(table)


def show_letter(letter: DeadLine) -> None:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _facts(letter):
        table.add_row(Text(name), Text(printable(value)))
    console = _console()
    console.print(table)
    history = _table("delivery", "at (UTC)", "outcome", "worker", "class", "error")
    for one in letter.history:
        error = _cut(one.error or "", SHORT * 5)
        moment = one.at[:19].replace("T", " ")
        cells = (one.delivery, moment, one.ending, one.worker, one.error_class or "", error)
        history.add_row(*(Text(printable(cell)) for cell in cells))
    console.print()
    console.print(history)
    typer.echo()
    typer.echo(body_of(letter, LONG))


def _facts(letter: DeadLine) -> Iterator[tuple[str, str]]:
    yield "message", letter.id
    yield "queue", letter.queue
    yield "class", letter.error_class or "error"
    yield "reason", _cut(letter.reason, LONG)
    if letter.is_damaged:
        yield "damaged", "its bytes are not those that were sent; replaying it does not deliver it"
    yield "sent", letter.sent_at
    yield "dead since", letter.buried_at
    yield "deliveries", str(letter.deliveries)
    yield "priority", str(letter.priority)
    yield "size", f"{letter.size} bytes"


def body_of(line: Body, most: int) -> str:
    if line.body is not None:
        # Cut before it is escaped as well: 128 KiB of control characters would become half a megabyte.
        return _cut(printable(line.body[: most + 1]), most) or "(empty)"
    return _cut(f"base64: {line.body_base64}", most)


def duration(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _console() -> Console:
    return Console(highlight=False)


def _table(*names: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in names:
        table.add_column(name, overflow="fold")
    return table
