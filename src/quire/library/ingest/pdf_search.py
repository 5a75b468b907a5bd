"""Finds PDFs in folders, by name and by pattern, and Git LFS pointers that stand for them.

Promises: the same tree gives the same documents in the same order; nothing outside of the given folder is
read, wherever links lead; every file is at least counted, and a file that looks like a PDF and is none is
reported with a reason. Reads only the beginning of each file. Plain functions, for a thread.
"""

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct

from quire.library.ingest import lfs_pointers
from quire.library.ingest.lfs_pointers import LfsPointer
from quire.model.errors import Reject
from quire.tools.input_open import NotRegularError, open_regular
from quire.tools.shares import ShareEntry, ShareFacts, this_machine

_MAGIC = b"%PDF"
_GIT = ".git"


class FoundPdf(Struct, frozen=True, kw_only=True):
    """`relative` is the path below the searched folder, whose name is `source`."""

    path: Path
    relative: str
    source: str
    size: int
    pointer: LfsPointer | None = None
    below: int = 1  # so many of the last names of `path` may not be links when it is opened

    @property
    def name(self) -> str:
        return self.relative.rpartition("/")[2]

    @property
    def tags(self) -> list[str]:
        *folders, name = self.relative.split("/")
        return [*folders, name[: -len(".pdf")] if _has_pdf_name(name) and len(name) > len(".pdf") else name]


class RefusedFile(Struct, frozen=True, kw_only=True):
    """A file that should have been a PDF. `path` can be shown: bytes that are not text are escaped."""

    path: str
    code: str
    reason: str


class OtherFile(Struct, frozen=True):
    """A file without a PDF name: it is only counted."""

    path: Path


Finding = FoundPdf | RefusedFile | OtherFile


def find_pdfs(sources: Sequence[str | Path]) -> Iterator[Finding]:
    """All files found, source by source. A document in two sources is found twice: its hash tells. Raises
    Reject with code `bad_path` for a source that does not exist, before anything is read.
    """
    for target in [_parse_target(os.fspath(source)) for source in sources]:
        real = this_machine().resolve(target.root)
        if target.file is not None:
            yield _classify(target.file, target.root, real)
        else:
            yield from _walk(target.root, real, target.pattern)


class _Target(Struct, frozen=True):
    """A folder to search, for all files or for those that match a pattern; or one file in it."""

    root: Path
    pattern: tuple[str, ...] = ()
    file: Path | None = None


def _parse_target(source: str) -> _Target:
    path = _absolute(source)
    try:
        status = _stat(path)
    except (OSError, ValueError) as error:
        if not glob.has_magic(source):
            why = getattr(error, "strerror", None) or str(error)
            raise Reject(
                f"{show_path(source)}: {why}. Give a folder, a PDF or a pattern.", code="bad_path"
            ) from error
        return _parse_pattern(source)
    return _Target(path) if stat.S_ISDIR(status.st_mode) else _Target(path.parent, file=path)


def _parse_pattern(source: str) -> _Target:
    """The searched folder is the last one before the first wildcard."""
    parts = Path(source).parts
    fixed = next(number for number, part in enumerate(parts) if glob.has_magic(part))
    root = _absolute(Path(*parts[:fixed]))
    try:
        is_folder = stat.S_ISDIR(_stat(root).st_mode)
    except OSError:
        is_folder = False
    if not is_folder:
        raise Reject(f"{show_path(source)}: there is no folder {show_path(root)}.", code="bad_path")
    return _Target(root, parts[fixed:])


def _stat(path: Path) -> os.stat_result | ShareFacts:
    return this_machine().stat(path) if this_machine().hold(path) else path.stat()


def matches(pattern: Sequence[str], names: Sequence[str]) -> bool:
    """Whether the path, or a folder around it, matches the pattern. `**` stands for any number of folders.

    The glob module would follow links.
    """
    at = _skip_double_stars(pattern, {0})
    for name in names:
        reached = {place for place in at if place < len(pattern) and pattern[place] == "**"}
        reached |= {place + 1 for place in at if place < len(pattern) and fnmatchcase(name, pattern[place])}
        at = _skip_double_stars(pattern, reached)
        if len(pattern) in at:
            return True
    return False


def _skip_double_stars(pattern: Sequence[str], places: set[int]) -> set[int]:
    """A `**` may stand for nothing, except at the end."""
    found = set(places)
    for place in range(len(pattern) - 1):
        if place in found and pattern[place] == "**":
            found.add(place + 1)
    return found


def _walk(root: Path, real: Path, pattern: tuple[str, ...]) -> Iterator[Finding]:
    """Depth first, with a stack of our own: folders may be nested deeper than Python calls."""
    stack = [_list_folder(root)]
    while stack:
        for entry, path in stack[-1]:
            if isinstance(entry, Reject):
                yield RefusedFile(path=_relative(path, root) or ".", code=entry.code, reason=str(entry))
            elif entry.is_dir(follow_symlinks=False):
                if entry.name != _GIT:
                    stack.append(_list_folder(path))
                    break
            elif not pattern or matches(pattern, path.relative_to(root).parts):
                yield _classify(path, root, real, entry)
        else:
            stack.pop()


def _list_folder(folder: Path) -> "Iterator[tuple[os.DirEntry[str] | ShareEntry | Reject, Path]]":
    """The entries in order, or the reason why the folder cannot be listed."""
    entries: Sequence[os.DirEntry[str] | ShareEntry]
    try:
        if this_machine().hold(folder):
            entries = this_machine().list_folder(folder)
        else:
            with os.scandir(folder) as listing:
                entries = list(listing)
    except OSError:
        yield Reject("the folder cannot be listed; check its rights", code="unreadable_folder"), folder
        return
    except Reject as stalled:
        yield stalled, folder
        return
    for entry in sorted(entries, key=lambda entry: os.fsencode(entry.name)):
        yield entry, folder / entry.name


def _classify(
    path: Path, root: Path, real: Path, entry: "os.DirEntry[str] | ShareEntry | None" = None
) -> Finding:
    """Without an `entry` somebody has named this file."""
    if not _has_pdf_name(path.name) and entry is not None:
        return OtherFile(path)
    relative = _relative(path, root)
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        return RefusedFile(
            path=relative,
            code="bad_name",
            reason="its name, or that of a folder around it, is not UTF-8; rename it",
        )
    below = len(path.relative_to(root).parts) if entry is not None else 0
    if entry is not None and entry.is_symlink():
        inside = None if this_machine().hold(path) else _resolve_inside(path, real)
        if inside is None:
            return RefusedFile(
                path=relative,
                code="link_outside",
                reason="a link that leads out of the folder or nowhere, or lies on a network share; give its "
                "target instead",
            )
        path, below = inside, len(inside.relative_to(real).parts)
    return _look_at(path, root, relative, below)


def _look_at(path: Path, root: Path, relative: str, below: int) -> Finding:
    try:
        return _read_head(path, root, relative, below)
    except NotRegularError:
        return RefusedFile(
            path=relative, code="not_a_file", reason="not a regular file (a folder, pipe or device)"
        )
    except Reject as stalled:
        return RefusedFile(path=relative, code=stalled.code, reason=str(stalled))
    except OSError as error:
        return RefusedFile(path=relative, code="unreadable", reason=f"it cannot be read ({error.strerror})")


def _read_head(path: Path, root: Path, relative: str, below: int) -> Finding:
    size, head = _open_head(path, below)
    pointer = lfs_pointers.parse_pointer(head)
    if pointer is None and not head.startswith(_MAGIC):
        why = "the file is empty" if not head else "it does not begin with %PDF, nor is it a Git LFS pointer"
        return RefusedFile(path=relative, code="not_a_pdf", reason=f"{why}; open it to see what it is")
    size = size if pointer is None else pointer.size or 0
    source = root.name or "root"
    return FoundPdf(path=path, relative=relative, source=source, size=size, pointer=pointer, below=below)


def _open_head(path: Path, below: int) -> tuple[int, bytes]:
    """The size of the file and its beginning."""
    most = lfs_pointers.MAX_POINTER_BYTES
    if this_machine().hold(path):
        facts, head = this_machine().read_head(path, most, below=below)
        return facts.st_size, head
    descriptor = open_regular(path, below=below)
    try:
        return os.fstat(descriptor).st_size, os.read(descriptor, most)
    finally:
        os.close(descriptor)


def _resolve_inside(path: Path, real: Path) -> Path | None:
    """Where a link leads, if that is within the folder."""
    try:
        target = Path(os.path.realpath(path, strict=True))
    except OSError:
        return None
    return target if target.is_relative_to(real) else None


def _absolute(path: str | Path) -> Path:
    """Not resolved: the name of a folder is the one that the user gave."""
    return Path(os.path.normpath(Path.cwd() / path))


def _has_pdf_name(name: str) -> bool:
    return name.lower().endswith(".pdf")


def _relative(path: Path, root: Path) -> str:
    return show_path(path.relative_to(root)) if path != root else ""


def show_path(path: str | Path) -> str:
    """The path as text; bytes that are not UTF-8 are escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
