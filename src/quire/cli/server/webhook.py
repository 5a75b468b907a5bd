"""`quire webhook`: who is told by `quire serve` what happens to batches."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from quire.assembly.outgoing import open_outgoing
from quire.assembly.components import Components
from quire.cli.batch.options import (
    Config,
    Home,
    Json,
    Noted,
    answered,
    print_json,
)
from quire.cli.text import printable
from quire.events import webhooks
from quire.events.webhooks import WebhookContext
from quire.settings import Settings

T = TypeVar("T")

webhook = typer.Typer(
    name="webhook",
    help="Add, list and end webhooks; look at deliveries, send them again.",
    no_args_is_help=True,
)

Id = Annotated[str, typer.Argument(help="The id of the webhook.", metavar="ID", show_default=False)]
Batch = Annotated[
    str | None, typer.Option("--batch", help="Of this batch alone.", metavar="ID", show_default=False)
]


@webhook.command()
def add(
    url: Annotated[
        str, typer.Argument(help="The address that is called.", metavar="URL", show_default=False)
    ],
    batch: Batch = None,
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", help="Only such events; may be repeated.", show_default=False),
    ] = None,
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Have an address called when something happens. The secret that signs the calls is shown once.

    Examples:
      quire webhook add https://example.org/hooks/quire

      quire webhook add https://example.org/done --kind batch_done --kind batch_failed

    Exit codes: 0 added, 1 could not (an address that is never called, an unknown event or batch), 2 usage.
    """
    made = _at_desk(
        lambda desk: webhooks.add_webhook(desk, url=url, batch_id=batch or "", kinds=kind or ()),
        home,
        config,
        json_output=json_output,
        # Not the URL: people put secrets into it.
        noted=lambda made: ("webhook_added", {"webhook": made.hook.id, "batch_id": batch or ""}),
    )
    if json_output:
        print_json({"secret": made.secret, "webhook": made.hook})
        return
    typer.echo(made.secret)
    typer.echo(f"{printable(made.hook.id)} is told from now on.", err=True)
    typer.echo("Keep the secret now: it is not shown again.", err=True)


@webhook.command("list")
def list_(batch: Batch = None, json_output: Json = False, home: Home = None, config: Config = None) -> None:
    """List webhooks, oldest first, without their secrets.

    Examples:
      quire webhook list

    Exit codes: 0 listed, also when there is none, 1 could not, 2 usage.
    """
    lines = _at_desk(
        lambda desk: webhooks.list_webhooks(desk, batch_id=batch), home, config, json_output=json_output
    )
    if json_output:
        print_json({"webhooks": lines})
        return
    for one in lines:
        of = f"batch {one.batch_id}" if one.batch_id else "all batches"
        state = f"ended: {one.disabled_reason}" if one.disabled_at else "active"
        what = ", ".join(one.kinds) or "every event"
        typer.echo("  ".join(printable(word) for word in (one.id, one.url, of, what, state)))
    if not lines:
        typer.echo("There are no webhooks. `quire webhook add URL` adds one.")


@webhook.command()
def remove(hook_id: Id, json_output: Json = False, home: Home = None, config: Config = None) -> None:
    """Nothing more is sent there, not even what waits.

    Examples:
      quire webhook remove hook_01KA3Y8M5T2QJ6W0R9XV7NBCDE

    Exit codes: 0 ended, also when it had before, 1 could not (no such webhook), 2 usage.
    """
    line = _at_desk(
        lambda desk: webhooks.disable_webhook(desk, hook_id),
        home,
        config,
        json_output=json_output,
        noted=lambda line: ("webhook_disabled", {"webhook": line.id}),
    )
    if json_output:
        print_json(line)
    else:
        typer.echo(f"{printable(line.id)} is told nothing more.")


@webhook.command()
def deliveries(
    hook_id: Annotated[
        str | None, typer.Option("--webhook", help="Only to this one.", metavar="ID", show_default=False)
    ] = None,
    batch: Batch = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="At most so many.")] = 100,
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Show what was sent, what waits and what was answered, newest first.

    Examples:
      quire webhook deliveries --limit 20

      quire webhook deliveries --webhook hook_01KA3Y8M5T2QJ6W0R9XV7NBCDE --json

    Exit codes: 0 shown, 1 could not, 2 usage.
    """
    lines = _at_desk(
        lambda desk: webhooks.list_deliveries(desk, hook_id=hook_id, batch_id=batch, limit=limit),
        home,
        config,
        json_output=json_output,
    )
    if json_output:
        print_json({"deliveries": lines})
        return
    for one in lines:
        answered_by = one.last_error or (
            f"answered {one.last_status}" if one.last_status else "not tried yet"
        )
        words = (
            str(one.no),
            one.happened_at,
            one.type,
            one.batch_id,
            one.state,
            f"{one.tries} tries",
            answered_by,
        )
        typer.echo("  ".join(printable(word) for word in words))
    if not lines:
        typer.echo("Nothing was to be told.")


@webhook.command()
def redeliver(
    numbers: Annotated[
        list[int], typer.Argument(help="Numbers of deliveries.", metavar="NUMBER...", show_default=False)
    ],
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Send deliveries again, under their old ids; `quire serve` does it.

    Examples:
      quire webhook redeliver 17 18

    Exit codes: 0 they will be sent, 1 could not, 2 usage.
    """
    sent = _at_desk(
        lambda desk: webhooks.redeliver(desk, numbers),
        home,
        config,
        json_output=json_output,
        noted=lambda sent: ("webhooks_redelivered", {"deliveries": sent}),
    )
    if json_output:
        print_json({"deliveries": sent})
    else:
        typer.echo(f"{sent} will be sent again.")


def _at_desk(
    ask: Callable[[WebhookContext], Awaitable[T]],
    home: Path | None,
    config: Path | None,
    *,
    json_output: bool,
    noted: Noted[T] | None = None,
) -> T:
    async def asking(office: Components, settings: Settings) -> T:
        desk = WebhookContext(
            store=office.webhooks, outgoing=open_outgoing(settings), clock=office.clock, ids=office.ids
        )
        return await ask(desk)

    return answered(asking, home=home, config=config, json_output=json_output, noted=noted)
