"""The `quire` program: its own options and its commands."""

import typer

from quire import __version__
from quire.cli.commands import COMMANDS
from quire.cli.lazy import build_group

_SUMMARY = "Durable document pipelines: a folder goes in, every file comes out converted or with a reason."

app = build_group("quire", _SUMMARY, COMMANDS, no_args_is_help=True, add_completion=True)


def _show_version(is_given: bool) -> None:
    if is_given:
        typer.echo(f"quire {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", help="Show the version and exit.", is_eager=True, callback=_show_version
    ),
) -> None:
    """Only `--version` is done here."""
