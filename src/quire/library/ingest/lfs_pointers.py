"""Git LFS pointers: small files that stand for large ones, and where the large ones are on this disk.

Promises: a pointer is recognised as by the published tools, and parsed strictly; the object is found without
starting a process and without touching the work tree. The object found is not verified yet.
"""

import os
import re
import stat
from pathlib import Path

from msgspec import Struct

HEAD_CHARACTERS = 200  # in which a pointer must name its object
MAX_POINTER_BYTES = 1024  # by the specification
_OID = re.compile(r"(?:^|\n)oid sha256:([0-9a-f]{64})(?=\r?\n|$)")
_SIZE = re.compile(r"(?:^|\n)size (0|[1-9][0-9]{0,18})(?=\r?\n|$)")
_GITDIR = re.compile(r"gitdir: ([^\n\r]+)")
_SECTION = re.compile(r"\s*\[\s*([A-Za-z0-9.-]+)\s*\]\s*(?:[#;].*)?")
_STORAGE = re.compile(r"\s*storage\s*=\s*([^#;\"\\]*?)\s*(?:[#;].*)?", re.IGNORECASE)
_MAX_CONFIG_BYTES = 1 << 20


class LfsPointer(Struct, frozen=True):
    """`size` is that of the file it stands for; None if the pointer does not say."""

    oid: str
    size: int | None


def parse_pointer(content: bytes) -> LfsPointer | None:
    """`content` is the whole file, or its first 1024 bytes: a longer file is not a pointer."""
    if len(content) >= MAX_POINTER_BYTES or content.startswith(b"%PDF"):
        return None
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return None
    found = _OID.search(text)
    if found is None or found.end() > HEAD_CHARACTERS:
        return None
    said = _SIZE.search(text)
    size = None if said is None else int(said[1])
    return LfsPointer(found[1], size if size is None or size < 2**63 else None)


def find_object(oid: str, near: Path) -> Path | None:
    """The object in the LFS store of the repository around `near`; None if there is none."""
    common = find_repository(near)
    if common is None:
        return None
    path = _find_storage(common) / "objects" / oid[:2] / oid[2:4] / oid
    try:
        status = path.lstat()
    except OSError:
        return None
    return path if stat.S_ISREG(status.st_mode) else None


def find_repository(near: Path) -> Path | None:
    """The folder that all work trees of the repository share (as `git rev-parse --git-common-dir`)."""
    for folder in (near, *near.parents):
        there = folder / ".git"
        if there.is_dir():
            return there
        if there.is_file():
            return _follow_git_file(there, folder)
    return None


def _follow_git_file(pointing: Path, folder: Path) -> Path | None:
    """The repository that the `.git` file of a linked work tree or a submodule points to."""
    found = _GITDIR.match(_read_text(pointing))
    if found is None:
        return None
    own = Path(os.path.normpath(folder / found[1].strip()))
    if not own.is_dir():
        return None
    shared = _read_text(own / "commondir").strip()
    return Path(os.path.normpath(own / shared)) if shared else own


def _find_storage(common: Path) -> Path:
    """`lfs.storage` if it is set in the simple form; other forms are left to git itself."""
    section = ""
    found = "lfs"
    for line in _read_text(common / "config").splitlines():
        if line.lstrip().startswith("["):
            start = _SECTION.fullmatch(line)
            section = "" if start is None else start[1].lower()
        elif section == "lfs" and (said := _STORAGE.fullmatch(line)) is not None and said[1]:
            found = said[1]
    return common / found


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_CONFIG_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    return "" if "\0" in text else text  # not valid in a path
