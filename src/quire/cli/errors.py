"""From errors to words and exit codes: one place for all commands."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from quire.cli import exits
from quire.model.errors import QuireError


@contextmanager
def told_to_people(*, json_output: bool) -> Iterator[None]:
    """An expected error ends the command with its message and its exit code, never with a traceback."""
    try:
        yield
    except QuireError as error:
        if json_output:
            typer.echo(json.dumps({"error": {"class": error.code, "message": str(error)}}))
        typer.echo(f"quire: {error}", err=True)
        raise typer.Exit(exits.code_for(error)) from error
    except KeyboardInterrupt as error:
        typer.echo("quire: stopped at once; run the same command again to resume", err=True)
        raise typer.Exit(exits.INTERRUPTED) from error
