"""`quire queue`: look at queues, empty them, try a backend. What concerns dead letters is in `queue_dead`."""

import asyncio
from typing import Annotated

import typer

from quire.assembly.queues import open_queues_at
from quire.assembly.components import Components
from quire.cli import exits
from quire.cli.batch.options import answered
from quire.cli.errors import told_to_people
from quire.cli.queue.dead_letters import dead
from quire.cli.queue.options import (
    Config,
    Home,
    Json,
    Queue,
    Yes,
    agreed,
    at_desk,
    desk_of,
    print_json,
    warn,
)
from quire.cli.queue.output import promise_line, show_queues, show_waiting
from quire.cli.text import many, shown
from quire.consumers import administration
from quire.consumers.administration import QueueContext
from quire.consumers.guarantees import Promise, try_promises
from quire.consumers.lines import QueueLine, WaitingLine
from quire.consumers.metrics import prometheus
from quire.settings import Settings
from quire.system import SystemClock, SystemIds

queue = typer.Typer(
    name="queue", help="Look at queues and work with their dead letters.", no_args_is_help=True
)
queue.add_typer(dead)


@queue.command("list")
def list_(
    everything: Annotated[bool, typer.Option("--all", help="Also those that are only configured.")] = False,
    metrics: Annotated[bool, typer.Option("--prometheus", help="As Prometheus reads it.")] = False,
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """List queues: what waits, is delayed, in flight and dead, how old, how fast, how often retried.

    Examples:
      quire queue list

      quire queue list --all --json

      quire queue list --prometheus > /var/lib/node_exporter/quire.prom

    Exit codes: 0 listed, 1 could not, 2 usage.
    """
    if metrics and (json_output or everything):
        raise typer.BadParameter("--prometheus goes with neither --json nor --all")

    async def ask(office: Components, settings: Settings) -> tuple[list[QueueLine], str, tuple[str, ...]]:
        desk = desk_of(office, settings)
        if metrics:
            return [], await prometheus(desk), office.warnings
        return await administration.list_queues(desk, everything=everything), "", office.warnings

    found, text, warnings = answered(ask, home=home, config=config, json_output=json_output)
    if metrics:
        typer.echo(text, nl=False)
    elif json_output:
        print_json({"queues": found, "warnings": warnings})
    else:
        show_queues(found)
        warn(warnings)


@queue.command()
def peek(
    name: Queue,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="At most so many.")] = 10,
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Show the next messages of a queue, then those in flight. Looking is no delivery.

    Examples:
      quire queue peek arke-preprocess-jobs

      quire queue peek arke-batch-jobs --limit 100 --json

    Exit codes: 0 shown, also when nothing waits, 1 could not, 2 usage.
    """

    async def ask(desk: QueueContext) -> tuple[str, list[WaitingLine]]:
        return await administration.known(desk, name), await administration.peek(desk, name, limit=limit)

    found, lines = at_desk(ask, home=home, config=config, json_output=json_output)
    if json_output:
        print_json({"queue": found, "messages": lines})
    else:
        show_waiting(found, lines)


@queue.command()
def purge(
    name: Queue,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell how many.")] = False,
    yes: Yes = False,
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Delete everything that waits in a queue or is delayed. What is in flight and what is dead stays.

    Asks first; where nobody can be asked, --yes is needed.

    Examples:
      quire queue purge arke-batch-jobs --dry-run

      quire queue purge arke-batch-jobs --yes

    Exit codes: 0 purged (or told, with --dry-run), 1 could not or not wanted, 2 usage.
    """

    async def look(desk: QueueContext) -> tuple[str, int]:
        return await administration.known(desk, name), await administration.count_waiting(desk, name)

    found, waiting = at_desk(look, home=home, config=config, json_output=json_output)
    if dry_run:
        if json_output:
            print_json({"queue": found, "messages": waiting, "did": None})
        else:
            typer.echo(f"{many(waiting, 'message')} of {shown(found)} would be deleted.")
        return
    agreed(f"Delete {many(waiting, 'message')} of {shown(found)} for good?", yes=yes, json_output=json_output)
    deleted = at_desk(
        lambda desk: administration.purge(desk, name),
        home=home,
        config=config,
        json_output=json_output,
        noted=lambda done: ("queue_purged", {"queue": found, "messages": done}),
    )
    if json_output:
        print_json({"queue": found, "messages": deleted, "did": "purged"})
    else:
        typer.echo(f"{many(deleted, 'message')} of {shown(found)} deleted.")


@queue.command("test")
def try_out(
    url: Annotated[
        str | None,
        typer.Argument(
            help="sqlite:///file.db, postgresql://… or redis://…; default: the one of the settings.",
            metavar="[URL]",
            show_default=False,
        ),
    ] = None,
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Try whether a backend keeps the promises that consumers rely on, in a queue of its own.

    Without URL the backend of the settings is tried. A password is better kept there than on a command line.

    Examples:
      quire queue test

      quire queue test sqlite:///queues.db

      quire queue test redis://localhost:6379/0

    Exit codes: 0 all kept (there may be warnings), 1 one is broken or the backend cannot be used, 2 usage.
    """
    if url is None:
        kept, warnings = answered(_try_own, home=home, config=config, json_output=json_output)
    else:
        with told_to_people(json_output=json_output):
            kept, warnings = asyncio.run(_try_at(url))
    fine = all(promise.ok for promise in kept)
    if json_output:
        print_json({"fine": fine, "promises": kept, "warnings": warnings})
    else:
        for promise in kept:
            typer.echo(promise_line(promise))
        for words in warnings:
            typer.echo(f"{'warning':<8}{shown(words)}")
    raise typer.Exit(exits.DONE if fine else exits.COULD_NOT_RUN)


async def _try_own(office: Components, _settings: Settings) -> tuple[list[Promise], tuple[str, ...]]:
    return await try_promises(office.queues, office.clock, office.ids), office.warnings


async def _try_at(url: str) -> tuple[list[Promise], tuple[str, ...]]:
    ids = SystemIds()
    async with open_queues_at(url, ids) as opened:
        return await try_promises(opened.queues, SystemClock(), ids), opened.warnings
