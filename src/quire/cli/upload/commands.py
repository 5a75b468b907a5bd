"""`quire upload`: a folder goes to an ingest service, for people without a client of their own."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from quire.assembly.upload import open_upload
from quire.cli import exits
from quire.cli.console import Talk
from quire.cli.errors import told_to_people
from quire.cli.signals import stop_on_signals
from quire.cli.upload.output import show_end, show_plan, watcher_for
from quire.client.folder_upload import (
    FAILED,
    UploadRequest,
    UploadResult,
    plan_request,
    upload_folder,
)
from quire.client.plan import (
    EVERYTHING,
    check_object,
    check_parent,
    check_root_path,
    decode_json,
    read_custom_prompts,
    read_processing_config,
)
from quire.model.errors import Misconfigured
from quire.settings import UPLOAD_FALLBACKS, Settings, load_here
from quire.system import who

LARGEST_KEY_BYTES = 4096
LARGEST_PROMPTS_BYTES = 1 << 20


def upload(
    folder: Annotated[
        Path, typer.Argument(help="The folder to upload.", metavar="DIR", exists=True, file_okay=False)
    ],
    to: Annotated[str | None, typer.Option("--to", help="Address of the server.", metavar="URL")] = None,
    key_file: Annotated[
        Path | None, typer.Option("--key-file", help="File with the API key.", show_default=False)
    ] = None,
    root_path: Annotated[
        str | None, typer.Option("--root-path", help="Put files below this path.", show_default="/")
    ] = None,
    parent: Annotated[str | None, typer.Option("--parent", help="Identifier to put the batch below.")] = None,
    uploader: Annotated[
        str | None, typer.Option("--uploader", help="Who uploads.", show_default="user name")
    ] = None,
    metadata: Annotated[
        str | None, typer.Option("--metadata", help="JSON object that goes with the batch.")
    ] = None,
    prompts: Annotated[
        Path | None, typer.Option("--prompts", help="JSON file of custom prompts.", show_default=False)
    ] = None,
    processing: Annotated[
        str | None, typer.Option("--processing", help="JSON object: what to do with files.")
    ] = None,
    parallel: Annotated[
        int | None, typer.Option("--parallel", help="Files at once.", show_default="5")
    ] = None,
    parallel_parts: Annotated[
        int | None, typer.Option("--parallel-parts", help="Parts of one file at once.", show_default="3")
    ] = None,
    allow_failed: Annotated[
        bool, typer.Option("--allow-failed", help="Close the batch even when files failed.")
    ] = False,
    new: Annotated[bool, typer.Option("--new", help="Begin anew instead of going on.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be sent, send nothing.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the server has done its part.")] = False,
    json_output: Annotated[bool, typer.Option("--json", help="JSON lines on standard output.")] = False,
    home: Annotated[
        Path | None, typer.Option("--home", help="Where state lives.", show_default=False)
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="A quire.toml to read.", show_default=False)
    ] = None,
) -> None:
    """Upload a folder to an ingest service as one batch.

    The same command again goes on where it stopped: only what the server does not have is sent. The batch is
    closed when every file is there. A key is given in QUIRE_UPLOAD_KEY, the settings or a file.

    Examples:
      quire upload ./scans --to https://ingest.example.org

      quire upload ./scans --to https://ingest.example.org --dry-run

    Exit codes: 0 all uploaded and the batch closed, 1 some files failed and the batch is open, or could not
    run, 3 closed without files that failed (--allow-failed), 2 usage, 130 stopped by Ctrl-C.
    """
    talk = Talk(json_output=json_output, events=True)
    with told_to_people(json_output=json_output):
        overrides: dict[str, object] = {
            "home": None if home is None else str(home),
            "upload.url": to,
            "upload.key": None if key_file is None else _key(key_file),
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
            raise typer.BadParameter("say where to: --to URL, or the setting upload.url")
        request = _request(settings, folder, prompts, begin_anew=new, allow_failed=allow_failed, wait=wait)
        if dry_run:
            plan = plan_request(request)
            show_plan(plan, json_output=json_output)
            raise typer.Exit(exits.COULD_NOT_RUN if plan.refused else exits.DONE)
        ended = asyncio.run(_upload(request, settings, talk))
    show_end(ended, json_output=json_output)
    raise typer.Exit(_code(ended))


async def _upload(request: UploadRequest, settings: Settings, talk: Talk) -> UploadResult:
    stop = stop_on_signals(talk.say)
    with watcher_for(talk) as watcher:
        async with open_upload(settings, request.folder) as desk:
            return await upload_folder(request, desk, watcher, stop)


def _request(
    settings: Settings,
    folder: Path,
    prompts: Path | None,
    *,
    begin_anew: bool,
    allow_failed: bool,
    wait: bool,
) -> UploadRequest:
    chosen = settings.upload
    said = decode_json(chosen.processing or "{}", "upload.processing (--processing)")
    metadata = decode_json(chosen.metadata or "{}", "upload.metadata (--metadata)")
    asked = {}
    if prompts is not None:
        asked = read_custom_prompts(decode_json(_read(prompts, LARGEST_PROMPTS_BYTES), str(prompts)), str(prompts))
    return UploadRequest(
        folder=folder,
        url=chosen.url.rstrip("/"),
        uploader=chosen.uploader or who().partition("@")[0],
        config=read_processing_config(said, "upload.processing (--processing)", EVERYTHING),
        root_path=check_root_path(chosen.root_path),
        parent=check_parent(chosen.parent),
        metadata=check_object(metadata, "upload.metadata (--metadata)"),
        prompts=asked,
        files_at_once=chosen.parallel,
        parts_at_once=chosen.parallel_parts,
        begin_anew=begin_anew,
        allow_failed=allow_failed,
        wait=wait,
        own_folders=(settings.home,),
    )


def _key(file: Path) -> str:
    key = _read(file, LARGEST_KEY_BYTES).decode("utf-8", "replace").strip()
    if not key.isascii() or not key.isprintable() or not key:
        raise Misconfigured(f"{file} holds no key: one line of plain letters is wanted")
    return key


def _read(file: Path, most: int) -> bytes:
    with file.open("rb") as opened:
        read = opened.read(most + 1)
    if len(read) > most:
        raise Misconfigured(f"{file} is too large: {most} bytes are allowed")
    return read


def _code(ended: UploadResult) -> int:
    if ended.stopped:
        return exits.INTERRUPTED
    if ended.status == FAILED or (ended.failures and not ended.finalized):
        return exits.COULD_NOT_RUN
    return exits.FINISHED_WITH_FAILURES if ended.failures or ended.failed_there else exits.DONE
