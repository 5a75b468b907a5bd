"""Plans the upload of a folder: every file with its path on the server, every excluded file with a reason.

Nothing is sent and only configuration files are opened: a name that the server would refuse and a
configuration that cannot be read are reported before the first byte is sent.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from quire.model.errors import Reject
from quire.steps import page_choice
from quire.tools.folder_scan import ScannedFile, check_roots, scan
from quire.tools.shares import this_machine

CONFIG_NAME = ".arke-process.json"
EVERYTHING: Mapping[str, Any] = {"ocr": True, "describe": True, "pinax": True}
PROMPTS = ("general", "reorganization", "pinax", "description", "cheimarros")
_OPTIONAL = ("reorganize", "cheimarros")
_LARGEST_CONFIG_BYTES = 16_384
_FORBIDDEN = re.compile(r'[<>:"|?*\\\x00-\x1f\x7f-\x9f]')
_RESERVED = "/_manifest.json"  # the server stores its own list of files there
_PARENT = re.compile(r"[0-9A-Z]{26}")


class PlannedFile(Struct, frozen=True, kw_only=True):
    """A file that is to be sent. `path` is within the folder, `logical_path` on the server."""

    path: str
    logical_path: str
    source: Path
    size: int
    stamp: str
    config: Mapping[str, Any]
    below: int = 1  # as of ScannedFile


class ExcludedFile(Struct, frozen=True, kw_only=True):
    path: str
    state: str  # skipped, failed
    error_class: str
    reason: str


class UploadPlan(Struct, frozen=True, kw_only=True):
    """`files` are sorted by size, the smallest first."""

    files: tuple[PlannedFile, ...]
    skipped: tuple[ExcludedFile, ...]
    refused: tuple[ExcludedFile, ...]

    @property
    def total_bytes(self) -> int:
        return sum(file.size for file in self.files)


def plan_upload(
    folder: Path, *, root_path: str, config: Mapping[str, Any], leave_out: Iterable[Path] = ()
) -> UploadPlan:
    """Raises Reject for a folder, a root path or a configuration that cannot be used."""
    root = check_root_path(root_path)
    check_roots([folder])
    found = list(scan([folder], leave_out=tuple(leave_out)))
    if any(one.source == folder for one in found if one.state == "found"):
        raise Reject(f"{folder} is not a folder", code="bad_path")
    configs = dict(_read_configs(found, config))
    files: list[PlannedFile] = []
    skipped: list[ExcludedFile] = []
    refused: list[ExcludedFile] = []
    for one in found:
        if _is_config(one):
            continue
        if one.error_class == "empty_file":  # no failure here: the protocol has no files without bytes
            skipped.append(_exclude(one, "skipped", one.error_class, "the file is empty (0 bytes)"))
        elif one.state != "found":
            chosen = skipped if one.state == "skipped" else refused
            chosen.append(_exclude(one, one.state, one.error_class, one.reason))
        elif (flaw := find_path_flaw(logical := join_path(root, one.path))) is not None:
            refused.append(_exclude(one, "failed", "bad_name", flaw))
        else:
            files.append(
                PlannedFile(
                    path=one.path,
                    logical_path=logical,
                    source=one.source,
                    size=one.size,
                    stamp=one.stamp,
                    below=one.below,
                    config=configs.get(one.source.parent, config),
                )
            )
    files.sort(key=lambda file: (file.size, file.path))
    return UploadPlan(files=tuple(files), skipped=tuple(skipped), refused=tuple(refused))


def join_path(root: str, path: str) -> str:
    """A path below the root path, as it is sent to the server."""
    return f"{root.rstrip('/')}/{path}"


def find_path_flaw(logical_path: str) -> str | None:
    """Why the server would refuse a path; None when it would not."""
    if (found := _FORBIDDEN.search(logical_path)) is not None:
        return f"its path contains {found[0]!a}, which the server refuses; rename it"
    segments = logical_path.split("/")
    if segments[0] or len(segments) < 2 or not all(segments[1:]) or not {".", ".."}.isdisjoint(segments):
        return "its path has an empty part, or one that is . or .., which the server refuses"
    if logical_path == _RESERVED:
        return "the server keeps its own list of files under this name; rename it, or use another --root-path"
    return None


def check_root_path(root_path: str) -> str:
    """The root path without slashes at its end; `/` itself stays."""
    root = root_path.rstrip("/") or "/"
    flaw = None if root == "/" else find_path_flaw(root)
    if not root_path.startswith("/") or (flaw is not None and root != _RESERVED):
        advice = 'begin with /, no empty parts, no . or .., none of < > : " | ? * \\'
        raise Reject(f"the root path {root_path!a} cannot be used: {advice}", code="bad_path")
    return root


def check_parent(parent: str) -> str:
    if parent and not _PARENT.fullmatch(parent):
        message = f"the parent {parent!a} is not an identifier: 26 digits and capital letters"
        raise Reject(message, code="bad_path")
    return parent


def read_processing_config(
    said: object, place: str, default: Mapping[str, Any] = EVERYTHING
) -> dict[str, Any]:
    """A processing configuration; ocr, describe and pinax are as in the default where it does not set them.

    Unknown keys are kept. Raises Reject that names the place.
    """
    table = check_object(said, place)
    for name in (*EVERYTHING, *_OPTIONAL):
        if name in table and not isinstance(table[name], bool):
            raise Reject(f"{place}: {name} must be true or false", code="bad_processing")
    if (wrong := page_choice.find_choice_fault(table)) is not None:
        raise Reject(f"{place}: {wrong}", code="bad_processing")
    return {name: default[name] for name in EVERYTHING} | table


def read_custom_prompts(said: object, place: str) -> dict[str, str]:
    table = check_object(said, place)
    for name, text in table.items():
        if name not in PROMPTS or not isinstance(text, str):
            known = ", ".join(PROMPTS)
            raise Reject(f"{place}: {name!a} must be one of {known}, with text", code="bad_processing")
    return table


def check_object(said: object, place: str) -> dict[str, Any]:
    if not isinstance(said, dict):
        raise Reject(f"{place} must be a JSON object", code="bad_processing")
    return said


def decode_json(text: bytes | str, place: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Reject(f"{place} is not JSON: {error}", code="bad_processing") from error


def _is_config(found: ScannedFile) -> bool:
    return found.source.name == CONFIG_NAME and not found.path.endswith("/")


def _read_configs(
    found: Iterable[ScannedFile], default: Mapping[str, Any]
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The configuration of each folder that has one; it does not apply to folders below."""
    for one in found:
        if _is_config(one):
            said = decode_json(_read_config_file(one.source), str(one.source))
            yield one.source.parent, read_processing_config(said, str(one.source), default)


def _read_config_file(path: Path) -> bytes:
    """Raises Reject for anything but a small regular file: ignoring it would ignore what was asked for."""
    try:
        if this_machine().hold(path):
            facts, head = this_machine().read_head(path, _LARGEST_CONFIG_BYTES, below=1)
            if facts.st_size > _LARGEST_CONFIG_BYTES:
                raise Reject(f"{path} is not a file of at most 16 KiB", code="bad_processing")
            return head
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        message = f"{path} cannot be read ({error.strerror}); links are not followed"
        raise Reject(message, code="bad_processing") from error
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_CONFIG_BYTES:
            raise Reject(f"{path} is not a file of at most 16 KiB", code="bad_processing")
        return file.read(_LARGEST_CONFIG_BYTES)


def _exclude(found: ScannedFile, state: str, error_class: str, reason: str) -> ExcludedFile:
    return ExcludedFile(path=found.path, state=state, error_class=error_class, reason=reason)
