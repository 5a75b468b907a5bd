"""Bytes on their way into the local store: a temporary file that becomes a blob whole or not at all.

Promise: a crash leaves at most a file under `.tmp`, never read and removed by `sweep`. The version of a blob
is its file's time of change, made unique here. Blocking; must not know: keys, labels, conditions.
"""

import contextlib
import errno
import hashlib
import os
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

from quire.blobs.local.tree import TEMPORARY, Tree
from quire.blobs.port import SourceFile
from quire.model.errors import Lost, Misconfigured, Missing

PIECE_BYTES = 1 << 20

_COPY_BYTES = 1 << 30
_HASH_BYTES = 1 << 18
_CHANCE_BITS = 20  # about a millisecond of nanoseconds: the kernel's clock ticks no finer than that
_NO_KERNEL_COPY = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}


class Spool:
    """One temporary file. `discard` waits for the lock: a cancelled coroutine may discard its file while a
    thread still writes to it.
    """

    def __init__(self, tree: Tree, adopted: Path | None = None) -> None:
        """Start empty, or move the file `adopted` here. Raises OSError EXDEV when that is on another file
        system.
        """
        self._lock = threading.Lock()
        self._open = True
        self.name = secrets.token_hex(16)
        self.folder = tree.open(TEMPORARY, make=True)
        try:
            flags = os.O_NOFOLLOW | os.O_CLOEXEC
            if adopted is None:
                flags |= os.O_RDWR | os.O_CREAT | os.O_EXCL
            else:
                os.rename(adopted, self.name, dst_dir_fd=self.folder)
            # Read-only for all users: `local_path` exposes the file, and it must not be written to.
            self.descriptor = os.open(self.name, flags, 0o444, dir_fd=self.folder)
            if adopted is not None:
                os.fchmod(self.descriptor, 0o444)
        except OSError:
            os.close(self.folder)
            raise

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other threads from discarding the file. Raises Lost when it is discarded already."""
        with self._lock:
            if not self._open:
                raise Lost("The upload was aborted.")
            yield

    def write(self, data: bytes | bytearray) -> None:
        _write_all(self.descriptor, data)

    def copy(self, source: Path | SourceFile) -> None:
        """Copy another file, by the kernel where possible, which shares blocks where the file system can."""
        try:
            if isinstance(source, Path):
                reading = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
            else:
                reading = source.open_descriptor()
        except FileNotFoundError as error:
            raise Missing(f"The file {source.name!r} does not exist, so it cannot be stored.") from error
        try:
            self.append(reading)
        finally:
            os.close(reading)

    def append(self, reading: int) -> None:
        """Append the rest of an open file."""
        _copy(reading, self.descriptor)

    def digest(self) -> tuple[str, int]:
        """SHA-256 and size of the spooled bytes, whatever has happened to their source."""
        hashed, size = hashlib.sha256(), 0
        # One buffer for the whole file: fresh memory for each piece costs more than the hashing.
        buffer = bytearray(_HASH_BYTES)
        view = memoryview(buffer)
        while count := os.preadv(self.descriptor, [buffer], size):
            hashed.update(view[:count])
            size += count
        return hashed.hexdigest(), size

    def stamp(self, above: int | None = None) -> os.stat_result:
        """Set a time of change that no other write of this key has, later than `above`; make bytes and time
        durable.
        """
        kernel_time = os.fstat(self.descriptor).st_mtime_ns
        chance = secrets.randbits(_CHANCE_BITS)
        stamp = (kernel_time >> _CHANCE_BITS << _CHANCE_BITS) | chance
        if above is not None and stamp <= above:
            stamp = above + 1 + chance  # also when the clock was set back: versions of a key only grow
        os.utime(self.descriptor, ns=(stamp, stamp))
        stamped = os.fstat(self.descriptor)
        if stamped.st_mtime_ns != stamp:
            raise Misconfigured(
                "The file system of the blob folder does not keep file times to the nanosecond, so two "
                "versions of a blob could look the same. Put it on ext4, xfs, btrfs, zfs or apfs.",
                code="broken_store",
            )
        os.fsync(self.descriptor)
        return stamped

    def link(self, folder: int, name: str) -> None:
        """Create that file. Raises FileExistsError when it exists."""
        os.link(self.name, name, src_dir_fd=self.folder, dst_dir_fd=folder, follow_symlinks=False)
        with contextlib.suppress(FileNotFoundError):  # swept a moment ago: it is a blob all the same
            os.unlink(self.name, dir_fd=self.folder)

    def replace(self, folder: int, name: str) -> None:
        """Create or replace that file."""
        os.replace(self.name, name, src_dir_fd=self.folder, dst_dir_fd=folder)

    def discard(self) -> None:
        """Remove the file, unless it has become a blob. May be repeated."""
        with self._lock:
            if not self._open:
                return
            self._open = False
            os.close(self.descriptor)
            with contextlib.suppress(OSError):
                os.unlink(self.name, dir_fd=self.folder)
            os.close(self.folder)


def version_of(state: os.stat_result) -> str:
    return f"{state.st_mtime_ns:x}-{state.st_size:x}"


def _copy(reading: int, writing: int) -> None:
    try:
        while os.copy_file_range(reading, writing, _COPY_BYTES):
            pass
    except OSError as error:
        if error.errno not in _NO_KERNEL_COPY:
            raise
    # For some files the kernel's copy stops before their end: read what is left.
    while piece := os.read(reading, PIECE_BYTES):
        _write_all(writing, piece)


def _write_all(descriptor: int, data: bytes | bytearray) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
