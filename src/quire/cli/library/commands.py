"""`quire library`, and the same commands as `blobforge`: PDFs in a bucket, converted by workers anywhere.

Names, options, first lines of output and exit codes are those of the published tools; `--json`, `--bucket`
and abbreviated hashes are ours.
"""

import typer

from quire.cli import exits
from quire.cli.lazy import CommandEntry, build_group

_FILES = "quire.cli.library.files"
_QUERIES = "quire.cli.library.queries"
_JOB_CONTROL = "quire.cli.library.job_control"
_WORKERS = "quire.cli.library.workers"
_DASHBOARD = "quire.cli.library.dashboard"
_BUCKET = "quire.cli.library.bucket"

COMMANDS = {
    "ingest": CommandEntry("Add PDFs to the library and queue them for conversion.", f"{_FILES}:ingest"),
    "convert": CommandEntry("Convert one PDF on this machine, without a bucket.", f"{_FILES}:convert"),
    "hydrate": CommandEntry("Write results next to the PDFs they were made from.", f"{_FILES}:hydrate_files"),
    "status": CommandEntry("Show the state of a document.", f"{_QUERIES}:show_status"),
    "list": CommandEntry("Count documents by state and priority.", f"{_QUERIES}:show_list"),
    "reprioritize": CommandEntry("Change the priority of a queued document.", f"{_JOB_CONTROL}:reprioritize"),
    "retry": CommandEntry("Queue a failed, dead or unqueued document again.", f"{_JOB_CONTROL}:retry"),
    "retry-all": CommandEntry("Queue all failed and dead documents again.", f"{_JOB_CONTROL}:retry_all"),
    "janitor": CommandEntry("Recover stale jobs and queue failed ones again, once.", f"{_WORKERS}:janitor"),
    "worker": CommandEntry("Convert documents of the library until stopped.", f"{_WORKERS}:worker"),
    "dashboard": CommandEntry("Show an overview of the library.", f"{_DASHBOARD}:dashboard"),
    "watch": CommandEntry("Show a live overview of the library until Ctrl-C.", f"{_DASHBOARD}:watch"),
    "lookup": CommandEntry("Look up a document in the manifest.", f"{_QUERIES}:look_up"),
    "search": CommandEntry("Find documents by part of a name or tag.", f"{_QUERIES}:search"),
    "search-queue": CommandEntry(
        "Find unfinished documents by part of a name or tag.", f"{_QUERIES}:search_queue"
    ),
    "manifest": CommandEntry("Show or repair the index of the library.", f"{_BUCKET}:manifest"),
    "repair-metadata": CommandEntry(
        "Restore lost names and tags of stored PDFs.", f"{_BUCKET}:repair_metadata"
    ),
    "config": CommandEntry(
        "Show or change the settings shared by all workers of the bucket.", f"{_BUCKET}:show_config"
    ),
    "workers": CommandEntry("List registered workers, most recently seen first.", f"{_QUERIES}:show_workers"),
    "test-s3": CommandEntry(
        "Check that the store supports everything the library needs.", f"{_BUCKET}:check_store"
    ),
    "logs": CommandEntry(
        "Show the last error of a document and its converter output.", f"{_QUERIES}:show_logs"
    ),
    "download": CommandEntry("Download the result of a document.", f"{_FILES}:download"),
    "preview": CommandEntry("Show the first lines of the Markdown of a document.", f"{_FILES}:preview"),
    "cancel": CommandEntry("Take a document from its worker and queue it again.", f"{_JOB_CONTROL}:cancel"),
    "remove": CommandEntry("Remove a document from the library.", f"{_JOB_CONTROL}:remove"),
    "clear-dead": CommandEntry("Forget all dead documents.", f"{_JOB_CONTROL}:clear_dead"),
}
_SUMMARY = "A library of PDFs in a bucket: ingest them, convert them anywhere, get the results back."


def build_library_app(name: str, *, add_completion: bool = False) -> typer.Typer:
    """All commands under this name. Without a command: help, and exit code 1, as published."""
    app = build_group(name, _SUMMARY, COMMANDS, add_completion=add_completion)
    app.callback(invoke_without_command=True)(_remember_name)
    return app


def _remember_name(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(exits.COULD_NOT_RUN)
    from quire.cli.library.options import called_as

    called_as(context.find_root().info_name)


library = build_library_app("library")
