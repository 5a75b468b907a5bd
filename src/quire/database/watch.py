"""Watches a file for changes of its times (Linux, inotify).

A watch reports one event and must be set again by its user, so that a storm of changes costs one event per
check. Must not know: what the file is. Without inotify it cannot be created.
"""

import ctypes
import os
import struct
from pathlib import Path

# From linux/inotify.h. Touching a file is an attribute event; writing to it is not, so that no process is
# woken before the commit.
_ATTRIBUTES, _ONCE = 0x4, 0x80000000
_NONBLOCK, _CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
_EVENT = struct.Struct("iIII")
_MOST_BYTES = 4096


class FileWatch:
    """Starts unset; end with `close`. Raises OSError where inotify is missing or exhausted."""

    def __init__(self, path: Path) -> None:
        try:
            library = ctypes.CDLL(None, use_errno=True)
            self._add = library.inotify_add_watch
            init = library.inotify_init1
        except (AttributeError, TypeError) as error:  # another system's C library
            raise OSError("there is no inotify") from error
        self._path = os.fsencode(path)
        self._file = _check_result(init(_NONBLOCK | _CLOEXEC))

    def fileno(self) -> int:
        return self._file

    def set(self) -> None:
        """Report the next touch. May be repeated. Raises OSError, for example when the file does not
        exist.
        """
        _check_result(self._add(self._file, self._path, ctypes.c_uint32(_ATTRIBUTES | _ONCE)))

    def was_touched(self) -> bool:
        """Whether the file was touched since the last call. Never waits."""
        try:
            data = os.read(self._file, _MOST_BYTES)
        except BlockingIOError:
            return False
        # The removal of a watch is an event, too, which is ignored.
        place, found = 0, False
        while place < len(data):
            _, kind, _, name = _EVENT.unpack_from(data, place)
            found = found or bool(kind & _ATTRIBUTES)
            place += _EVENT.size + name
        return found

    def close(self) -> None:
        os.close(self._file)


def _check_result(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer
