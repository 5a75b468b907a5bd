"""Sums of files that cannot carry them, in a SQLite file of bounded size.

Promises: it is only ever a memory: when it is damaged, locked or cannot be written it says nothing, and the
file is read again. Paths that are no text are not noted. For use in several threads.
"""

import sqlite3
import threading
from contextlib import suppress
from pathlib import Path

from quire.database.sql import queries
from quire.library.ingest.checksums import FileFacts

MOST = 200_000
_SHRINK_EVERY = 1000
_QUERIES = queries("quire.library.ingest.sql", "checksums.sql")


class ChecksumStore:
    def __init__(self, path: Path, *, most: int = MOST) -> None:
        self._path = path
        self._most = most
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._kept = 0

    def find(self, facts: FileFacts) -> str | None:
        with self._lock, suppress(sqlite3.Error, UnicodeError, OSError):
            row = self._open().execute(_QUERIES["find"], _values(facts)).fetchone()
            return None if row is None else str(row[0])
        return None

    def keep(self, facts: FileFacts, digest: str) -> None:
        with self._lock, suppress(sqlite3.Error, UnicodeError, OSError):
            self._open().execute(_QUERIES["keep"], (*_values(facts), digest))
            self._kept += 1
            if self._kept % min(_SHRINK_EVERY, self._most) == 0:
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
            connection = sqlite3.connect(self._path, timeout=5, isolation_level=None, check_same_thread=False)
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=OFF")  # what a power cut takes is computed again
                connection.execute(_QUERIES["make"])
            except sqlite3.Error:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _shrink(self) -> None:
        connection = self._open()
        (count,) = connection.execute(_QUERIES["count"]).fetchone()
        if count > self._most:
            connection.execute(_QUERIES["shrink"], (count - self._most,))


def _values(facts: FileFacts) -> tuple[str, int, int, int, int]:
    # SQLite's integers are signed; inode numbers need not be.
    return facts.path, facts.device, facts.inode - 2**63, facts.size, facts.modified_ns
