"""Opens a file of somebody's folder for reading: only a regular one, without waiting and through no link.

Between the listing of a folder and the opening of a file anybody may have put a link, a pipe or a device in
its place, or in the place of a folder above it. Needs the standard library alone: `share_child` uses it, too.
"""

import errno
import os
import stat
from pathlib import Path

_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LINKED = {errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.ENODEV}  # ENXIO: a pipe or a socket


class NotRegularError(OSError):
    """Something else than a regular file, or behind a link."""


def open_regular(path: Path, *, below: int = 1) -> int:
    """The descriptor of a file of which the last `below` names may not be links: those that were found in a
    folder which somebody has given. Raises NotRegularError, or another OSError.
    """
    try:
        descriptor = _open_below(path, below) if below > 1 else os.open(path, _flags(below))
    except OSError as error:
        if error.errno in _LINKED:
            raise _not_regular(path, error) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _not_regular(path)
    return descriptor


def _flags(below: int) -> int:
    return _FILE | (os.O_NOFOLLOW if below else 0)


def _open_below(path: Path, below: int) -> int:
    *folders, name = path.parts[-below:]
    at = os.open(path.parents[below - 1], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            inner = os.open(folder, _FOLDER, dir_fd=at)
            os.close(at)
            at = inner
        return os.open(name, _flags(below), dir_fd=at)
    finally:
        os.close(at)


def _not_regular(path: Path, error: OSError | None = None) -> NotRegularError:
    number = errno.EINVAL if error is None or error.errno is None else error.errno
    return NotRegularError(
        number,
        "a link, a pipe, a device or a folder has taken its place or that of a folder above it",
        str(path),
    )
