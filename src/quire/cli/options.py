"""Options that several commands share, and the ways to print JSON and to ask for confirmation."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from quire.cli import exits
from quire.cli.errors import exit_on_error

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document to standard output.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Print JSON lines: one document per line.")]
JsonEvents = Annotated[bool, typer.Option("--json", help="Print events as JSON lines to standard output.")]
Home = Annotated[
    Path | None, typer.Option("--home", help="Folder for state and stored files.", show_default=False)
]
Config = Annotated[
    Path | None, typer.Option("--config", help="Settings file to read.", metavar="FILE", show_default=False)
]
BatchId = Annotated[str, typer.Argument(help="Id of the batch.", metavar="ID", show_default=False)]
OwnPipelines = Annotated[
    list[str] | None,
    typer.Option(
        "--pipeline",
        help="Also use this pipeline: module:object or file.py[:object]; may be repeated.",
        metavar="REFERENCE",
        show_default=False,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def print_json(value: object, *, indent: int | None = 2) -> None:
    """Escapes everything but ASCII: names from outside cannot send control sequences to a terminal."""
    import msgspec

    plain = msgspec.to_builtins(value, enc_hook=_to_plain, str_keys=True)
    typer.echo(json.dumps(plain, indent=indent))


def _to_plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)


def confirm(question: str, *, yes: bool, json_output: bool, option: str = "--yes") -> None:
    """Ends the command unless the user agrees. Without a terminal the answer is no: a script has to give the
    option.
    """
    if yes:
        return
    if json_output or not is_interactive():
        from quire.model.errors import Reject

        message = f"nothing was changed: add {option} to confirm without a terminal"
        with exit_on_error(json_output=json_output):
            raise Reject(message, code="not_confirmed")
    if not typer.confirm(question, err=True):
        typer.echo("Nothing was changed.", err=True)
        raise typer.Exit(exits.COULD_NOT_RUN)


def is_interactive() -> bool:
    return sys.stdin.isatty()
