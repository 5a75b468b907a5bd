"""The `quire` command."""

import sys

import typer

from quire import __version__
from quire.cli.doctor import doctor
from quire.cli.run import run

app = typer.Typer(
    name="quire",
    help="Durable document pipelines: a folder goes in, every file comes out converted or with a reason.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(run)
app.command()(doctor)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"quire {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", help="Show the version and end.", is_eager=True, callback=_version
    ),
) -> None:
    """Durable document pipelines: a folder goes in, every file comes out converted or with a reason."""


def main() -> None:
    # Names on a disk need not fit the terminal's encoding; showing them must never end a run.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    app()


if __name__ == "__main__":
    main()
