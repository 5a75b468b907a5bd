"""From errors to words and exit codes: one place for all commands."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from quire.cli import exits
from quire.cli.text import shown
from quire.model.errors import QuireError


@contextmanager
def told_to_people(*, json_output: bool) -> Iterator[None]:
    """An expected error ends the command with its message and its exit code, never with a traceback."""
    try:
        yield
    except QuireError as error:
        _tell(error.code, str(error), json_output=json_output)
        raise typer.Exit(exits.code_for(error)) from error
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        _tell("system", f"{place}{error.strerror or error}", json_output=json_output)
        raise typer.Exit(exits.COULD_NOT_RUN) from error
    except KeyboardInterrupt as error:
        _tell("interrupted", "stopped at once; run the same command again to resume", json_output=json_output)
        raise typer.Exit(exits.INTERRUPTED) from error


def _tell(error_class: str, message: str, *, json_output: bool) -> None:
    if json_output:
        typer.echo(json.dumps({"error": {"class": error_class, "message": message}}))
    # Line by line: a list of problems stays a list.
    typer.echo("quire: " + "\n".join(shown(line) for line in message.splitlines()), err=True)
