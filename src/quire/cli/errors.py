"""Errors as messages and exit codes: one place for all commands."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from quire.cli import exits, signals
from quire.cli.text import printable
from quire.model.errors import QuireError, Reject


@contextmanager
def exit_on_error(*, json_output: bool) -> Iterator[None]:
    """An expected error ends the command with its message and its exit code, never with a traceback."""
    try:
        yield
    except QuireError as error:
        _print_error(error.code, str(error), json_output=json_output)
        raise typer.Exit(exits.code_for(error)) from error
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        _print_error("system", f"{place}{error.strerror or error}", json_output=json_output)
        raise typer.Exit(exits.COULD_NOT_RUN) from error
    except KeyboardInterrupt as error:
        message = "stopped immediately; run the same command again to resume"
        _print_error("interrupted", message, json_output=json_output)
        raise typer.Exit(signals.exit_code(exits.INTERRUPTED)) from error


@contextmanager
def refuse_unknown_pipelines() -> Iterator[None]:
    """A pipeline that does not exist is a mistake on the command line."""
    try:
        yield
    except Reject as error:
        if error.code != "unknown_pipeline":
            raise
        raise typer.BadParameter(str(error)) from error


def _print_error(error_class: str, message: str, *, json_output: bool) -> None:
    if json_output:
        typer.echo(json.dumps({"error": {"class": error_class, "message": message}}))
    # Line by line: a list of problems stays a list.
    typer.echo("quire: " + "\n".join(printable(line) for line in message.splitlines()), err=True)
