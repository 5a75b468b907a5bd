"""`quire webhook`: add, list and remove webhooks, inspect and repeat their deliveries."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from quire.cli.components import Audit, use_components
from quire.cli.options import Config, Home, Json, print_json
from quire.cli.text import plural, printable

if TYPE_CHECKING:
    from quire.assembly.components import Components
    from quire.events.webhooks import WebhookContext
    from quire.settings import Settings

T = TypeVar("T")

WebhookId = Annotated[str, typer.Argument(help="Id of the webhook.", metavar="ID", show_default=False)]
BatchOption = Annotated[
    str | None, typer.Option("--batch", help="Only for this batch.", metavar="ID", show_default=False)
]


def add(
    url: Annotated[str, typer.Argument(help="Address to call.", metavar="URL", show_default=False)],
    batch: BatchOption = None,
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", help="Only this kind of event; may be repeated.", show_default=False),
    ] = None,
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Add a webhook and show its signing secret once.

    The address is called whenever an event happens.

    Examples:
      quire webhook add https://example.org/hooks/quire
      quire webhook add https://example.org/done --kind batch_done --kind batch_failed

    Exit codes: 0 added, 1 could not run (forbidden address, unknown event or batch), 2 usage.
    """
    from quire.events import webhooks

    made = _use_webhooks(
        lambda context: webhooks.add_webhook(context, url=url, batch_id=batch or "", kinds=kind or ()),
        home,
        config,
        json_output=json_output,
        # Not the URL: people put secrets into it.
        audit=lambda made: ("webhook_added", {"webhook": made.hook.id, "batch_id": batch or ""}),
    )
    if json_output:
        print_json({"secret": made.secret, "webhook": made.hook})
        return
    typer.echo(made.secret)
    typer.echo(f"{printable(made.hook.id)} was added.", err=True)
    typer.echo("Save the secret now: it will not be shown again.", err=True)


def list_webhooks(
    batch: BatchOption = None, json_output: Json = False, home: Home = None, config: Config = None
) -> None:
    """List webhooks, oldest first, without their secrets.

    Examples:
      quire webhook list

    Exit codes: 0 listed, even if there are none, 1 could not run, 2 usage.
    """
    from quire.events import webhooks

    lines = _use_webhooks(
        lambda context: webhooks.list_webhooks(context, batch_id=batch), home, config, json_output=json_output
    )
    if json_output:
        print_json({"webhooks": lines})
        return
    for one in lines:
        of = f"batch {one.batch_id}" if one.batch_id else "all batches"
        state = f"disabled: {one.disabled_reason}" if one.disabled_at else "active"
        what = ", ".join(one.kinds) or "every event"
        typer.echo("  ".join(printable(word) for word in (one.id, one.url, of, what, state)))
    if not lines:
        typer.echo("There are no webhooks. Add one with `quire webhook add URL`.")


def remove(hook_id: WebhookId, json_output: Json = False, home: Home = None, config: Config = None) -> None:
    """Remove a webhook and its pending deliveries.

    Examples:
      quire webhook remove hook_01KA3Y8M5T2QJ6W0R9XV7NBCDE

    Exit codes: 0 removed, even if it already was, 1 could not run (no such webhook), 2 usage.
    """
    from quire.events import webhooks

    line = _use_webhooks(
        lambda context: webhooks.disable_webhook(context, hook_id),
        home,
        config,
        json_output=json_output,
        audit=lambda line: ("webhook_disabled", {"webhook": line.id}),
    )
    if json_output:
        print_json(line)
    else:
        typer.echo(f"{printable(line.id)} was removed.")


def deliveries(
    hook_id: Annotated[
        str | None, typer.Option("--webhook", help="Only for this webhook.", metavar="ID", show_default=False)
    ] = None,
    batch: BatchOption = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=1000, help="Maximum number of deliveries.")
    ] = 100,
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """List deliveries and their responses, newest first.

    Examples:
      quire webhook deliveries --limit 20
      quire webhook deliveries --webhook hook_01KA3Y8M5T2QJ6W0R9XV7NBCDE --json

    Exit codes: 0 listed, 1 could not run, 2 usage.
    """
    from quire.events import webhooks

    lines = _use_webhooks(
        lambda context: webhooks.list_deliveries(context, hook_id=hook_id, batch_id=batch, limit=limit),
        home,
        config,
        json_output=json_output,
    )
    if json_output:
        print_json({"deliveries": lines})
        return
    for one in lines:
        response = one.last_error or (f"HTTP {one.last_status}" if one.last_status else "not sent yet")
        words = (
            str(one.no),
            one.happened_at,
            one.type,
            one.batch_id,
            one.state,
            plural(one.tries, "attempt"),
            response,
        )
        typer.echo("  ".join(printable(word) for word in words))
    if not lines:
        typer.echo("No deliveries.")


def redeliver(
    numbers: Annotated[
        list[int], typer.Argument(help="Numbers of deliveries.", metavar="NUMBER", show_default=False)
    ],
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Send deliveries again.

    `quire serve` sends them, with their original ids.

    Examples:
      quire webhook redeliver 17 18

    Exit codes: 0 they will be sent, 1 could not run, 2 usage.
    """
    from quire.events import webhooks

    sent = _use_webhooks(
        lambda context: webhooks.redeliver(context, numbers),
        home,
        config,
        json_output=json_output,
        audit=lambda sent: ("webhooks_redelivered", {"deliveries": sent}),
    )
    if json_output:
        print_json({"deliveries": sent})
    else:
        typer.echo(f"{sent} {'delivery' if sent == 1 else 'deliveries'} will be sent again.")


def _use_webhooks(
    work: Callable[["WebhookContext"], Awaitable[T]],
    home: Path | None,
    config: Path | None,
    *,
    json_output: bool,
    audit: Audit[T] | None = None,
) -> T:
    from quire.assembly.outgoing_client import open_outgoing
    from quire.events.webhooks import WebhookContext

    async def use(components: "Components", settings: "Settings") -> T:
        context = WebhookContext(
            store=components.webhooks,
            outgoing=open_outgoing(settings),
            clock=components.clock,
            ids=components.ids,
        )
        return await work(context)

    return use_components(use, home=home, config=config, json_output=json_output, audit=audit)
