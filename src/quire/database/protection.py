"""Checks a SQLite file before it is opened, and renews the checksums of its pages after it was closed.

Promise: nothing is read from a file whose pages are not as they were when a process last closed it; a single
wrong bit in a page is repaired. A file that was written by others, or whose process was killed, is checked
again after a process that checks thoroughly has closed it: no write is ever taken for damage. Must not know:
tables, what is in a page.
"""

import contextlib
import logging
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from quire.database.page_sums import (
    DamagedPage,
    FileState,
    PageSums,
    begin_writing,
    find_damage,
    find_state,
    has_sums,
    is_unused,
    mark_state,
    read_changed_pages,
    read_sums,
    repair,
    write_sums,
)
from quire.database.sqlite_errors import damaged_error
from quire.database.wal_check import find_log_damage

_log = logging.getLogger("quire.database")

# Larger files are checked by processes that work with them for long; short commands shall stay short.
SMALL_BYTES = 64 << 20
# With more changes than this, all checksums are computed anew or none.
MAX_CHANGED = 20_000
_NAMED = 5

# How many connections this process has to each file: with one, no other descriptor of it may be closed.
_open_files: Counter[Path] = Counter()
_lock = threading.Lock()


class Protection:
    """Of one file, by one process. `thorough`: whatever its size. In this order: `enter` before the first
    connection, `begin_writing` after the first change, `prepare` with the last connection, `leave` after it.
    """

    def __init__(self, path: Path, *, thorough: bool) -> None:
        self._path = path
        self._log = path.with_name(path.name + "-wal")
        self._thorough = thorough
        self._known: PageSums | None = None
        self._changed: set[int] = set()
        self._closing: FileState | None = None
        self._writing = False

    def enter(self) -> tuple[str, ...]:
        """What was repaired, in words. Raises Misconfigured (`database_damaged`) for other damage."""
        self._closing, self._writing = None, False
        place = self._path.resolve()
        with _lock:  # all the while: no connection of this process may begin while the file is read
            repaired = () if _open_files[place] else self._check()
            _open_files[place] += 1
        return repaired

    def _check(self) -> tuple[str, ...]:
        log_damage = find_log_damage(self._log) if self._log.exists() and is_unused(self._path) else None
        if log_damage is not None:
            raise damaged_error(self._path, log_damage)
        if not self._thorough and not self._is_small():
            return ()
        sums = read_sums(self._path)
        damaged = [] if sums is None else find_damage(self._path, sums)
        if sums is None or not damaged:
            return ()
        if not repair(self._path, sums, damaged):
            raise damaged_error(
                self._path, f"pages that differ from what Quire wrote: {len(damaged)} ({_name(damaged)})"
            )
        repaired = (
            f"{self._path} had one wrong bit in each of {_count(len(damaged))} ({_name(damaged)}); this was "
            "repaired and nothing is lost. A disk or the memory of this machine fails: check them"
        )
        # Logged: short commands show no warnings, and a repair must not go unseen.
        _log.warning("database_repaired: %s", repaired)
        return (repaired,)

    def begin_writing(self) -> None:
        """After the first change is in the log, long before it is moved into the file."""
        if not self._writing:
            self._writing = True
            with contextlib.suppress(OSError):
                begin_writing(self._path)

    def prepare(self, connection: sqlite3.Connection) -> None:
        """Before the last connection is closed: move the log into the file, and note what that changes."""
        self._closing = None
        if not self._thorough and not has_sums(self._path):
            return
        # Without checksums the file is as good as with them.
        with contextlib.suppress(sqlite3.Error, OSError):
            version = _version(connection)
            self._known, self._changed = self._find_changes()
            if self._known is not None and not self._changed:
                return  # its checksums are right
            begin_writing(self._path)
            connection.execute("PRAGMA busy_timeout=200")
            if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                return  # others are at work: the last one of them does this
            state = mark_state(self._path, time.time_ns())
            if _version(connection) != version:
                self._known = None
            if self._thorough or self._known is not None:
                self._closing = state

    def leave(self) -> None:
        """Store the checksums of the file as it is now, unless another process wrote since `prepare`."""
        place = self._path.resolve()
        with _lock, contextlib.suppress(OSError):
            _open_files[place] -= 1
            if self._closing is None or _open_files[place]:
                return
            closed = is_unused(self._path)
            write_sums(self._path, self._closing, known=self._known, changed=self._changed, closed=closed)

    def _find_changes(self) -> tuple[PageSums | None, set[int]]:
        """Checksums that are right but for some pages, and the numbers of these."""
        known = read_sums(self._path)
        changed = read_changed_pages(self._log)
        # Another process may have emptied the log in between; then it has changed the file.
        if len(changed) > MAX_CHANGED or known is None or find_state(self._path) != known.state:
            return None, set()
        return known, changed

    def _is_small(self) -> bool:
        state = find_state(self._path)
        return state is not None and state.size <= SMALL_BYTES


def _count(pages: int) -> str:
    return "1 page" if pages == 1 else f"{pages} pages"


def _name(damaged: Sequence[DamagedPage]) -> str:
    first = ", ".join(f"page {one.number} at byte {one.offset}" for one in damaged[:_NAMED])
    return first + (f" and {len(damaged) - _NAMED} more" if len(damaged) > _NAMED else "")


def _version(connection: sqlite3.Connection) -> int:
    """Changes when another connection has committed."""
    return int(connection.execute("PRAGMA data_version").fetchone()[0])
