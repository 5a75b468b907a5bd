"""SQLite's errors as ours, by the codes that SQLite gives.

Must not know: connections, statements.
"""

import sqlite3
from pathlib import Path

from quire.model.errors import Misconfigured, QuireError, Unavailable

# Without a code of their own. The columns of all tables are as the migrations made them, unless their names
# have changed on the disk; the last one Python says itself.
_OF_DAMAGE = ("no such column", "unsupported file format", "Could not decode to UTF-8")
_ADVICE = (
    "Stop what uses this home, check the disk, then restore the file from a backup, or move it away together "
    "with its -wal and -sums files and run again: stored files are kept and used again"
)


# What statements raise where the file is damaged, busy or gone. Every text was valid when it was written.
ERRORS = (sqlite3.Error, UnicodeDecodeError)


def translate(error: BaseException, path: Path, *, opening: bool = False) -> BaseException:
    """By the code SQLite gives, not by its words. Errors of our own statements stay what they are."""
    if isinstance(error, UnicodeDecodeError):
        # SQLite quotes a damaged name in its message, which Python then cannot read.
        damage = damaged_error(path, "it holds text that is no text")
        damage.__cause__ = error
        return damage
    code: int | None = getattr(error, "sqlite_errorcode", None)
    if isinstance(error, sqlite3.OperationalError) and str(error).startswith(_OF_DAMAGE):
        code = sqlite3.SQLITE_CORRUPT
    if not isinstance(error, sqlite3.DatabaseError) or code is None:
        return error
    primary = code & 0xFF
    if opening and primary == sqlite3.SQLITE_CANTOPEN:
        primary = sqlite3.SQLITE_PERM  # later, when it has been open once, it is a passing fault
    translated = _classify(primary, error, path)
    if translated is None:
        return error
    translated.__cause__ = error
    return translated


def damaged_error(path: Path, found: str) -> Misconfigured:
    """`found` is what is wrong with it."""
    return Misconfigured(f"{path} is damaged: {found}. {_ADVICE}", code="database_damaged")


def _classify(primary: int, error: sqlite3.DatabaseError, path: Path) -> QuireError | None:
    match primary:
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return damaged_error(path, str(error))
        case sqlite3.SQLITE_FULL:
            return Unavailable(
                f"{path.name}: no space left on the disk; free some and run again", code="storage_full"
            )
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return Unavailable(f"{path.name} is held by another process ({error})", code="database_busy")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return Misconfigured(
                f"{path.name} cannot be written ({error}); check the home folder's permissions"
            )
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_CANTOPEN:
            # Quotas and limits on the size of files come as this: SQLite knows only a full disk by name.
            return Unavailable(
                f"{path.name} cannot be read or written just now ({error}, {error.sqlite_errorname}); see "
                "whether the disk is there, works and has room, and whether a quota or a limit on the size "
                "of files or the number of open ones is reached; then run again"
            )
    return None
