"""`quire key`: create, list, revoke and rotate API keys."""

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from quire.access.api_keys import Scope
from quire.cli.components import Audit, use_components
from quire.cli.options import Config, Home, Json, print_json
from quire.cli.text import printable

if TYPE_CHECKING:
    from quire.access.api_keys import ApiKeyContext, KeyLine, NewKey
    from quire.assembly.components import Components
    from quire.settings import Settings

T = TypeVar("T")

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LONGEST_SECONDS = 100 * 366 * 86_400

KeyId = Annotated[str, typer.Argument(help="Id of the key.", metavar="ID", show_default=False)]


def create(
    scope: Annotated[
        Scope, typer.Option("--scope", help="What the key may do.", show_default=False, case_sensitive=False)
    ],
    label: Annotated[str, typer.Option("--label", help="Name for people.", show_default=False)] = "",
    tenant: Annotated[
        str,
        typer.Option("--tenant", help="Tenant whose batches the key may open and see.", show_default=False),
    ] = "",
    expires: Annotated[
        str | None, typer.Option("--expires", help="Lifetime, such as 12h or 90d.", show_default=False)
    ] = None,
    requests_per_minute: Annotated[
        int, typer.Option("--requests-per-minute", min=0, help="Request limit; 0 means no limit.")
    ] = 0,
    max_batches: Annotated[
        int, typer.Option("--max-batches", min=0, help="Limit on unfinished batches; 0 means no limit.")
    ] = 0,
    max_bytes: Annotated[
        int,
        typer.Option("--max-bytes", min=0, help="Limit on bytes in unfinished batches; 0 means no limit."),
    ] = 0,
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Create an API key and show it once.

    The key is printed to standard output and cannot be shown again.

    Scopes: submit opens and fills batches and sees its own; read sees everything; operate does both and
    controls batches, dead letters and callbacks; admin also manages keys and webhooks.

    Examples:
      quire key create --scope submit --label scanner --tenant archive
      quire key create --scope operate --expires 90d --requests-per-minute 600
      QUIRE_KEY=$(quire key create --scope admin)

    Exit codes: 0 created, 1 could not run, 2 usage.
    """
    from quire.access import api_keys

    draft = api_keys.KeyDraft(
        scope=scope,
        label=label,
        tenant=tenant,
        lasts_seconds=None if expires is None else _parse_duration("--expires", expires),
        requests_per_minute=requests_per_minute,
        max_batches=max_batches,
        max_bytes=max_bytes,
    )
    made = _use_keys(
        lambda context: api_keys.create(context, draft),
        home,
        config,
        json_output=json_output,
        creates_home=True,
        audit=lambda made: ("key_created", {"key": made.key.id, "scope": made.key.scope}),
    )
    _show_new(made, json_output=json_output)


def list_keys(json_output: Json = False, home: Home = None, config: Config = None) -> None:
    """List API keys, newest first.

    Only the first characters of a key are stored.

    Examples:
      quire key list
      quire key list --json

    Exit codes: 0 listed, even if there are none, 1 could not run, 2 usage.
    """
    from quire.access import api_keys

    lines = _use_keys(api_keys.list_keys, home, config, json_output=json_output)
    if json_output:
        print_json({"keys": lines})
    else:
        _show_keys(lines)


def revoke(key_id: KeyId, json_output: Json = False, home: Home = None, config: Config = None) -> None:
    """Revoke an API key immediately.

    Batches opened with it continue.

    Examples:
      quire key revoke key_01KA3Y8M5T2QJ6W0R9XV7NBCDE

    Exit codes: 0 revoked, even if it already was, 1 could not run (no such key), 2 usage.
    """
    from quire.access import api_keys

    line = _use_keys(
        lambda context: api_keys.revoke(context, key_id),
        home,
        config,
        json_output=json_output,
        audit=lambda line: ("key_revoked", {"key": line.id}),
    )
    if json_output:
        print_json(line)
    else:
        typer.echo(f"{printable(line.id)} was revoked at {line.revoked_at}.")


def rotate(
    key_id: KeyId,
    overlap: Annotated[
        str, typer.Option("--overlap", help="How long the old key stays valid: 0s, 24h, 7d.")
    ] = "24h",
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Replace an API key with a new one with the same rights.

    Limits and batches stay the same. The new key is shown once, on standard output; the old one expires
    after the overlap.

    Examples:
      quire key rotate key_01KA3Y8M5T2QJ6W0R9XV7NBCDE
      quire key rotate key_01KA3Y8M5T2QJ6W0R9XV7NBCDE --overlap 7d --json

    Exit codes: 0 created, 1 could not run (no such key, or no longer valid), 2 usage.
    """
    from quire.access import api_keys

    seconds = _parse_duration("--overlap", overlap)
    made = _use_keys(
        lambda context: api_keys.rotate(context, key_id, overlap_seconds=seconds),
        home,
        config,
        json_output=json_output,
        audit=lambda made: ("key_rotated", {"key": made.key.id}),
    )
    _show_new(made, json_output=json_output)


def _parse_duration(option: str, text: str) -> float:
    found = re.fullmatch(r"([0-9]{1,9})([smhdw])", text.strip().lower())
    seconds = int(found[1]) * _SECONDS[found[2]] if found else -1
    if not 0 <= seconds <= _LONGEST_SECONDS:
        raise typer.BadParameter(
            f"{option} takes a number and a unit (s, m, h, d or w), such as 90d for ninety days"
        )
    return float(seconds)


def _use_keys(
    work: Callable[["ApiKeyContext"], Awaitable[T]],
    home: Path | None,
    config: Path | None,
    *,
    json_output: bool,
    creates_home: bool = False,
    audit: Audit[T] | None = None,
) -> T:
    from quire.access.api_keys import ApiKeyContext

    async def use(components: "Components", _: "Settings") -> T:
        context = ApiKeyContext(store=components.api_keys, clock=components.clock, ids=components.ids)
        return await work(context)

    return use_components(
        use, home=home, config=config, json_output=json_output, creates_home=creates_home, audit=audit
    )


def _show_new(made: "NewKey", *, json_output: bool) -> None:
    if json_output:
        print_json({"text": made.text, "key": made.key})
        return
    typer.echo(made.text)
    until = f", until {made.key.expires_at}" if made.key.expires_at else ""
    typer.echo(f"{printable(made.key.id)} has the scope {made.key.scope}{until}.", err=True)
    typer.echo("Save the key now: it will not be shown again.", err=True)


def _show_keys(lines: "Sequence[KeyLine]") -> None:
    if not lines:
        typer.echo("There are no keys. Create one with `quire key create --scope submit`.")
        return
    for one in lines:
        words = [one.id, f"{one.hint}…", one.scope, one.state, one.label]
        typer.echo("  ".join(printable(word) for word in words if word))
        typer.echo(f"    {printable(', '.join(_facts(one)))}")


def _facts(one: "KeyLine") -> Iterator[str]:
    yield f"created {one.created_at}"
    yield f"used {one.last_used_at}" if one.last_used_at else "not used yet"
    if one.revoked_at:
        yield f"revoked {one.revoked_at}"
    if one.expires_at:
        yield f"{'expired' if one.state == 'expired' else 'expires'} {one.expires_at}"
    if one.tenant:
        yield f"tenant {one.tenant}"
    if one.requests_per_minute:
        yield f"{one.requests_per_minute} requests per minute"
    if one.max_batches:
        yield f"{one.max_batches} batches"
    if one.max_bytes:
        yield f"{one.max_bytes} bytes"
