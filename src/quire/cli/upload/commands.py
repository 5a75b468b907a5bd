"""`quire upload`: sends a folder to a server, for people without a client of their own."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quire.cli import exits
from quire.cli.console import Reporter
from quire.cli.errors import exit_on_error
from quire.cli.options import Config, Home, JsonEvents
from quire.cli.signals import stop_on_signals

if TYPE_CHECKING:
    from quire.client.folder_upload import UploadRequest, UploadResult
    from quire.settings import Settings


def upload(
    folder: Annotated[
        Path, typer.Argument(help="Folder to upload.", metavar="DIR", exists=True, file_okay=False)
    ],
    to: Annotated[str | None, typer.Option("--to", help="Address of the server.", metavar="URL")] = None,
    key_file: Annotated[
        Path | None, typer.Option("--key-file", help="File with the API key.", show_default=False)
    ] = None,
    root_path: Annotated[
        str | None,
        typer.Option("--root-path", help="Path on the server to put the files under.", show_default="/"),
    ] = None,
    parent: Annotated[
        str | None, typer.Option("--parent", help="Identifier of the parent of the batch.")
    ] = None,
    uploader: Annotated[
        str | None, typer.Option("--uploader", help="Name of the uploader.", show_default="user name")
    ] = None,
    metadata: Annotated[
        str | None, typer.Option("--metadata", help="Metadata of the batch, as a JSON object.")
    ] = None,
    prompts: Annotated[
        Path | None, typer.Option("--prompts", help="JSON file with custom prompts.", show_default=False)
    ] = None,
    processing: Annotated[
        str | None, typer.Option("--processing", help="Processing options, as a JSON object.")
    ] = None,
    parallel: Annotated[
        int | None, typer.Option("--parallel", help="Number of files to send at once.", show_default="5")
    ] = None,
    parallel_parts: Annotated[
        int | None,
        typer.Option("--parallel-parts", help="Number of parts of a file to send at once.", show_default="3"),
    ] = None,
    allow_failed: Annotated[
        bool, typer.Option("--allow-failed", help="Close the batch even if files failed.")
    ] = False,
    new: Annotated[
        bool, typer.Option("--new", help="Start a new upload instead of resuming the last one.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the files that would be sent, and send nothing.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the server has finished the batch.")
    ] = False,
    json_output: JsonEvents = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Upload a folder to a server as one batch.

    The same command run again picks up where it left off: only files that the server does not have are
    sent. The batch is closed when all files have arrived. The API key comes from QUIRE_UPLOAD_KEY, the
    settings or a file.

    Examples:
      quire upload ./scans --to https://ingest.example.org
      quire upload ./scans --to https://ingest.example.org --dry-run

    Exit codes: 0 all uploaded and the batch closed, 1 some files failed and the batch is open, or could not
    run, 3 closed without the failed files (--allow-failed), 2 usage, 130 stopped by Ctrl-C.
    """
    from quire.cli.upload.output import show_plan, show_result
    from quire.cli.upload.request import build_request, read_key
    from quire.client.folder_upload import plan_request
    from quire.settings import UPLOAD_FALLBACKS, load_here

    reporter = Reporter(json_output=json_output, events=True)
    with exit_on_error(json_output=json_output):
        overrides: dict[str, object] = {
            "home": None if home is None else str(home),
            "upload.url": to,
            "upload.key": None if key_file is None else read_key(key_file),
            "upload.root_path": root_path,
            "upload.parent": parent,
            "upload.uploader": uploader,
            "upload.metadata": metadata,
            "upload.processing": processing,
            "upload.parallel": parallel,
            "upload.parallel_parts": parallel_parts,
        }
        settings = load_here(config, overrides, UPLOAD_FALLBACKS).settings
        if not settings.upload.url and not dry_run:
            raise typer.BadParameter("no server given; use --to URL or the setting upload.url")
        request = build_request(
            settings, folder, prompts, begin_anew=new, allow_failed=allow_failed, wait=wait
        )
        if dry_run:
            plan = plan_request(request)
            show_plan(plan, json_output=json_output)
            raise typer.Exit(exits.COULD_NOT_RUN if plan.refused else exits.DONE)
        result = asyncio.run(_upload(request, settings, reporter))
    show_result(result, json_output=json_output)
    raise typer.Exit(_exit_code(result))


async def _upload(request: "UploadRequest", settings: "Settings", reporter: Reporter) -> "UploadResult":
    from quire.assembly.upload import open_upload
    from quire.cli.upload.output import show_progress
    from quire.client.folder_upload import upload_folder

    stop = stop_on_signals(reporter.say)
    with show_progress(reporter) as observer:
        async with open_upload(settings, request.folder) as context:
            return await upload_folder(request, context, observer, stop)


def _exit_code(result: "UploadResult") -> int:
    from quire.client.folder_upload import FAILED

    if result.stopped:
        return exits.INTERRUPTED
    if result.status == FAILED or (result.failures and not result.finalized):
        return exits.COULD_NOT_RUN
    return exits.FINISHED_WITH_FAILURES if result.failures or result.failed_there else exits.DONE
