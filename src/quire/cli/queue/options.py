"""What all `quire queue` commands share: options, the way to the desk, the question before an act."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from quire.assembly.queues import queue_policies
from quire.assembly.components import Components
from quire.cli import exits
from quire.cli.batch.options import (
    Config,
    Home,
    Json,
    Noted,
    answered,
    print_json,
)
from quire.cli.errors import told_to_people
from quire.cli.text import shown
from quire.consumers.administration import QueueContext
from quire.model.errors import Reject
from quire.settings import Settings

__all__ = ["Config", "Home", "Json", "Queue", "Yes", "agreed", "at_desk", "desk_of", "print_json", "warn"]

T = TypeVar("T")

Queue = Annotated[
    str,
    typer.Argument(help="The queue, or the name of its dead letters.", metavar="QUEUE", show_default=False),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def at_desk(
    ask: Callable[[QueueContext], Awaitable[T]],
    *,
    home: Path | None,
    config: Path | None,
    json_output: bool,
    noted: Noted[T] | None = None,
) -> T:
    """Ask the desk; an expected error ends the command with its message and its exit code."""

    async def asking(office: Components, settings: Settings) -> T:
        return await ask(desk_of(office, settings))

    return answered(asking, home=home, config=config, json_output=json_output, noted=noted)


def desk_of(office: Components, settings: Settings) -> QueueContext:
    return QueueContext(queues=office.queues, policies=queue_policies(settings), clock=office.clock)


def agreed(question: str, *, yes: bool, json_output: bool) -> None:
    """Ends the command unless somebody says yes. Where nobody can be asked the answer is no: a script that
    deletes says that it means it.
    """
    if yes:
        return
    if json_output or not somebody_is_there():
        with told_to_people(json_output=json_output):
            raise Reject("nothing was changed: nobody can be asked here, so give --yes", code="not_confirmed")
    if not typer.confirm(question, err=True):
        typer.echo("Nothing was changed.", err=True)
        raise typer.Exit(exits.COULD_NOT_RUN)


def somebody_is_there() -> bool:
    return sys.stdin.isatty()


def warn(warnings: tuple[str, ...]) -> None:
    for words in warnings:
        typer.echo(f"warning: {shown(words)}", err=True)
