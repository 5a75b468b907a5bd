"""`quire key`: who may use the API of `quire serve`."""

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from quire.access import api_keys
from quire.access.api_keys import (
    ApiKeyContext,
    KeyDraft,
    KeyLine,
    NewKey,
    Scope,
)
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
from quire.settings import Settings

T = TypeVar("T")

key = typer.Typer(
    name="key", help="Make, list, rotate and revoke the API keys of `quire serve`.", no_args_is_help=True
)

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LONGEST_SECONDS = 100 * 366 * 86_400


Id = Annotated[str, typer.Argument(help="The id of the key.", metavar="ID", show_default=False)]


@key.command()
def create(
    scope: Annotated[
        Scope, typer.Option("--scope", help="What it is for.", show_default=False, case_sensitive=False)
    ],
    label: Annotated[str, typer.Option("--label", help="What people call it.", show_default=False)] = "",
    tenant: Annotated[
        str, typer.Option("--tenant", help="Whose batches it opens and sees.", show_default=False)
    ] = "",
    expires: Annotated[
        str | None, typer.Option("--expires", help="After how long it ends: 12h, 90d.", show_default=False)
    ] = None,
    requests_per_minute: Annotated[
        int, typer.Option("--requests-per-minute", min=0, help="0 is no limit.")
    ] = 0,
    max_batches: Annotated[
        int, typer.Option("--max-batches", min=0, help="Batches that have not ended; 0 is no limit.")
    ] = 0,
    max_bytes: Annotated[
        int, typer.Option("--max-bytes", min=0, help="Bytes in such batches; 0 is no limit.")
    ] = 0,
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Make an API key. It is shown once, on standard output, and cannot be shown again.

    Scopes: submit opens and fills batches and sees its own; read looks at everything; operate does both and
    acts on batches, dead letters and callbacks; admin does all, also with keys and webhooks.

    Examples:
      quire key create --scope submit --label scanner --tenant archive

      quire key create --scope operate --expires 90d --requests-per-minute 600

      QUIRE_KEY=$(quire key create --scope admin)

    Exit codes: 0 made, 1 could not, 2 usage.
    """
    draft = KeyDraft(
        scope=scope,
        label=label,
        tenant=tenant,
        lasts_seconds=None if expires is None else _seconds("--expires", expires),
        requests_per_minute=requests_per_minute,
        max_batches=max_batches,
        max_bytes=max_bytes,
    )
    made = _at_desk(
        lambda desk: api_keys.create(desk, draft),
        home,
        config,
        json_output=json_output,
        makes_home=True,
        noted=lambda made: ("key_created", {"key": made.key.id, "scope": made.key.scope}),
    )
    _show_new(made, json_output=json_output)


@key.command("list")
def list_(json_output: Json = False, home: Home = None, config: Config = None) -> None:
    """List keys, newest first. Of a key only how it begins is known.

    Examples:
      quire key list

      quire key list --json

    Exit codes: 0 listed, also when there is none, 1 could not, 2 usage.
    """
    lines = _at_desk(api_keys.list_keys, home, config, json_output=json_output)
    if json_output:
        print_json({"keys": lines})
    else:
        _show(lines)


@key.command()
def revoke(key_id: Id, json_output: Json = False, home: Home = None, config: Config = None) -> None:
    """End a key at once. Batches that it has opened go on.

    Examples:
      quire key revoke key_01KA3Y8M5T2QJ6W0R9XV7NBCDE

    Exit codes: 0 revoked, also when it was before, 1 could not (no such key), 2 usage.
    """
    line = _at_desk(
        lambda desk: api_keys.revoke(desk, key_id),
        home,
        config,
        json_output=json_output,
        noted=lambda line: ("key_revoked", {"key": line.id}),
    )
    if json_output:
        print_json(line)
    else:
        typer.echo(f"{printable(line.id)} was revoked at {line.revoked_at}.")


@key.command()
def rotate(
    key_id: Id,
    overlap: Annotated[
        str, typer.Option("--overlap", help="How long the old key goes on: 0s, 24h, 7d.")
    ] = "24h",
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Make a key that takes the place of another: same rights, same limits, same batches.

    The new key is shown once, on standard output; the old one ends after the overlap.

    Examples:
      quire key rotate key_01KA3Y8M5T2QJ6W0R9XV7NBCDE

      quire key rotate key_01KA3Y8M5T2QJ6W0R9XV7NBCDE --overlap 7d --json

    Exit codes: 0 made, 1 could not (no such key, or not valid any more), 2 usage.
    """
    seconds = _seconds("--overlap", overlap)
    made = _at_desk(
        lambda desk: api_keys.rotate(desk, key_id, overlap_seconds=seconds),
        home,
        config,
        json_output=json_output,
        noted=lambda made: ("key_rotated", {"key": made.key.id}),
    )
    _show_new(made, json_output=json_output)


def _seconds(option: str, text: str) -> float:
    found = re.fullmatch(r"([0-9]{1,9})([smhdw])", text.strip().lower())
    seconds = int(found[1]) * _SECONDS[found[2]] if found else -1
    if not 0 <= seconds <= _LONGEST_SECONDS:
        raise typer.BadParameter(f"{option} is a number and s, m, h, d or w: 90d is ninety days")
    return float(seconds)


def _at_desk(
    ask: Callable[[ApiKeyContext], Awaitable[T]],
    home: Path | None,
    config: Path | None,
    *,
    json_output: bool,
    makes_home: bool = False,
    noted: Noted[T] | None = None,
) -> T:
    async def asking(office: Components, _: Settings) -> T:
        return await ask(ApiKeyContext(store=office.api_keys, clock=office.clock, ids=office.ids))

    return answered(
        asking, home=home, config=config, json_output=json_output, makes_home=makes_home, noted=noted
    )


def _show_new(made: NewKey, *, json_output: bool) -> None:
    if json_output:
        print_json({"text": made.text, "key": made.key})
        return
    typer.echo(made.text)
    until = f", until {made.key.expires_at}" if made.key.expires_at else ""
    typer.echo(f"{printable(made.key.id)} may {made.key.scope}{until}.", err=True)
    typer.echo("Keep the key now: it is not shown again.", err=True)


def _show(lines: Sequence[KeyLine]) -> None:
    if not lines:
        typer.echo("There are no keys. `quire key create --scope submit` makes one.")
        return
    for one in lines:
        words = [one.id, f"{one.hint}…", one.scope, one.state, one.label]
        typer.echo("  ".join(printable(word) for word in words if word))
        typer.echo(f"    {printable(', '.join(_facts(one)))}")


def _facts(one: KeyLine) -> Iterator[str]:
    yield f"made {one.created_at}"
    yield f"used {one.last_used_at}" if one.last_used_at else "not used yet"
    if one.revoked_at:
        yield f"revoked {one.revoked_at}"
    if one.expires_at:
        yield f"{'ended' if one.state == 'expired' else 'ends'} {one.expires_at}"
    if one.tenant:
        yield f"tenant {one.tenant}"
    if one.requests_per_minute:
        yield f"{one.requests_per_minute} requests a minute"
    if one.max_batches:
        yield f"{one.max_batches} batches"
    if one.max_bytes:
        yield f"{one.max_bytes} bytes"
