"""Opens the components of a home folder for one command, and closes them again.

Imports `assembly` when a command runs: parsing a command line and `--help` need none of it.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from quire.cli import exits
from quire.cli.errors import exit_on_error

if TYPE_CHECKING:
    from quire.assembly.components import Components
    from quire.ledger.port import OperatorAction
    from quire.settings import Settings

T = TypeVar("T")
Work = Callable[["Components", "Settings"], Awaitable[T]]
# Of a change that concerns no single batch: its name and its details in the audit trail.
Audit = Callable[[T], tuple[str, dict[str, Any]]]


def use_components(
    work: Work[T],
    *,
    home: Path | None,
    config: Path | None,
    json_output: bool,
    creates_home: bool = False,
    audit: Audit[T] | None = None,
) -> T:
    """Run `work` on the components. An expected error ends the command with its message and its exit code.
    With `audit` the result is recorded in the audit trail, as it is for the same change through the API.
    """
    from quire.model.errors import Misconfigured
    from quire.settings import load_here

    with exit_on_error(json_output=json_output):
        settings = load_here(config=config, overrides={"home": None if home is None else str(home)}).settings
        if settings.ledger == "sqlite" and not creates_home and not settings.home.is_dir():
            # Inspection leaves no trace: opening would create the folder and then find it empty.
            raise Misconfigured(f"there is no home folder {settings.home}; check --home")
        try:
            return asyncio.run(_use_components(work, settings, audit))
        except BrokenPipeError:
            # The reader closed the pipe (`| head`): the rest of the buffer must not be written at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(exits.COULD_NOT_RUN) from None


async def _use_components(work: Work[T], settings: "Settings", audit: Audit[T] | None) -> T:
    from quire.assembly.components import open_components

    async with open_components(settings) as components:
        result = await work(components, settings)
        if audit is not None:
            await components.control.record_action(operator_action(components, ""), *audit(result))
        return result


def operator_action(components: "Components", reason: str) -> "OperatorAction":
    """The action of the person at the terminal, now."""
    from quire.ledger.port import OperatorAction
    from quire.system import user_at_host

    return OperatorAction(actor=user_at_host(), reason=reason, now=components.clock.now())
