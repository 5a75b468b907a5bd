"""Landlock, the Linux kernel's limits on files that a process gives itself; by system calls through ctypes.

Promise: after `restrict` the calling thread, and every thread it starts, opens only what the rules name, for
what they allow, and connects nowhere by TCP (kernels from 6.7); nothing takes that back. Works without
privileges. Must not know: why. Metadata (chmod, chown, times) and sockets other than TCP are not Landlock's
business: see `seccomp`.
"""

import ctypes
import os
import stat
import struct
import sys
from collections.abc import Iterable
from functools import cache

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446  # the same on all architectures
_GET_VERSION = 1
_BENEATH = 1  # the kind of rule
_NO_NEW_PRIVS = 38

_WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE = 1 << 4, 1 << 5
_MAKE_DIR, _MAKE_FILE = 1 << 7, 1 << 8
_REFER, _TRUNCATE = 1 << 13, 1 << 14

READ = _READ_FILE | _READ_DIR
LIST = _READ_DIR  # names, and not a byte of any file
# Not to execute, nor to make links, sockets, pipes or devices: a later reader of the folder finds only plain
# files and folders there.
WRITE = READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_FILE | _REFER | _TRUNCATE
_ON_FILES = 1 | _WRITE_FILE | _READ_FILE | _TRUNCATE | 1 << 15

_FILES_BY_VERSION = (0, 13, 14, 15, 15, 16)  # how many kinds of access to files each version knows
_TCP = 0b11  # bind and connect, from version 4
_SCOPES = 0b11  # abstract sockets and signals, from version 6

Rule = tuple[str, int]  # a file or folder, and what is allowed there and below


@cache
def version() -> int:
    """The version of the kernel's interface; 0 where there is none, or it is switched off."""
    if sys.platform != "linux":
        return 0
    return max(0, _call(_CREATE, None, 0, _GET_VERSION))


def restrict(rules: Iterable[Rule]) -> None:
    """From now on, for this thread and those it starts. A place that does not exist is left out. Raises
    OSError where the kernel refuses.
    """
    known = version()
    files = (1 << _FILES_BY_VERSION[min(known, len(_FILES_BY_VERSION) - 1)]) - 1
    attributes = struct.pack("=QQQ", files, _TCP if known >= 4 else 0, _SCOPES if known >= 6 else 0)
    size = 8 if known < 4 else 16 if known < 6 else 24
    ruleset = _check(_call(_CREATE, ctypes.c_char_p(attributes), size, 0))
    try:
        for path, access in rules:
            _add(ruleset, path, access & files)
        _check(_libc().prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))
        _check(_call(_RESTRICT, ruleset, 0))
    finally:
        os.close(ruleset)


def _add(ruleset: int, path: str, access: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            access &= _ON_FILES
        rule = struct.pack("=Qi", access, place)
        if access:
            _check(_call(_ADD_RULE, ruleset, _BENEATH, ctypes.c_char_p(rule), 0))
    finally:
        os.close(place)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: object) -> int:
    given = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    return int(_libc().syscall(ctypes.c_long(number), *given))


def _check(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer
