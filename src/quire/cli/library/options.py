"""What all commands of the library share: options, the library context, hashes and tiers as arguments."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from quire.assembly.library import PUBLISHED_BUCKET, open_library
from quire.cli import exits
from quire.cli.errors import exit_on_error
from quire.cli.text import printable
from quire.library import listing
from quire.library.context import LibraryContext
from quire.model.errors import Reject
from quire.model.tiers import tier_name, tier_number
from quire.settings import LIBRARY_FALLBACKS, LoadedSettings, load_here

PUBLISHED = "blobforge"  # the name of the program under which the published defaults hold

T = TypeVar("T")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Bucket = Annotated[
    str | None,
    typer.Option(
        "--bucket",
        help="The library: a bucket's name, s3://name/prefix or file:///folder.",
        show_default="setting library.bucket",
    ),
]
Config = Annotated[Path | None, typer.Option("--config", help="A quire.toml to read.", show_default=False)]
Hash = Annotated[
    str,
    typer.Argument(
        help="SHA-256 of the PDF, or its first digits: at least 8.", metavar="HASH", show_default=False
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only tell what would be done.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Tell more.")]


def _tier(text: str) -> str:
    try:
        return tier_name(tier_number(text))
    except Reject as error:
        raise typer.BadParameter(str(error)) from error


Priority = Annotated[
    str | None,
    typer.Option(
        "--priority",
        "-p",
        help="1_critical to 5_background.",
        parser=_tier,
        metavar="TIER",
        show_default=False,
    ),
]
Tier = Annotated[
    str,
    typer.Argument(help="1_critical to 5_background.", parser=_tier, metavar="TIER", show_default=False),
]


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """How the command was asked to find the library, and to speak."""

    json_output: bool = False
    bucket: str | None = None
    config: Path | None = None


def loaded_for(way: Way) -> LoadedSettings:
    return load_here(way.config, {"library.bucket": way.bucket}, LIBRARY_FALLBACKS)


_called: ContextVar[str] = ContextVar("called", default="")


def called_as(program: str | None) -> None:
    """Under which name the command was started."""
    _called.set(Path(program or "").name)


def default_bucket() -> str:
    return PUBLISHED_BUCKET if _called.get() == PUBLISHED else ""


def within(
    ask: Callable[[LibraryContext, LoadedSettings], Awaitable[T]],
    way: Way,
    *,
    probed: bool = False,
    ruled: bool = False,
) -> T:
    """Ask in the context; an expected error ends the command with its message and its exit code."""

    async def asking() -> T:
        async with open_library(
            loaded, probed=probed, ruled=ruled, default_bucket=default_bucket()
        ) as context:
            return await ask(context, loaded)

    with exit_on_error(json_output=way.json_output):
        loaded = loaded_for(way)
        return asyncio.run(asking())


def about(
    ask: Callable[[LibraryContext, str], Awaitable[T]], text: str, way: Way, *, ruled: bool = False
) -> T:
    """Ask about one document, named by its hash or the beginning of it."""

    async def asking(context: LibraryContext, _loaded: LoadedSettings) -> T:
        return await ask(context, await listing.resolve_hash(context, text))

    return within(asking, way, ruled=ruled)


def print_json(document: object) -> None:
    typer.echo(json.dumps(msgspec.to_builtins(document, enc_hook=_plain, str_keys=True), indent=2))


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    return str(value.value) if isinstance(value, StrEnum) else str(value)


def sure(question: str, *, force: bool, json_output: bool) -> None:
    """Ends the command unless somebody says yes. Where nobody can be asked the answer is no."""
    if force:
        return
    if json_output or not sys.stdin.isatty():
        with exit_on_error(json_output=json_output):
            raise Reject(
                "nothing was changed: nobody can be asked here, so give --force", code="not_confirmed"
            )
    if not typer.confirm(question, err=True):
        typer.echo("Nothing was changed.", err=True)
        raise typer.Exit(exits.COULD_NOT_RUN)


def say(label: str, value: Any) -> None:
    """A line about something, where there is something to say."""
    if value not in {None, ""}:
        typer.echo(f"{label}: {printable(value)}")
