"""SHA-256 of files, remembered in extended attributes of the file, or else in a SQLite file of bounded
size.

Promises: a remembered checksum counts only for the same size and the same modification time to the
nanosecond; a file that changed while it was read has no checksum; a file so young that it could change
without its time showing it is not remembered. Published tools find their own two attributes. The SQLite
file is only a cache: when it is damaged, locked or cannot be written, the file is read again.
"""

import hashlib
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from quire.database.private_files import keep_private
from quire.database.sql import load_queries
from quire.model.errors import Stale
from quire.tools.input_open import open_regular

PIECE_BYTES = 1 << 20
OURS, SUM, MODIFIED = "user.checksum.quire", "user.checksum.sha256", "user.checksum.mtime"
MAX_STORED = 200_000
_YOUNG_SECONDS = 2.0  # the coarsest time stamps in use (FAT)
_SHRINK_EVERY = 1000
_QUERIES = load_queries("quire.library.ingest.sql", "checksums.sql")


class FileFacts(Struct, frozen=True):
    """What must be unchanged for a remembered checksum to count."""

    path: str
    device: int
    inode: int
    size: int
    modified_ns: int


class ChecksumCache(Protocol):
    """Checksums of files without extended attributes. A cache may forget, but never mix up files."""

    def find(self, read_facts: FileFacts) -> str | None: ...

    def keep(self, read_facts: FileFacts, digest: str) -> None: ...


class FileAttributes(Protocol):
    """Extended attributes; both methods raise OSError where they are not supported."""

    def get(self, path: Path, name: str) -> bytes: ...

    def set(self, path: Path, name: str, value: bytes) -> None: ...


class SystemAttributes:
    def get(self, path: Path, name: str) -> bytes:
        return os.getxattr(path, name)

    def set(self, path: Path, name: str, value: bytes) -> None:
        os.setxattr(path, name, value)


class Checksum(Struct, frozen=True):
    digest: str
    size: int
    remembered: bool = False


class Checksums:
    """For use in several threads at once."""

    def __init__(
        self,
        now: Callable[[], float],
        *,
        cache: ChecksumCache | None = None,
        attributes: FileAttributes | None = None,
        remember: bool = True,
    ) -> None:
        """Without `remember` nothing is written anywhere."""
        self._now = now
        self._cache = cache
        self._attributes = (
            SystemAttributes() if attributes is None and hasattr(os, "getxattr") else attributes
        )
        self._remember = remember

    def sum(self, path: Path, *, reread: bool = False, below: int = 0) -> Checksum:
        """Raises OSError when the file cannot be read, Stale when it changes meanwhile."""
        before = read_facts(path)
        known = None if reread else self._find(path, before)
        if known is not None:
            return Checksum(known, before.size, remembered=True)
        digest = _hash_file(path, below)
        if read_facts(path) != before:
            raise Stale("the file changed while it was read; try again later", code="changed")
        if self._remember and self._now() - before.modified_ns / 1e9 >= _YOUNG_SECONDS:
            self._store(path, before, digest)
        return Checksum(digest, before.size)

    def _find(self, path: Path, now: FileFacts) -> str | None:
        try:
            said = b"" if self._attributes is None else self._attributes.get(path, OURS)
        except OSError:
            said = b""
        digest, _, stamp = said.decode("ascii", "replace").partition(" ")
        if stamp == _stamp(now) and len(digest) == 64 and set(digest) <= set("0123456789abcdef"):
            return digest
        return None if self._cache is None else self._cache.find(now)

    def _store(self, path: Path, at: FileFacts, digest: str) -> None:
        if not self._write_attributes(path, at, digest) and self._cache is not None:
            self._cache.keep(at, digest)

    def _write_attributes(self, path: Path, at: FileFacts, digest: str) -> bool:
        """Our own attribute last: it is the one that counts here, and it is whole or absent."""
        if self._attributes is None:
            return False
        try:
            self._attributes.set(path, SUM, digest.encode())
            self._attributes.set(path, MODIFIED, str(at.modified_ns // 10**9).encode())
            self._attributes.set(path, OURS, f"{digest} {_stamp(at)}".encode())
        except OSError:
            return False
        return True


def read_facts(path: Path) -> FileFacts:
    status = path.stat()
    return FileFacts(
        os.fspath(path.absolute()), status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
    )


def _hash_file(path: Path, below: int) -> str:
    with open(open_regular(path, below=below), "rb", buffering=0) as file:  # noqa: PTH123 - a descriptor
        return hashlib.file_digest(file, "sha256").hexdigest()


def _stamp(at: FileFacts) -> str:
    return f"{at.size} {at.modified_ns}"


class ChecksumStore:
    """A `ChecksumCache` in a SQLite file. For use in several threads."""

    def __init__(self, path: Path, *, max_stored: int = MAX_STORED) -> None:
        self._path = path
        self._max_stored = max_stored
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._stored = 0

    def find(self, facts: FileFacts) -> str | None:
        with self._lock, suppress(sqlite3.Error, UnicodeError, OSError):
            row = self._open().execute(_QUERIES["find"], _values(facts)).fetchone()
            return None if row is None else str(row[0])
        return None

    def keep(self, facts: FileFacts, digest: str) -> None:
        with self._lock, suppress(sqlite3.Error, UnicodeError, OSError):
            self._open().execute(_QUERIES["keep"], (*_values(facts), digest))
            self._stored += 1
            if self._stored % min(_SHRINK_EVERY, self._max_stored) == 0:
                self._shrink()

    def close(self) -> None:
        with self._lock, suppress(sqlite3.Error):
            if self._connection is not None:
                self._shrink()
                self._connection.close()
                self._connection = None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            keep_private(self._path)
            connection = sqlite3.connect(self._path, timeout=5, isolation_level=None, check_same_thread=False)
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=OFF")  # what a power cut loses is computed again
                connection.execute(_QUERIES["make"])
            except sqlite3.Error:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _shrink(self) -> None:
        connection = self._open()
        (count,) = connection.execute(_QUERIES["count"]).fetchone()
        if count > self._max_stored:
            connection.execute(_QUERIES["shrink"], (count - self._max_stored,))


def _values(facts: FileFacts) -> tuple[str, int, int, int, int]:
    # SQLite's integers are signed; inode numbers need not be.
    return facts.path, facts.device, facts.inode - 2**63, facts.size, facts.modified_ns
