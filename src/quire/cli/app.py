"""The commands of `quire`, put together."""

import typer

from quire import __version__
from quire.cli.batch.commands import batch
from quire.cli.doctor import doctor
from quire.cli.library.commands import library
from quire.cli.queue.commands import queue
from quire.cli.run.commands import run
from quire.cli.server.clean import clean_up
from quire.cli.server.key import key
from quire.cli.server.serve import serve
from quire.cli.server.webhook import webhook
from quire.cli.upload.commands import upload
from quire.cli.worker.commands import conductor, worker
from quire.cli.worker.task import task

app = typer.Typer(
    name="quire",
    help="Durable document pipelines: a folder goes in, every file comes out converted or with a reason.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(run)
app.command()(serve)
app.command()(upload)
app.command()(doctor)
app.command("clean")(clean_up)
app.command()(conductor)
app.command()(worker)
app.add_typer(batch)
app.add_typer(queue)
app.add_typer(webhook)
app.add_typer(key)
app.add_typer(task)
app.add_typer(library)


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
