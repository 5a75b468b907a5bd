"""Files that their owner alone may read: a database has the names of documents and the hashes of keys.

Promise: the file and those that SQLite puts beside it are readable and writable by their owner alone before
anything is written to them, also when an earlier version or another program has created them otherwise.
"""

import contextlib
import os
import stat
from pathlib import Path

_BESIDE = ("", "-wal", "-shm", "-journal")
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def keep_private(path: Path) -> None:
    """Create the database's file if it does not exist, and take the rights of others away. SQLite gives the
    files that it creates beside it the same rights.
    """
    # Only a new file is opened: to close a database's file would release the locks that this process has on
    # it.
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with contextlib.suppress(OSError):  # it exists; for other reasons, SQLite will tell them
        os.close(os.open(path, flags, stat.S_IRUSR | stat.S_IWUSR))
    for ending in _BESIDE:
        with contextlib.suppress(OSError):  # it does not exist, or belongs to another user
            take_rights_of_others(path.with_name(path.name + ending))


def take_rights_of_others(path: Path) -> None:
    """Raises OSError."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & _OTHERS:
        path.chmod(mode & ~_OTHERS)
