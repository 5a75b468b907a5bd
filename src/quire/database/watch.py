"""A file whose changes of times wake us, by the file system (Linux, inotify).

One mark, one event: after each it is set anew by whoever has looked, so that a storm of changes costs one
event for each look. It must not know what the file is; where there is no inotify, it cannot be made.
"""

import ctypes
import os
import struct
from pathlib import Path

# From linux/inotify.h. Touching a file changes both its times, which is an event of its own kind: writing
# into it is none, so that nobody is woken before what was written counts.
_ATTRIBUTES, _ONCE = 0x4, 0x80000000
_NONBLOCK, _CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
_EVENT = struct.Struct("iIII")
_MOST_BYTES = 4096


class FileWatch:
    """Made unset; end with `close`. Raises OSError where the system has no such thing, or no more of it."""

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
        """The next touch, and no other, makes it readable. May be repeated. Raises OSError, as when the file
        is not there.
        """
        _check_result(self._add(self._file, self._path, ctypes.c_uint32(_ATTRIBUTES | _ONCE)))

    def was_touched(self) -> bool:
        """Whether it was since the last time, which is forgotten then. Never waits."""
        try:
            data = os.read(self._file, _MOST_BYTES)
        except BlockingIOError:
            return False
        # A mark that is gone has an event too, which says nothing.
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
