"""The queue argument, and the queue context for one command."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from quire.cli.components import Audit, use_components
from quire.cli.text import printable

if TYPE_CHECKING:
    from quire.assembly.components import Components
    from quire.consumers.administration import QueueContext
    from quire.settings import Settings

T = TypeVar("T")

Queue = Annotated[
    str, typer.Argument(help="Name of the queue or of its dead letters.", metavar="QUEUE", show_default=False)
]


def use_queues(
    work: Callable[["QueueContext"], Awaitable[T]],
    *,
    home: Path | None,
    config: Path | None,
    json_output: bool,
    audit: Audit[T] | None = None,
) -> T:
    """Run `work` on the queues. An expected error ends the command with its message and its exit code."""
    return use_components(
        lambda components, settings: work(queue_context(components, settings)),
        home=home,
        config=config,
        json_output=json_output,
        audit=audit,
    )


def queue_context(components: "Components", settings: "Settings") -> "QueueContext":
    from quire.assembly.queues import queue_policies
    from quire.consumers.administration import QueueContext

    return QueueContext(queues=components.queues, policies=queue_policies(settings), clock=components.clock)


def print_warnings(warnings: tuple[str, ...]) -> None:
    for warning in warnings:
        typer.echo(f"warning: {printable(warning)}", err=True)
