"""The folders of the local store: opened by descriptors, one segment at a time, never through a symlink.

Promise: nothing reads or writes outside the root, even if it contains planted links; a folder from
`folder(make=True)` is durable. Blocking; must not know: versions, labels, conditions.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from quire.model.errors import Misconfigured, QuireError, Reject, Retry

TEMPORARY, LABELS, LOCKS, PARTS = ".tmp", ".meta", ".locks", ".parts"

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_STRIPES = 64
_TRIES = 100
_REMEMBERED_FOLDERS = 10_000


class Tree:
    def __init__(self, root: Path) -> None:
        self.root = root
        # Folders whose own entry in their parent this process has seen reach the disk.
        self._settled: set[str] = set()

    @contextlib.contextmanager
    def folder(self, path: str, *, make: bool = False) -> Iterator[int]:
        """`open`, closed at the end of the block."""
        descriptor = self.open(path, make=make)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def open(self, path: str, *, make: bool = False) -> int:
        """A descriptor of the folder. Raises FileNotFoundError when it does not exist and `make` is False,
        NotADirectoryError when a file has its name, Reject when a symlink has.
        """
        descriptor = os.open(self.root, _FOLDER)
        end = 0
        for segment in path.split("/") if path else ():
            end += len(segment) + 1
            try:
                below = self._enter(descriptor, segment, path[: end - 1], make=make)
            finally:
                os.close(descriptor)
            descriptor = below
        return descriptor

    def _enter(self, parent: int, segment: str, path: str, *, make: bool) -> int:
        if not make:
            return open_below(parent, segment)
        for _ in range(_TRIES):
            if path not in self._settled:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(segment, dir_fd=parent)
            try:
                below = open_below(parent, segment)
            except FileNotFoundError:
                # Another process deleted the last blob and with it the empty folder: make it again.
                self._settled.discard(path)
                continue
            if path not in self._settled:
                # Also when another process made the folder: its fsync may not have happened yet.
                self._settle(path, parent)
            return below
        raise FileNotFoundError(errno.ENOENT, "the folder is removed again and again", segment)

    def _settle(self, path: str, parent: int) -> None:
        os.fsync(parent)
        if len(self._settled) >= _REMEMBERED_FOLDERS:
            self._settled.clear()
        self._settled.add(path)

    def prune(self, path: str, keep: str = "") -> None:
        """Remove the folder and its parents, up to `keep`, as long as they are empty."""
        while path and path != keep:
            above, _, segment = path.rpartition("/")
            try:
                with self.folder(above) as parent:
                    os.rmdir(segment, dir_fd=parent)
            except OSError:
                return  # not empty, or removed by another process
            self._settled.discard(path)
            path = above

    @contextlib.contextmanager
    def lock(self, key: str) -> Iterator[None]:
        """Lock this key (and the others of its stripe) among all threads and processes of this machine."""
        stripe = f"{hashlib.sha256(key.encode()).digest()[0] % _STRIPES:02x}"
        with self.folder(LOCKS, make=True) as folder:
            lock = os.open(
                stripe, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder
            )
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)  # closing releases the lock


def open_below(parent: int, segment: str) -> int:
    try:
        return os.open(segment, _FOLDER, dir_fd=parent)
    except OSError as error:
        # Linux says ENOTDIR for a symlink here, others ELOOP.
        if error.errno in {errno.ENOTDIR, errno.ELOOP}:
            stat_file(parent, segment)
        raise


def stat_file(folder: int, name: str, *, to_write: bool = False) -> os.stat_result | None:
    """The file's stat; None when there is no file or a folder. Raises Reject for anything else, and with
    `to_write` for a folder, too.
    """
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISREG(found.st_mode):
        return found
    if not stat.S_ISDIR(found.st_mode):
        raise unsafe(name)
    if to_write:
        raise Reject(
            f"{name!r} is a folder of other blobs and cannot be a blob as well: use another key.",
            code="bad_key",
        )
    return None


def unsafe(name: str) -> Reject:
    return Reject(
        f"{name!r} in the blob folder is a symbolic link or a device. Quire did not create it and does not "
        "follow it: find out where it comes from and remove it.",
        code="unsafe_path",
    )


@contextlib.contextmanager
def translate_errors(action: str, key: str) -> Iterator[None]:
    """Turn errors of the operating system into errors that say what the caller can do."""
    try:
        yield
    except QuireError:
        raise
    except OSError as error:
        _translate(error, f"Cannot {action} {key!r} in the blob folder: {error.strerror or error}.")


def _translate(error: OSError, what: str) -> NoReturn:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            advice = "Free space on that disk or raise its quota; work continues afterwards."
            raise Retry(f"{what} {advice}", code="storage_full", delay_seconds=30.0) from error
        case errno.EACCES | errno.EPERM | errno.EROFS:
            advice = "Give the user that Quire runs as the right to read and write there."
            raise Misconfigured(f"{what} {advice}", code="storage_denied") from error
        case errno.ENAMETOOLONG:
            raise Reject(f"{what} Use a shorter key.", code="bad_key") from error
        case errno.ENOTDIR | errno.EISDIR:
            advice = "A key cannot be a blob and a folder of other blobs at once: use another key."
            raise Reject(f"{what} {advice}", code="bad_key") from error
        case errno.EMFILE | errno.ENFILE:
            raise Retry(f"{what} Raise the limit of open files (ulimit -n).", code="storage_busy") from error
        case errno.EIO:
            advice = "Check the health of that disk and the system log."
            raise Retry(f"{what} {advice}", code="storage_error", delay_seconds=30.0) from error
        case _:
            raise Retry(f"{what} It may work on the next try.", code="storage_error") from error
