"""`quire queue`: list, peek, purge and test queues. Commands for dead letters are in `dead_letters`."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from quire.cli import exits
from quire.cli.components import use_components
from quire.cli.errors import exit_on_error
from quire.cli.options import Config, Home, Json, Yes, confirm, print_json
from quire.cli.queue.options import Queue, print_warnings, queue_context, use_queues
from quire.cli.text import plural, printable, probe_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from quire.assembly.components import Components
    from quire.consumers.administration import QueueContext
    from quire.consumers.lines import QueueLine, WaitingLine
    from quire.model.probe import Probe
    from quire.settings import Settings


def list_queues(
    everything: Annotated[
        bool, typer.Option("--all", help="Include configured queues without messages.")
    ] = False,
    metrics: Annotated[
        bool, typer.Option("--prometheus", help="Print metrics in the Prometheus format.")
    ] = False,
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """List queues with their depth, age and throughput.

    Shows the messages that are waiting, delayed, in flight and dead, the age of the oldest, the messages
    finished per second, and how often messages are retried. Queues on a server that is away are left out,
    with a warning.

    Examples:
      quire queue list
      quire queue list --all --json
      quire queue list --prometheus > /var/lib/node_exporter/quire.prom

    Exit codes: 0 listed, 1 could not run, 2 usage.
    """
    if metrics and (json_output or everything):
        raise typer.BadParameter("--prometheus cannot be combined with --json or --all")
    from quire.cli.queue.output import show_queues
    from quire.consumers import administration
    from quire.consumers.metrics import format_metrics

    async def read(
        components: "Components", settings: "Settings"
    ) -> "tuple[list[QueueLine], str, tuple[str, ...]]":
        context = queue_context(components, settings)
        away = await administration.find_unreachable(context)
        warnings = (*components.warnings, *_describe_left_out(away))
        if metrics:
            return [], await format_metrics(context), warnings
        lines = await administration.list_queues(context, everything=everything, without=away)
        return lines, "", warnings

    found, text, warnings = use_components(read, home=home, config=config, json_output=json_output)
    if metrics:
        typer.echo(text, nl=False)
        print_warnings(warnings)
    elif json_output:
        print_json({"queues": found, "warnings": warnings})
    else:
        show_queues(found)
        print_warnings(warnings)


def _describe_left_out(away: "Mapping[str, str]") -> "Iterator[str]":
    """One warning for each server that is away."""
    for reason in dict.fromkeys(away.values()):
        names = [name for name, why in away.items() if why == reason]
        yield f"left out: {', '.join(names)}, because {reason}"


def peek(
    name: Queue,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Maximum number of messages.")] = 10,
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Show the next messages of a queue without delivering them.

    Waiting messages come first, then those in flight.

    Examples:
      quire queue peek arke-preprocess-jobs
      quire queue peek arke-batch-jobs --limit 100 --json

    Exit codes: 0 shown, even if the queue is empty, 1 could not run, 2 usage.
    """
    from quire.cli.queue.output import show_waiting
    from quire.consumers import administration

    async def read(context: "QueueContext") -> "tuple[str, list[WaitingLine]]":
        return await administration.resolve_name(context, name), await administration.peek(
            context, name, limit=limit
        )

    found, lines = use_queues(read, home=home, config=config, json_output=json_output)
    if json_output:
        print_json({"queue": found, "messages": lines})
    else:
        show_waiting(found, lines)


def purge(
    name: Queue,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the messages.")] = False,
    yes: Yes = False,
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Delete all waiting and delayed messages of a queue.

    Messages in flight and dead letters stay. Asks for confirmation; without a terminal, --yes is required.

    Examples:
      quire queue purge arke-batch-jobs --dry-run
      quire queue purge arke-batch-jobs --yes

    Exit codes: 0 purged (or counted, with --dry-run), 1 could not run or not confirmed, 2 usage.
    """
    from quire.consumers import administration

    async def count(context: "QueueContext") -> tuple[str, int]:
        return await administration.resolve_name(context, name), await administration.count_waiting(
            context, name
        )

    found, waiting = use_queues(count, home=home, config=config, json_output=json_output)
    if dry_run:
        if json_output:
            print_json({"queue": found, "messages": waiting, "did": None})
        else:
            typer.echo(f"{plural(waiting, 'message')} of {printable(found)} would be deleted.")
        return
    question = f"Permanently delete {plural(waiting, 'message')} of {printable(found)}?"
    confirm(question, yes=yes, json_output=json_output)
    deleted = use_queues(
        lambda context: administration.purge(context, name),
        home=home,
        config=config,
        json_output=json_output,
        audit=lambda messages: ("queue_purged", {"queue": found, "messages": messages}),
    )
    if json_output:
        print_json({"queue": found, "messages": deleted, "did": "purged"})
    else:
        typer.echo(f"{plural(deleted, 'message')} of {printable(found)} deleted.")


def check_backend(
    url: Annotated[
        str | None,
        typer.Argument(
            help="sqlite:///file.db, postgresql://… or redis://…; default: the backend of the settings.",
            metavar="[URL]",
            show_default=False,
        ),
    ] = None,
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Check that a backend honours the guarantees of a queue.

    Uses a queue of its own. Without URL the backend of the settings is checked; keep passwords there rather
    than on the command line.

    Examples:
      quire queue test
      quire queue test sqlite:///queues.db
      quire queue test redis://localhost:6379/0

    Exit codes: 0 all honoured (there may be warnings), 1 one is broken or the backend is unusable, 2 usage.
    """
    if url is None:
        probes, warnings = use_components(_check_own, home=home, config=config, json_output=json_output)
    else:
        with exit_on_error(json_output=json_output):
            probes, warnings = asyncio.run(_check_at(url))
    fine = all(probe.ok for probe in probes)
    if json_output:
        promises = [_describe_promise(probe) for probe in probes]
        print_json({"fine": fine, "promises": promises, "warnings": warnings})
    else:
        for probe in probes:
            typer.echo(probe_line(probe))
        for warning in warnings:
            typer.echo(f"{'warning':<8}{printable(warning)}")
    raise typer.Exit(exits.DONE if fine else exits.COULD_NOT_RUN)


def _describe_promise(probe: "Probe") -> dict[str, object]:
    return {"promise": probe.name, "ok": probe.ok, "detail": probe.detail, "seconds": probe.seconds}


async def _check_own(
    components: "Components", _settings: "Settings"
) -> "tuple[list[Probe], tuple[str, ...]]":
    from quire.consumers.guarantees import check_guarantees

    return await check_guarantees(components.queues, components.clock, components.ids), components.warnings


async def _check_at(url: str) -> "tuple[list[Probe], tuple[str, ...]]":
    from quire.assembly.queues import open_queues_at
    from quire.consumers.guarantees import check_guarantees
    from quire.system import SystemClock, SystemIds

    ids = SystemIds()
    async with open_queues_at(url, ids) as opened:
        return await check_guarantees(opened.queues, SystemClock(), ids), opened.warnings
