"""The request of `quire upload`, from settings, options and files."""

from pathlib import Path

from quire.client.folder_upload import UploadRequest
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
from quire.settings import Settings
from quire.system import user_at_host

LARGEST_KEY_BYTES = 4096
LARGEST_PROMPTS_BYTES = 1 << 20


def build_request(
    settings: Settings,
    folder: Path,
    prompts: Path | None,
    *,
    begin_anew: bool,
    allow_failed: bool,
    wait: bool,
) -> UploadRequest:
    chosen = settings.upload
    processing = decode_json(chosen.processing or "{}", "upload.processing (--processing)")
    metadata = decode_json(chosen.metadata or "{}", "upload.metadata (--metadata)")
    custom_prompts = {}
    if prompts is not None:
        custom_prompts = read_custom_prompts(
            decode_json(_read(prompts, LARGEST_PROMPTS_BYTES), str(prompts)), str(prompts)
        )
    return UploadRequest(
        folder=folder,
        url=chosen.url.rstrip("/"),
        uploader=chosen.uploader or user_at_host().partition("@")[0],
        config=read_processing_config(processing, "upload.processing (--processing)", EVERYTHING),
        root_path=check_root_path(chosen.root_path),
        parent=check_parent(chosen.parent),
        metadata=check_object(metadata, "upload.metadata (--metadata)"),
        prompts=custom_prompts,
        files_at_once=chosen.parallel,
        parts_at_once=chosen.parallel_parts,
        begin_anew=begin_anew,
        allow_failed=allow_failed,
        wait=wait,
        own_folders=(settings.home,),
    )


def read_key(file: Path) -> str:
    key = _read(file, LARGEST_KEY_BYTES).decode("utf-8", "replace").strip()
    if not key.isascii() or not key.isprintable() or not key:
        raise Misconfigured(f"{file} holds no API key: it must be one line of ASCII text")
    return key


def _read(file: Path, limit: int) -> bytes:
    with file.open("rb") as opened:
        read = opened.read(limit + 1)
    if len(read) > limit:
        raise Misconfigured(f"{file} is too large; the limit is {limit} bytes")
    return read
