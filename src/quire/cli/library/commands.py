"""`quire library`, and the same commands as `blobforge`: PDFs in a bucket, converted by whoever comes along.

Names, options, first lines and exit codes are those of the published tools; `--json`, `--bucket` and
beginnings of hashes are ours.
"""

from collections.abc import Callable

import typer

from quire.cli import exits
from quire.cli.library import (
    bucket,
    dashboard,
    files,
    job_control,
    queries,
    workers,
)
from quire.cli.library.options import called_as

COMMANDS: dict[str, Callable[..., None]] = {
    "ingest": files.ingest,
    "convert": files.convert,
    "hydrate": files.hydrate_files,
    "status": queries.show_status,
    "list": queries.show_list,
    "reprioritize": job_control.reprioritize,
    "retry": job_control.retry,
    "retry-all": job_control.retry_all,
    "janitor": workers.janitor,
    "worker": workers.worker,
    "dashboard": dashboard.dashboard,
    "watch": dashboard.watch,
    "lookup": queries.look_up,
    "search": queries.search,
    "search-queue": queries.search_queue,
    "manifest": bucket.manifest,
    "repair-metadata": bucket.repair_metadata,
    "config": bucket.shared,
    "workers": queries.show_workers,
    "test-s3": bucket.store_tested,
    "logs": queries.show_logs,
    "download": files.download,
    "preview": files.preview,
    "cancel": job_control.cancel,
    "remove": job_control.remove,
    "clear-dead": job_control.clear_dead,
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
