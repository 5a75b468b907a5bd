"""`quire queue dead`: what was given up, searched, explained, replayed and discarded."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import typer

from quire.cli.queue.options import (
    Config,
    Home,
    Json,
    Queue,
    Yes,
    agreed,
    at_desk,
    print_json,
)
from quire.cli.queue.output import show_dead, show_groups, show_letter
from quire.cli.text import many, shown
from quire.consumers import administration
from quire.consumers.administration import QueueContext
from quire.consumers.lines import DeadLine
from quire.queues.port import DeadLetterFilter

dead = typer.Typer(name="dead", help="Work with dead letters.", no_args_is_help=True)

Ids = Annotated[list[str] | None, typer.Argument(help="These.", metavar="[ID]...", show_default=False)]
Class = Annotated[str | None, typer.Option("--class", help="Those of this error class.", show_default=False)]
Words = Annotated[
    str | None,
    typer.Option("--text", help="Those with this text in reason, id or body.", show_default=False),
]
Everything = Annotated[bool, typer.Option("--all", help="All of the queue.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only tell how many.")]


@dead.command("list")
def list_(
    name: Queue,
    error_class: Class = None,
    text: Words = None,
    group: Annotated[bool, typer.Option("--group", help="How many of each error class.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="At most so many.")] = 20,
    after: Annotated[int, typer.Option("--after", min=0, help="The page after this number.")] = 0,
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """List the dead letters of a queue, oldest first.

    Examples:
      quire queue dead list arke-preprocess-jobs --group

      quire queue dead list manuscript-analysis-queue --class transient --text "rate limit"

    Exit codes: 0 listed, also when there is none, 1 could not, 2 usage.
    """
    if group and (error_class is not None or text is not None or after):
        raise typer.BadParameter("--group counts all dead letters of the queue; only --json goes with it")
    chosen = DeadLetterFilter(error_class=error_class, text=text)

    async def ask(desk: QueueContext) -> tuple[str, list[DeadLine], dict[str, int]]:
        found = await administration.known(desk, name)
        if group:
            return found, [], await administration.dead_groups(desk, name)
        return found, await administration.dead_list(desk, name, chosen, after=after, limit=limit), {}

    found, lines, classes = at_desk(ask, home=home, config=config, json_output=json_output)
    following = lines[-1].no if len(lines) == limit else None
    if json_output:
        print_json({"queue": found, "classes": classes} if group else _page(found, lines, following))
    elif group:
        show_groups(found, classes)
    else:
        show_dead(found, lines, more=following)


def _page(queue: str, lines: list[DeadLine], following: int | None) -> dict[str, object]:
    return {"queue": queue, "dead": lines, "next_after": following}


@dead.command()
def show(
    name: Queue,
    message_id: Annotated[
        str, typer.Argument(help="The id of the message.", metavar="ID", show_default=False)
    ],
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Show a dead letter with its body and everything that was tried.

    Examples:
      quire queue dead show arke-preprocess-jobs start-01JA…

    Exit codes: 0 shown, 1 could not (no such dead letter), 2 usage.
    """
    letter = at_desk(
        lambda desk: administration.dead_show(desk, name, message_id),
        home=home,
        config=config,
        json_output=json_output,
    )
    if json_output:
        print_json(letter)
    else:
        show_letter(letter)


@dead.command()
def replay(
    name: Queue,
    ids: Ids = None,
    error_class: Class = None,
    text: Words = None,
    everything: Everything = False,
    rate: Annotated[
        float | None, typer.Option("--rate", min=0.001, help="So many each second.", show_default=False)
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Put dead letters back into their queue. Their history is kept, their deliveries start again.

    Asks first; where nobody can be asked, --yes is needed.

    Examples:
      quire queue dead replay arke-preprocess-jobs start-01JA… --yes

      quire queue dead replay manuscript-analysis-queue --class transient --rate 0.5

      quire queue dead replay asset-generation-queue --all --dry-run

    Exit codes: 0 replayed (or told, with --dry-run), 1 could not or not wanted, 2 usage.
    """
    chosen = _chosen(ids, error_class, text, everything=everything)

    async def do(desk: QueueContext) -> int:
        return await administration.replay(desk, name, chosen, per_second=rate or 0.0)

    _act(
        name,
        chosen,
        do,
        "replay",
        "replayed",
        home,
        config,
        dry_run=dry_run,
        yes=yes,
        json_output=json_output,
    )


@dead.command()
def discard(
    name: Queue,
    ids: Ids = None,
    error_class: Class = None,
    text: Words = None,
    everything: Everything = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Delete dead letters for good, with their history.

    Asks first; where nobody can be asked, --yes is needed.

    Examples:
      quire queue dead discard arke-batch-jobs --class not_json

      quire queue dead discard arke-batch-jobs --all --yes

    Exit codes: 0 discarded (or told, with --dry-run), 1 could not or not wanted, 2 usage.
    """
    chosen = _chosen(ids, error_class, text, everything=everything)

    async def do(desk: QueueContext) -> int:
        return await administration.discard(desk, name, chosen)

    _act(
        name,
        chosen,
        do,
        "discard",
        "discarded",
        home,
        config,
        dry_run=dry_run,
        yes=yes,
        json_output=json_output,
    )


def _chosen(
    ids: list[str] | None, error_class: str | None, text: str | None, *, everything: bool
) -> DeadLetterFilter:
    by_hand, searched = bool(ids), error_class is not None or text is not None
    if by_hand + searched + everything != 1:
        raise typer.BadParameter("say which: IDs, or --class and --text, or --all")
    return DeadLetterFilter(ids=ids or None, error_class=error_class, text=text)


def _act(
    name: str,
    chosen: DeadLetterFilter,
    do: Callable[[QueueContext], Awaitable[int]],
    verb: str,
    did: str,
    home: Path | None,
    config: Path | None,
    *,
    dry_run: bool,
    yes: bool,
    json_output: bool,
) -> None:
    async def look(desk: QueueContext) -> tuple[str, int]:
        return await administration.known(desk, name), await administration.count_dead(desk, name, chosen)

    found, meant = at_desk(look, home=home, config=config, json_output=json_output)
    if not dry_run and meant:
        # Two visits to the desk: nobody should have to wait, with Ctrl-C unheard, for an answer in between.
        question = f"{verb.capitalize()} {many(meant, 'dead letter')} of {shown(found)}?"
        agreed(question, yes=yes, json_output=json_output)
        meant = at_desk(
            do,
            home=home,
            config=config,
            json_output=json_output,
            noted=lambda done: (f"dead_letters_{did}", {"queue": found, "messages": done}),
        )
    if json_output:
        print_json({"queue": found, "dead_letters": meant, "did": None if dry_run else did})
    else:
        would = f"would be {did}" if dry_run else did
        typer.echo(f"{many(meant, 'dead letter')} of {shown(found)} {would}.")
