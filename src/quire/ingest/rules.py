"""The rules of the upload protocol, each with its message, in the order in which they are checked.

Pure functions on decoded JSON. Accepted paths are valid keys in any store and valid paths on any file system.
Every function raises Reject; its message is the answer to the client.
"""

import re
from typing import Any

import msgspec
from msgspec import Struct

from quire.batches.submission import ROOT_PARENT
from quire.blobs import keys
from quire.ingest.context import IngestLimits, bad_request, manifest_key, original_manifest_key
from quire.model.errors import Reject
from quire.steps import page_choice

PROMPTS = ("general", "reorganization", "pinax", "description", "cheimarros")
MAX_WHOLE = 2**53 - 1  # beyond it JavaScript loses precision
_PI = re.compile(r"[0-9A-Z]{26}")
_FORBIDDEN = re.compile(r'[<>:"|?*\\\x00-\x1f\x7f-\x9f]')
# Characters that make a name look different from what it is.
_MISLEADING = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_MAX_DEPTH = 32
_MAX_WORDS = 1024
_MAX_CONFIG_BYTES = 16_384


class BatchRequest(Struct, frozen=True, kw_only=True):
    """A valid request to open a batch."""

    uploader: str
    root_path: str
    parent_pi: str
    file_count: int
    total_size: int
    metadata: dict[str, Any]
    custom_prompts: dict[str, str]


class FileRequest(Struct, frozen=True, kw_only=True):
    """A valid request to upload a file."""

    name: str
    path: str
    size: int
    content_type: str
    cid: str | None
    config: dict[str, Any]


def read_batch_request(said: Any, limits: IngestLimits) -> BatchRequest:
    said = _require_object(said)
    uploader = said.get("uploader")
    if not _is_text(uploader):
        raise bad_request("Missing or invalid uploader")
    root_path = _read_root_path(said.get("root_path"))
    file_count = _read_count(said.get("file_count"), "Invalid file_count")
    total_size = _read_count(said.get("total_size"), "Invalid total_size")
    parent_pi = said.get("parent_pi")
    if parent_pi is None or parent_pi == "":
        parent_pi = ROOT_PARENT
    if not isinstance(parent_pi, str) or not _PI.fullmatch(parent_pi):
        raise bad_request("Invalid parent_pi format (must be 26-character ULID)")
    if total_size > limits.max_batch_bytes:
        raise bad_request(f"Batch size {total_size} exceeds maximum {limits.max_batch_bytes}")
    if file_count > limits.max_files:
        raise bad_request(f"file_count {file_count} exceeds maximum {limits.max_files}")
    metadata = said.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise bad_request("Invalid metadata (must be an object)")
    if _measure(metadata) is None:
        raise bad_request("Invalid metadata: nested too deep, or not text")
    return BatchRequest(
        uploader=uploader,
        root_path=root_path,
        parent_pi=parent_pi,
        file_count=file_count,
        total_size=total_size,
        metadata=metadata,
        custom_prompts=_read_prompts(said.get("custom_prompts"), limits),
    )


def read_file_request(said: Any, batch_id: str, limits: IngestLimits) -> FileRequest:
    said = _require_object(said)
    name = said.get("file_name")
    if not _is_text(name):
        raise bad_request("Missing or invalid file_name")
    size = _read_count(said.get("file_size"), "Invalid file_size")
    if size > limits.max_file_bytes:
        raise bad_request(f"File size {size} exceeds maximum {limits.max_file_bytes}")
    path = read_logical_path(said.get("logical_path"), batch_id)
    if path.rpartition("/")[2] != name:
        raise bad_request("Invalid logical_path: its last segment must be file_name")
    _check_extension(name, limits)
    cid = said.get("cid")
    if cid is not None and (not isinstance(cid, str) or len(cid) > 200 or not cid.isprintable()):
        raise bad_request("Invalid cid")
    return FileRequest(
        name=name,
        path=path,
        size=size,
        content_type=content_type(said.get("content_type")),
        cid=cid or None,
        config=read_processing_config(said.get("processing_config")),
    )


def read_logical_path(said: Any, batch_id: str) -> str:
    """The path as it is stored: empty segments are dropped, as file systems do."""
    if not isinstance(said, str) or not said.startswith("/"):
        raise bad_request("Missing or invalid logical_path (must start with /)")
    segments = [segment for segment in said.split("/") if segment]
    if not segments:
        raise bad_request("Invalid logical_path: it names no file")
    if (fault := _find_fault(segments)) is not None:
        raise bad_request(f"Invalid logical_path: {fault}")
    path = "/" + "/".join(segments)
    key = f"staging/{batch_id}{path}"
    try:
        keys.check(key)
    except Reject as error:
        raise bad_request(f"Invalid logical_path: {error}") from error
    if key in {manifest_key(batch_id), original_manifest_key(batch_id)}:
        raise bad_request("Invalid logical_path: this name is reserved for the manifest")
    return path


def read_processing_config(said: Any) -> dict[str, Any]:
    if not isinstance(said, dict):
        raise bad_request("Missing or invalid processing_config")
    for name in ("ocr", "describe", "pinax"):
        if not isinstance(said.get(name), bool):
            raise bad_request(f"Invalid processing_config: {name} must be true or false")
    for name in ("reorganize", "cheimarros"):
        # An absent value has a meaning of its own, so no default is filled in.
        if name in said and not isinstance(said[name], bool):
            raise bad_request(f"Invalid processing_config: {name} must be true or false")
    if (wrong := page_choice.find_choice_fault(said)) is not None:
        raise bad_request(f"Invalid processing_config: {wrong}")
    length = _measure(said)
    if length is None or length > _MAX_CONFIG_BYTES:
        raise bad_request(
            f"Invalid processing_config: more than {_MAX_CONFIG_BYTES} bytes, or nested too deep"
        )
    return said


def content_type(said: Any) -> str:
    """Clients are unreliable here; only text that cannot be a content type is refused."""
    if said is None or said == "":
        return "application/octet-stream"
    if not isinstance(said, str) or len(said) > 255 or not said.isascii() or not said.isprintable():
        raise bad_request("Missing or invalid content_type")
    return said


def _require_object(said: Any) -> dict[str, Any]:
    if not isinstance(said, dict):
        raise bad_request("Invalid JSON body (must be an object)")
    return said


def _is_text(said: Any) -> bool:
    return (
        isinstance(said, str) and 0 < len(said) <= _MAX_WORDS and bool(said.strip()) and not _NUL.search(said)
    )


_NUL = re.compile("[\x00\ud800-\udfff]")


def _read_count(said: Any, words: str) -> int:
    """A positive integer; JSON does not distinguish 3 from 3.0."""
    if isinstance(said, float) and said.is_integer():
        said = int(said)
    if not isinstance(said, int) or isinstance(said, bool) or not 0 < said <= MAX_WHOLE:
        raise bad_request(words)
    return said


def _read_root_path(said: Any) -> str:
    """The root path; a bare `/` is the default of a published client."""
    if not isinstance(said, str) or not said.startswith("/"):
        raise bad_request("Missing or invalid root_path")
    segments = [segment for segment in said.split("/") if segment]
    if (fault := _find_fault(segments)) is not None:
        raise bad_request(f"Missing or invalid root_path: {fault}")
    return "/" + "/".join(segments)


def _find_fault(segments: list[str]) -> str | None:
    for segment in segments:
        if segment in {".", ".."}:
            return "it must not contain . or .. segments"
        if _FORBIDDEN.search(segment):
            return 'it must not contain any of < > : " | ? * \\ or control characters'
        if _MISLEADING.search(segment):
            return "it must not contain characters that change the direction of writing"
        if len(segment.encode()) > keys.MAX_SEGMENT_BYTES:
            return f"a segment is longer than {keys.MAX_SEGMENT_BYTES} bytes"
    return None


def _read_prompts(said: Any, limits: IngestLimits) -> dict[str, str]:
    if said is None:
        return {}
    if not isinstance(said, dict):
        raise bad_request("Invalid custom_prompts (must be an object)")
    for name, text in said.items():
        if name not in PROMPTS:
            raise bad_request(
                f"Invalid custom_prompts: unknown field {name[:80]!r}; known are {', '.join(PROMPTS)}"
            )
        if not isinstance(text, str) or _NUL.search(text):
            raise bad_request(f"Invalid custom_prompts: {name} must be text")
        if len(text) > limits.prompt_characters:
            raise bad_request(f"Invalid custom_prompts: {name} exceeds {limits.prompt_characters} characters")
    if sum(map(len, said.values())) > limits.prompts_characters:
        raise bad_request(
            f"Invalid custom_prompts: together they exceed {limits.prompts_characters} characters"
        )
    return said


def _check_extension(name: str, limits: IngestLimits) -> None:
    if not limits.allowed_extensions:
        return
    stem, dot, extension = name.rpartition(".")
    ending = dot + extension.lower() if stem else ""
    if ending not in limits.allowed_extensions:
        allowed = " ".join(limits.allowed_extensions)
        raise bad_request(f"File extension {ending or '(none)'} is not allowed; allowed are {allowed}")


def _measure(said: dict[str, Any]) -> int | None:
    """The size as JSON in bytes; None when it cannot be stored."""
    if _is_too_deep(said):
        return None
    try:
        return len(msgspec.json.encode(said))
    except UnicodeEncodeError:  # half a character
        return None


def _is_too_deep(said: dict[str, Any]) -> bool:
    level: list[Any] = [said]
    for _ in range(_MAX_DEPTH):
        level = [
            inner
            for value in level
            for inner in (value.values() if isinstance(value, dict) else value)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
