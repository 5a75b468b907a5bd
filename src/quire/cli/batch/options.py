"""What all `quire batch` commands share: their options, the way into the office and out again."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from quire.assembly.components import open_components
from quire.assembly.components import Components
from quire.cli import exits
from quire.cli.errors import told_to_people
from quire.ledger.port import OperatorAction
from quire.model.errors import Misconfigured
from quire.settings import Settings, load_here
from quire.system import who

T = TypeVar("T")
# What is written into the audit trail of an act that concerns no single batch: its name, and of what.
Noted = Callable[[T], tuple[str, dict[str, Any]]]

Id = Annotated[str, typer.Argument(help="The id of the batch.", metavar="ID", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
JsonLines = Annotated[bool, typer.Option("--json", help="JSON lines: one document for each line.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the batch's events.", show_default=False)]
Home = Annotated[
    Path | None, typer.Option("--home", help="Where state and stored bytes live.", show_default=False)
]
Config = Annotated[Path | None, typer.Option("--config", help="A quire.toml to read.", show_default=False)]


def answered(
    ask: Callable[[Components, Settings], Awaitable[T]],
    *,
    home: Path | None,
    config: Path | None,
    json_output: bool,
    makes_home: bool = False,
    noted: Noted[T] | None = None,
) -> T:
    """Ask the office; an expected error ends the command with its message and its exit code. With `noted` it
    is an act, and goes into the audit trail as it does when it is done through the API.
    """
    with told_to_people(json_output=json_output):
        settings = load_here(config=config, overrides={"home": None if home is None else str(home)}).settings
        if settings.ledger == "sqlite" and not makes_home and not settings.home.is_dir():
            # Looking must leave no trace: opening would make the folder, and then say that it is empty.
            raise Misconfigured(
                f"there is no home folder {settings.home}; nothing was run there, or check --home"
            )
        try:
            return asyncio.run(_asked(ask, settings, noted))
        except BrokenPipeError:
            # The reader has seen enough (`| head`); what is left in the buffer must not be tried at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(exits.COULD_NOT_RUN) from None


async def _asked(
    ask: Callable[[Components, Settings], Awaitable[T]], settings: Settings, noted: Noted[T] | None
) -> T:
    async with open_components(settings) as office:
        answer = await ask(office, settings)
        if noted is not None:
            await office.control.record_action(act_of(office, ""), *noted(answer))
        return answer


def act_of(office: Components, reason: str) -> OperatorAction:
    return OperatorAction(actor=who(), reason=reason, now=office.clock.now())


def print_json(value: object, *, indent: int | None = 2) -> None:
    """With everything but plain letters escaped: names from outside do nothing to a terminal here either."""
    typer.echo(json.dumps(msgspec.to_builtins(value), indent=indent))
