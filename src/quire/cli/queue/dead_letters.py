"""`quire queue dead`: list, show, replay and discard dead letters."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quire.cli.options import Config, Home, Json, Yes, confirm, print_json
from quire.cli.queue.options import Queue, use_queues
from quire.cli.text import plural, printable

if TYPE_CHECKING:
    from quire.consumers.administration import QueueContext
    from quire.consumers.lines import DeadLine
    from quire.queues.port import DeadLetterFilter

Ids = Annotated[
    list[str] | None, typer.Argument(help="Ids of messages.", metavar="[ID]...", show_default=False)
]
Class = Annotated[str | None, typer.Option("--class", help="Only this error class.", show_default=False)]
Words = Annotated[
    str | None, typer.Option("--text", help="Only with this text in reason, id or body.", show_default=False)
]
Everything = Annotated[bool, typer.Option("--all", help="All dead letters of the queue.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count them.")]


def list_dead(
    name: Queue,
    error_class: Class = None,
    text: Words = None,
    group: Annotated[bool, typer.Option("--group", help="Count by error class.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Maximum number.")] = 20,
    after: Annotated[int, typer.Option("--after", min=0, help="Continue after this number.")] = 0,
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """List the dead letters of a queue, oldest first.

    Examples:
      quire queue dead list arke-preprocess-jobs --group
      quire queue dead list manuscript-analysis-queue --class transient --text "rate limit"

    Exit codes: 0 listed, even if there are none, 1 could not run, 2 usage.
    """
    if group and (error_class is not None or text is not None or after):
        raise typer.BadParameter("--group counts all dead letters of the queue; combine it only with --json")
    from quire.cli.queue.output import show_dead, show_groups
    from quire.consumers import administration
    from quire.queues.port import DeadLetterFilter

    chosen = DeadLetterFilter(error_class=error_class, text=text)

    async def read(context: "QueueContext") -> "tuple[str, list[DeadLine], dict[str, int]]":
        found = await administration.resolve_name(context, name)
        if group:
            return found, [], await administration.count_by_error_class(context, name)
        return (
            found,
            await administration.list_dead_letters(context, name, chosen, after=after, limit=limit),
            {},
        )

    found, lines, classes = use_queues(read, home=home, config=config, json_output=json_output)
    following = lines[-1].no if len(lines) == limit else None
    if json_output:
        print_json({"queue": found, "classes": classes} if group else _page(found, lines, following))
    elif group:
        show_groups(found, classes)
    else:
        show_dead(found, lines, more=following)


def _page(queue: str, lines: "list[DeadLine]", following: int | None) -> dict[str, object]:
    return {"queue": queue, "dead": lines, "next_after": following}


def show(
    name: Queue,
    message_id: Annotated[str, typer.Argument(help="Id of the message.", metavar="ID", show_default=False)],
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Show a dead letter, its body and every delivery.

    Examples:
      quire queue dead show arke-preprocess-jobs start-01JA…

    Exit codes: 0 shown, 1 could not run (no such dead letter), 2 usage.
    """
    from quire.cli.queue.output import show_letter
    from quire.consumers import administration

    letter = use_queues(
        lambda context: administration.show_dead_letter(context, name, message_id),
        home=home,
        config=config,
        json_output=json_output,
    )
    if json_output:
        print_json(letter)
    else:
        show_letter(letter)


def replay(
    name: Queue,
    ids: Ids = None,
    error_class: Class = None,
    text: Words = None,
    everything: Everything = False,
    rate: Annotated[
        float | None, typer.Option("--rate", min=0.001, help="Maximum number per second.", show_default=False)
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Put dead letters back into their queue.

    Their history is kept; the count of deliveries starts again. Asks for confirmation; without a terminal,
    --yes is required.

    Examples:
      quire queue dead replay arke-preprocess-jobs start-01JA… --yes
      quire queue dead replay manuscript-analysis-queue --class transient --rate 0.5
      quire queue dead replay asset-generation-queue --all --dry-run

    Exit codes: 0 replayed (or counted, with --dry-run), 1 could not run or not confirmed, 2 usage.
    """
    from quire.consumers import administration

    chosen = _choose(ids, error_class, text, everything=everything)

    async def change(context: "QueueContext") -> int:
        return await administration.replay(context, name, chosen, per_second=rate or 0.0)

    _change(
        name,
        chosen,
        change,
        "replay",
        "replayed",
        home,
        config,
        dry_run=dry_run,
        yes=yes,
        json_output=json_output,
    )


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
    """Delete dead letters and their history for good.

    Asks for confirmation; without a terminal, --yes is required.

    Examples:
      quire queue dead discard arke-batch-jobs --class not_json
      quire queue dead discard arke-batch-jobs --all --yes

    Exit codes: 0 discarded (or counted, with --dry-run), 1 could not run or not confirmed, 2 usage.
    """
    from quire.consumers import administration

    chosen = _choose(ids, error_class, text, everything=everything)

    async def change(context: "QueueContext") -> int:
        return await administration.discard(context, name, chosen)

    _change(
        name,
        chosen,
        change,
        "discard",
        "discarded",
        home,
        config,
        dry_run=dry_run,
        yes=yes,
        json_output=json_output,
    )


def _choose(
    ids: list[str] | None, error_class: str | None, text: str | None, *, everything: bool
) -> "DeadLetterFilter":
    by_hand, searched = bool(ids), error_class is not None or text is not None
    if by_hand + searched + everything != 1:
        raise typer.BadParameter("choose dead letters by ID, by --class and --text, or with --all")
    from quire.queues.port import DeadLetterFilter

    return DeadLetterFilter(ids=ids or None, error_class=error_class, text=text)


def _change(
    name: str,
    chosen: "DeadLetterFilter",
    change: Callable[["QueueContext"], Awaitable[int]],
    verb: str,
    did: str,
    home: Path | None,
    config: Path | None,
    *,
    dry_run: bool,
    yes: bool,
    json_output: bool,
) -> None:
    from quire.consumers import administration

    async def count(context: "QueueContext") -> tuple[str, int]:
        return await administration.resolve_name(context, name), await administration.count_dead(
            context, name, chosen
        )

    found, meant = use_queues(count, home=home, config=config, json_output=json_output)
    if not dry_run and meant:
        # The components are closed while the question is open: Ctrl-C answers it at once.
        question = f"{verb.capitalize()} {plural(meant, 'dead letter')} of {printable(found)}?"
        confirm(question, yes=yes, json_output=json_output)
        meant = use_queues(
            change,
            home=home,
            config=config,
            json_output=json_output,
            audit=lambda done: (f"dead_letters_{did}", {"queue": found, "messages": done}),
        )
    if json_output:
        print_json({"queue": found, "dead_letters": meant, "did": None if dry_run else did})
    else:
        would = f"would be {did}" if dry_run else did
        typer.echo(f"{plural(meant, 'dead letter')} of {printable(found)} {would}.")
