"""What all commands of the library share: options, the library context, hashes and tiers as arguments."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from quire.assembly.library import PUBLISHED_BUCKET, open_library
from quire.cli.errors import exit_on_error
from quire.cli.options import Config, Json, JsonLines
from quire.cli.signals import end_on_signals
from quire.cli.text import printable
from quire.library import listing
from quire.library.context import LibraryContext
from quire.model.errors import Reject
from quire.model.tiers import tier_name, tier_number
from quire.settings import LIBRARY_FALLBACKS, LoadedSettings, load_here

PUBLISHED = "blobforge"  # the program name under which the published defaults hold

T = TypeVar("T")

Bucket = Annotated[
    str | None,
    typer.Option(
        "--bucket",
        help="The library: a bucket's name, s3://name/prefix or file:///folder.",
        show_default="setting library.bucket",
    ),
]
Hash = Annotated[
    str,
    typer.Argument(
        help="SHA-256 of the PDF, or at least its first 8 digits.", metavar="HASH", show_default=False
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show more.")]


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
    str, typer.Argument(help="1_critical to 5_background.", parser=_tier, metavar="TIER", show_default=False)
]


class CommonOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options that every command of the library has."""

    json_output: bool = False
    bucket: str | None = None
    config: Path | None = None


def load_settings(common: CommonOptions) -> LoadedSettings:
    return load_here(common.config, {"library.bucket": common.bucket}, LIBRARY_FALLBACKS)


_called: ContextVar[str] = ContextVar("called", default="")


def called_as(program: str | None) -> None:
    """Remember the name under which the program was started."""
    _called.set(Path(program or "").name)


def default_bucket() -> str:
    return PUBLISHED_BUCKET if _called.get() == PUBLISHED else ""


def use_library(
    work: Callable[[LibraryContext, LoadedSettings], Awaitable[T]],
    common: CommonOptions,
    *,
    probe: bool = False,
    shared_rules: bool = False,
) -> T:
    """Run `work` on the library. An expected error ends the command with its message and its exit code."""

    async def run() -> T:
        end_on_signals()  # `work` may choose otherwise
        async with open_library(
            loaded, probe=probe, shared_rules=shared_rules, default_bucket=default_bucket()
        ) as context:
            return await work(context, loaded)

    with exit_on_error(json_output=common.json_output):
        loaded = load_settings(common)
        return asyncio.run(run())


def use_document(
    work: Callable[[LibraryContext, str], Awaitable[T]],
    text: str,
    common: CommonOptions,
    *,
    shared_rules: bool = False,
) -> T:
    """Run `work` on one document, named by its hash or a hash prefix."""

    async def run(context: LibraryContext, _loaded: LoadedSettings) -> T:
        return await work(context, await listing.resolve_hash(context, text))

    return use_library(run, common, shared_rules=shared_rules)


def library_command(*, json_lines: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add --json, --bucket and --config to a command, which gets them as its first argument."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def run(**given: Any) -> None:
            common = CommonOptions(**{name: given.pop(name) for name in shared})
            command(common, **given)

        shared = {"json_output": JsonLines if json_lines else Json, "bucket": Bucket, "config": Config}
        defaults = {"json_output": False, "bucket": None, "config": None}
        own = list(inspect.signature(command).parameters.values())[1:]
        added = [
            inspect.Parameter(
                name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=defaults[name], annotation=kind
            )
            for name, kind in shared.items()
        ]
        parameters = [*own, *added]
        run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def print_field(label: str, value: Any) -> None:
    """Print a line, unless the value is empty."""
    if value not in {None, ""}:
        typer.echo(f"{label}: {printable(value)}")
