"""`quire library`, and the same commands as `blobforge`: PDFs in a bucket, converted by whoever comes along.

Names, options, first lines and exit codes are those of the published tools; `--json`, `--bucket` and
beginnings of hashes are ours.
"""

from collections.abc import Callable

import typer

from quire.cli import exits, library_act, library_ask, library_board, library_files, library_run, library_tend
from quire.cli.library_room import called_as

COMMANDS: dict[str, Callable[..., None]] = {
    "ingest": library_files.ingest,
    "convert": library_files.convert,
    "hydrate": library_files.hydrate_files,
    "status": library_ask.show_status,
    "list": library_ask.show_list,
    "reprioritize": library_act.reprioritize,
    "retry": library_act.retry,
    "retry-all": library_act.retry_all,
    "janitor": library_run.janitor,
    "worker": library_run.worker,
    "dashboard": library_board.dashboard,
    "watch": library_board.watch,
    "lookup": library_ask.look_up,
    "search": library_ask.search,
    "search-queue": library_ask.search_queue,
    "manifest": library_tend.manifest,
    "repair-metadata": library_tend.repair_metadata,
    "config": library_tend.shared,
    "workers": library_ask.show_workers,
    "test-s3": library_tend.store_tested,
    "logs": library_ask.show_logs,
    "download": library_files.download,
    "preview": library_files.preview,
    "cancel": library_act.cancel,
    "remove": library_act.remove,
    "clear-dead": library_act.clear_dead,
}


def assembled(name: str) -> typer.Typer:
    """All commands under this name. Without one of them: help, and exit code 1, as published."""
    app = typer.Typer(
        name=name,
        help="A library of PDFs in a bucket: ingest them, convert them anywhere, get the results back.",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for word, command in COMMANDS.items():
        app.command(word)(command)
    app.callback(invoke_without_command=True)(_none)
    return app


def _none(context: typer.Context) -> None:
    """A library of PDFs in a bucket: ingest them, convert them anywhere, get the results back."""
    called_as(context.find_root().info_name)
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(exits.COULD_NOT_RUN)


library = assembled("library")
