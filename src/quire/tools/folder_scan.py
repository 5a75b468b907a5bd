"""Scans folders: lists their files, and those that are skipped with the reason.

No file is opened. Links are never followed: they may loop, or lead out of the given folders. Folders on
network shares are listed by another process, so that one which does not answer fails alone.
"""

import os
import stat
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from quire.model.errors import Reject
from quire.model.files import fold
from quire.tools.shares import ShareEntry, ShareFacts, this_machine

SYSTEM_FILES = frozenset({"thumbs.db", "desktop.ini", "ehthumbs.db", "icon\r"})


class ScannedFile(Struct, frozen=True, kw_only=True):
    """A file offered to a pipeline, by its logical path. With an `error_class` it is not accepted."""

    path: str
    source: Path
    size: int = 0
    stamp: str = ""
    state: str = "found"  # found, skipped, failed
    error_class: str = ""
    reason: str = ""
    below: int = 0  # so many of its last names were found: none of them may be a link when it is opened


class Status(Protocol):
    """Of `os.stat_result`, or of the file of a share."""

    @property
    def st_mode(self) -> int: ...
    @property
    def st_size(self) -> int: ...
    @property
    def st_mtime_ns(self) -> int: ...
    @property
    def st_ino(self) -> int: ...
    @property
    def st_dev(self) -> int: ...


class _Place(Struct, frozen=True):
    """A folder with the prefix of its paths; `below` of a file in it."""

    folder: Path
    prefix: str
    below: int = 1


class FolderListing(Struct, frozen=True, kw_only=True):
    """What is right in a folder, by logical paths. Folders whose paths differ in case alone, or in how an
    accent is written, are one listing: their files would lie on each other in some file system.
    """

    files: list[ScannedFile]
    folders: list[str]


def stamp(status: Status) -> str:
    """A text that changes when the file is written to or replaced."""
    return f"{status.st_size}-{status.st_mtime_ns}-{status.st_ino}"


def changed_at_ns(of_stamp: str) -> int:
    """The time in a stamp."""
    return int(of_stamp.split("-")[1])


def scan(roots: Sequence[Path], *, leave_out: Collection[Path] = ()) -> Iterator[ScannedFile]:
    """All files below the roots, by logical path. `leave_out` are Quire's own folders, which are not listed.

    One folder: paths are relative to it. Several roots: each has its name in front.
    Raises Reject when a root does not exist.
    """
    this_machine().refresh()
    ours = {identity for path in leave_out if (identity := _identity(path)) is not None}
    for prefix, root in _prefix_roots(roots):
        status = _stat(root)
        if stat.S_ISDIR(status.st_mode):
            yield from _walk(_Place(root, prefix), ours)
        elif stat.S_ISREG(status.st_mode):
            yield _check_file(f"{prefix}{_printable(root.name)}", root, status)
        else:
            raise Reject(f"{root} is neither a folder nor a regular file", code="bad_path")


def check_roots(roots: Sequence[Path]) -> None:
    """Raises Reject when one of them does not exist, or is neither a folder nor a regular file."""
    this_machine().refresh()
    for root in roots:
        if not stat.S_ISDIR(mode := _stat(root).st_mode) and not stat.S_ISREG(mode):
            raise Reject(f"{root} is neither a folder nor a regular file", code="bad_path")


def scan_folders(roots: Sequence[Path], *, leave_out: Collection[Path] = ()) -> Iterator[FolderListing]:
    """The same files as `scan`, folder by folder: each before those below it."""
    check_roots(roots)
    ours = {identity for path in leave_out if (identity := _identity(path)) is not None}
    top = FolderListing(files=[], folders=[])
    below: dict[str, list[_Place]] = {}  # folded path → folders of that name
    places = list(_prefix_roots(roots))
    for prefix, root in places:
        if not _is_dir(root):
            top.files.append(_check_file(f"{prefix}{_printable(root.name)}", root, _stat(root)))
        elif prefix:
            top.folders.append(prefix[:-1])
            below.setdefault(fold(prefix), []).append(_Place(root, prefix))
        else:
            below[""] = [_Place(root, "")]
    if top.files or top.folders:
        yield top
    stack = list(reversed(below.values()))
    while stack:
        listing, deeper = _list_folders(stack.pop(), ours)
        yield listing
        stack += reversed(deeper)


def _list_folders(
    places: Sequence[_Place], ours: Collection[tuple[int, int]]
) -> tuple[FolderListing, list[list[_Place]]]:
    """What is right in these folders, which have one name, and the folders below, by name."""
    found = FolderListing(files=[], folders=[])
    below: dict[str, list[_Place]] = {}
    for place in places:
        for entry, source, path in _entries(place):
            if isinstance(entry, ScannedFile):
                found.files.append(entry)
            elif not (entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")):
                found.files.append(_classify(entry, source, path, place.below))
            elif _identity_of(entry, source) not in ours:
                found.folders.append(path)
                inner = _Place(source, f"{path}/", place.below + 1)
                below.setdefault(fold(path), []).append(inner)
    return found, list(below.values())


def _prefix_roots(roots: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """Each root with the prefix of its paths; several roots are distinguished by their names."""
    distinct = list({_resolve(root): root for root in roots}.values())
    if len(distinct) == 1:
        yield "", distinct[0]
        return
    used: set[str] = set()
    for root in distinct:
        real = _resolve(root)
        if _is_dir(root):
            yield f"{_unique_name(real.name or 'root', used)}/", root
        elif root.name.casefold() in used:
            yield f"{_unique_name(real.parent.name or 'root', used)}/", root
        else:
            used.add(root.name.casefold())
            yield "", root


def _unique_name(name: str, used: set[str]) -> str:
    number, candidate = 1, name
    while candidate.casefold() in used:
        number += 1
        candidate = f"{name}-{number}"
    used.add(candidate.casefold())
    return candidate


def _walk(top: _Place, ours: Collection[tuple[int, int]]) -> Iterator[ScannedFile]:
    """Depth first, with an explicit stack: folders may be nested deeper than function calls."""
    stack = [_entries(top)]
    while stack:
        for entry, source, path in stack[-1]:
            if isinstance(entry, ScannedFile):
                yield entry
            elif entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                if _identity_of(entry, source) not in ours:
                    stack.append(_entries(_Place(source, f"{path}/", top.below + len(stack))))
                    break
            else:
                yield _classify(entry, source, path, top.below + len(stack) - 1)
        else:
            stack.pop()


def _entries(place: _Place) -> "Iterator[tuple[os.DirEntry[str] | ShareEntry | ScannedFile, Path, str]]":
    """The entries of a folder, in order; one failed file when it cannot be listed."""
    folder, prefix = place.folder, place.prefix
    entries: list[os.DirEntry[str] | ShareEntry] = []
    try:
        entries += _list_entries(folder)
    except OSError:
        yield _fail_folder(prefix or ".", folder), folder, prefix
        return
    except Reject as stalled:
        yield _fail(prefix or ".", folder, stalled.code, str(stalled)), folder, prefix
        return
    for entry in sorted(entries, key=lambda entry: os.fsencode(entry.name)):
        yield entry, folder / entry.name, f"{prefix}{_printable(entry.name)}"


def _list_entries(folder: Path) -> "Sequence[os.DirEntry[str]] | Sequence[ShareEntry]":
    if this_machine().hold(folder):
        return this_machine().list_folder(folder)
    with os.scandir(folder) as listing:
        return list(listing)


def _fail_folder(path: str, source: Path) -> ScannedFile:
    return _fail(path, source, "unreadable_folder", "the folder cannot be listed; check its rights")


def _classify(entry: "os.DirEntry[str] | ShareEntry", source: Path, path: str, below: int) -> ScannedFile:
    """Accept, skip or fail an entry that is not a folder to descend into."""
    if entry.is_symlink():
        return _skip(
            path, source, "symlink", "a symbolic link; links are not followed, give its target instead"
        )
    if entry.is_dir(follow_symlinks=False):
        return _skip(f"{path}/", source, "hidden", "a hidden folder")
    if entry.name.casefold() in SYSTEM_FILES or entry.name.startswith("."):
        return _skip(path, source, "hidden", "a hidden file or one of the operating system's own")
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError as error:
        return _fail(path, source, "vanished", f"it disappeared while the folder was read ({error.strerror})")
    return _check_file(path, source, status, below=below)


def _check_file(path: str, source: Path, status: Status, *, below: int = 0) -> ScannedFile:
    if not stat.S_ISREG(status.st_mode):
        return _skip(path, source, "not_a_file", "not a regular file (a pipe, socket or device)")
    if (flaw := find_name_flaw(source.name)) is not None:
        return _fail(path, source, "bad_name", flaw)
    if status.st_size == 0:
        return _fail(
            path, source, "empty_file", "the file is empty (0 bytes); check how it was copied or scanned"
        )
    return ScannedFile(path=path, source=source, size=status.st_size, stamp=stamp(status), below=below)


def find_name_flaw(name: str) -> str | None:
    """Why a file name does not survive on other systems; None when it does."""
    for character in name:
        category = unicodedata.category(character)
        if category == "Cs":
            return "its name is not valid UTF-8, so other systems may misread it; rename it"
        if character == "\\" or category == "Cc" or character in _BIDI:
            return f"its name contains {character!a}, which other systems may misread; rename it"
    return None


_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def _printable(name: str) -> str:
    """Names that are not UTF-8 are shown with their bytes spelled out, and real backslashes doubled, so that
    no two names look alike.
    """
    return os.fsencode(name).replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


def _stat(root: Path) -> os.stat_result | ShareFacts:
    try:
        return this_machine().stat(root) if this_machine().hold(root) else root.stat()
    except OSError as error:
        raise Reject(f"{root}: {error.strerror}", code="bad_path") from error


def _identity(path: Path) -> tuple[int, int] | None:
    """Device and inode: the same folder under any name, and at the same cost at any depth."""
    try:
        status = this_machine().stat(path) if this_machine().hold(path) else path.stat()
    except (OSError, Reject):
        return None
    return status.st_dev, status.st_ino


def _identity_of(entry: "os.DirEntry[str] | ShareEntry", source: Path) -> tuple[int, int] | None:
    if isinstance(entry, ShareEntry):
        return None if entry.facts is None else (entry.facts.st_dev, entry.facts.st_ino)
    return _identity(source)


def _is_dir(root: Path) -> bool:
    try:
        return stat.S_ISDIR(_stat(root).st_mode)
    except Reject:
        return False


def _resolve(path: Path) -> Path:
    return this_machine().resolve(path)


def _skip(path: str, source: Path, error_class: str, reason: str) -> ScannedFile:
    return ScannedFile(path=path, source=source, state="skipped", error_class=error_class, reason=reason)


def _fail(path: str, source: Path, error_class: str, reason: str) -> ScannedFile:
    return ScannedFile(path=path, source=source, state="failed", error_class=error_class, reason=reason)
