"""Lists the local store in the order of the keys' bytes, a folder at a time.

Promise: memory holds the names of the folders on the way down, never of the whole tree; symlinks and the
store's own folders are left out. Blocking; must not know: labels, conditions.
"""

import os
import re
from collections.abc import Iterator

from quire.blobs.keys import RESERVED
from quire.blobs.local.spool import version_of
from quire.blobs.local.tree import Tree, open_below
from quire.blobs.port import BlobInfo
from quire.model.errors import Reject

_NOT_TEXT = re.compile(r"[\ud800-\udfff]")  # how Python shows names that are not UTF-8: no keys of ours


def walk(tree: Tree, folder: str, after: str) -> Iterator[BlobInfo]:
    """`folder` is "" or ends with a slash."""
    try:
        descriptor = tree.open(folder.removesuffix("/"))
    except (FileNotFoundError, NotADirectoryError):
        return
    yield from _walk(descriptor, folder, after)


def _walk(descriptor: int, folder: str, after: str) -> Iterator[BlobInfo]:
    try:
        for name in _names(descriptor, hidden=RESERVED if not folder else frozenset()):
            key = folder + name
            if name.endswith("/"):
                # All keys below are smaller than `after`, unless it is one of them.
                if key > after or after.startswith(key):
                    yield from _below(descriptor, name, key, after)
            elif key > after and (state := _state(descriptor, name)) is not None:
                yield BlobInfo(
                    key=key,
                    size=state.st_size,
                    version=version_of(state),
                    modified_at=state.st_mtime_ns / 1e9,
                )
    finally:
        os.close(descriptor)


def _below(descriptor: int, name: str, key: str, after: str) -> Iterator[BlobInfo]:
    try:
        below = open_below(descriptor, name.removesuffix("/"))
    except (FileNotFoundError, NotADirectoryError, Reject):
        return  # deleted, or replaced by something else, since its name was read
    yield from _walk(below, key, after)


def _names(descriptor: int, hidden: frozenset[str]) -> list[str]:
    """Sorted as the keys are: with the slash that follows a folder's name, `a.b` comes before `a/b`."""
    with os.scandir(descriptor) as entries:
        return sorted(
            entry.name + "/" if entry.is_dir(follow_symlinks=False) else entry.name
            for entry in entries
            if entry.name not in hidden and not entry.is_symlink() and not _NOT_TEXT.search(entry.name)
        )


def _state(descriptor: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except FileNotFoundError:
        return None
