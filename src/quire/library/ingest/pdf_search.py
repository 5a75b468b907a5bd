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

_MAGIC = b"%PDF"
_GIT = ".git"


class FoundPdf(Struct, frozen=True, kw_only=True):
    """`relative` is the path below the searched folder, whose name is `source`."""

    path: Path
    relative: str
    source: str
    size: int
    pointer: LfsPointer | None = None

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
        real = Path(os.path.realpath(target.root))
        if target.file is not None:
            yield _classify(target.file, target.root, real, is_named=True)
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
        status = path.stat()
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
    if not root.is_dir():
        raise Reject(f"{show_path(source)}: there is no folder {show_path(root)}.", code="bad_path")
    return _Target(root, parts[fixed:])


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
            if entry is None:
                yield RefusedFile(
                    path=_relative(path, root) or ".",
                    code="unreadable_folder",
                    reason="the folder cannot be listed; check its rights",
                )
            elif entry.is_dir(follow_symlinks=False):
                if entry.name != _GIT:
                    stack.append(_list_folder(path))
                    break
            elif not pattern or matches(pattern, path.relative_to(root).parts):
                yield _classify(path, root, real, is_named=False)
        else:
            stack.pop()


def _list_folder(folder: Path) -> "Iterator[tuple[os.DirEntry[str] | None, Path]]":
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: os.fsencode(entry.name))
    except OSError:
        yield None, folder
        return
    for entry in entries:
        yield entry, folder / entry.name


def _classify(path: Path, root: Path, real: Path, *, is_named: bool) -> Finding:
    if not _has_pdf_name(path.name) and not is_named:
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
    if not is_named and path.is_symlink() and not _is_inside(path, real):
        return RefusedFile(
            path=relative,
            code="link_outside",
            reason="a link that leads out of the folder, or nowhere; give its target instead",
        )
    try:
        return _read_head(path, root, relative)
    except OSError as error:
        return RefusedFile(path=relative, code="unreadable", reason=f"it cannot be read ({error.strerror})")


def _read_head(path: Path, root: Path, relative: str) -> Finding:
    # Without blocking: the file may have become a pipe.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return RefusedFile(
                path=relative, code="not_a_file", reason="not a regular file (a folder, pipe or device)"
            )
        head = os.read(descriptor, lfs_pointers.MAX_POINTER_BYTES)
    finally:
        os.close(descriptor)
    pointer = lfs_pointers.parse_pointer(head)
    if pointer is None and not head.startswith(_MAGIC):
        why = "the file is empty" if not head else "it does not begin with %PDF, nor is it a Git LFS pointer"
        return RefusedFile(path=relative, code="not_a_pdf", reason=f"{why}; open it to see what it is")
    size = status.st_size if pointer is None else pointer.size or 0
    return FoundPdf(path=path, relative=relative, source=root.name or "root", size=size, pointer=pointer)


def _is_inside(path: Path, real: Path) -> bool:
    try:
        return Path(os.path.realpath(path, strict=True)).is_relative_to(real)
    except OSError:
        return False


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
