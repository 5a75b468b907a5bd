"""Seccomp, the Linux kernel's filter of system calls; a small filter of our own, set through ctypes.

Promise: after `restrict` the calling thread, and every thread it starts, makes no socket but pairs of its
own, no process and no signal to others, does not change modes, owners or times of files, and reaches none of
the kernel's other doors (io_uring, ptrace, mounts, keys, shared memory by number); nothing takes that back. A
forbidden call fails with EPERM, a call newer than this filter with ENOSYS. A call of another architecture
kills the process. Must not know: files; those are `landlock`'s business.
"""

import ctypes
import errno
import os
import platform
import struct
import sys
from functools import cache
from typing import NamedTuple

_SET_FILTER, _NO_NEW_PRIVS = 22, 38  # of prctl
_ACTION_AVAILABLE = 2  # of seccomp
_ALLOW, _FAIL, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # where the kernel shows them to the filter
_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06

_THREAD = 0x00010000  # CLONE_THREAD
_TRUNCATING = os.O_ACCMODE | os.O_TRUNC
_TIOCSTI = 0x5412
_UNIX, _STREAM = 1, 1  # of sockets
_DEATH_SIGNAL = 1  # of prctl

# Numbers of x86-64 and of 64-bit ARM. Calls from 424 on have one number everywhere.
_FORBIDDEN_X86 = (
    *(41, 42, 43, 49, 50, 288),  # socket connect accept bind listen accept4
    *(57, 58, 59, 322),  # fork vfork execve execveat
    *(109, 112),  # setpgid setsid: it dies with its group
    *(101, 129, 200, 297, 310, 311, 312),  # ptrace sigqueue tkill tgsigqueue vm_readv vm_writev kcmp
    *(256, 279, 298, 321, 323),  # migrate_pages move_pages perf_event_open bpf userfaultfd
    *(29, 64, 68, 240),  # shmget semget msgget mq_open
    *(248, 249, 250),  # add_key request_key keyctl
    *(76, 90, 91, 92, 93, 94, 260, 268),  # truncate chmod fchmod chown fchown lchown fchownat fchmodat
    *(188, 189, 190, 197, 198, 199),  # setxattr removexattr
    *(132, 235, 261, 280),  # utime utimes futimesat utimensat
    *(155, 161, 165, 166, 179, 272, 308),  # pivot_root chroot mount umount quotactl unshare setns
    *(300, 303, 304),  # fanotify_init name_to_handle_at open_by_handle_at
    *(103, 135, 153, 154, 159, 163, 164, 167, 168, 169, 170, 171, 172, 173, 227, 305),  # the machine
    *(175, 176, 246, 313, 320),  # modules, another kernel
)
_FORBIDDEN_ARM = (
    *(198, 200, 201, 202, 203, 242),
    *(221, 281),
    *(154, 157),
    *(117, 130, 138, 240, 270, 271, 272),
    *(238, 239, 241, 280, 282),
    *(180, 186, 190, 194),
    *(217, 218, 219),
    *(45, 52, 53, 54, 55),
    *(5, 6, 7, 14, 15, 16),
    *(88,),
    *(39, 40, 41, 51, 60, 97, 268),
    *(262, 264, 265),
    *(58, 89, 92, 112, 116, 142, 161, 162, 170, 171, 224, 225, 266),
    *(104, 105, 106, 273, 294),
)
_FORBIDDEN = (
    *(424, 434, 438, 440, 448),  # pidfd_send_signal pidfd_open pidfd_getfd process_madvise process_mrelease
    *(428, 429, 430, 431, 432, 433, 442, 443),  # mounts, quotactl_fd
    452,  # fchmodat2
)
# Callers of these know older ones that say the same in a form that a filter can read.
_ABSENT = (425, 426, 427, 435, 437)  # io_uring clone3 openat2
_FIRST_UNKNOWN = 463


class Architecture(NamedTuple):
    """How the kernel calls it, and its numbers of calls."""

    mark: int
    forbidden: tuple[int, ...]
    clone: int
    kill: int
    tgkill: int
    prctl: int
    prlimit: int
    ioctl: int
    socketpair: int
    openat: int
    open: int | None = None


ARCHITECTURES = {
    "x86_64": Architecture(0xC000003E, _FORBIDDEN_X86, 56, 62, 234, 157, 302, 16, 53, 257, 2),
    "aarch64": Architecture(0xC00000B7, _FORBIDDEN_ARM, 220, 129, 131, 167, 261, 29, 199, 56),
}


def is_available() -> bool:
    """Does this kernel filter calls, and do we know its numbers?"""
    if sys.platform != "linux" or sys.byteorder != "little" or platform.machine() not in ARCHITECTURES:
        return False
    number = {"x86_64": 317, "aarch64": 277}[platform.machine()]
    action = ctypes.c_uint32(_FAIL)
    answer = _libc().syscall(ctypes.c_long(number), _ACTION_AVAILABLE, 0, ctypes.byref(action))
    return int(answer) == 0


def restrict() -> None:
    """From now on, for this thread and those it starts. Raises OSError where the kernel refuses."""
    program = build_filter(ARCHITECTURES[platform.machine()], os.getpid())
    instructions = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(instructions))
    for arguments in ((_NO_NEW_PRIVS, 1, 0, 0, 0), (_SET_FILTER, 2, ctypes.c_char_p(head), 0, 0)):
        if _libc().prctl(*arguments) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def build_filter(known: Architecture, pid: int) -> bytes:
    """The instructions. Of processes only `pid` itself may be sent signals and be given limits."""
    code = [_load(_ARCHITECTURE), *_unless(_EQUAL, known.mark, _KILL), _load(_NUMBER)]
    for absent in _ABSENT:
        code += _when(_EQUAL, absent, _FAIL | errno.ENOSYS)
    # The second numbering of x86-64 (x32) lies above, too.
    code += _when(_AT_LEAST, _FIRST_UNKNOWN, _FAIL | errno.ENOSYS)
    for forbidden in (*known.forbidden, *_FORBIDDEN):
        code += _when(_EQUAL, forbidden, _FAIL | errno.EPERM)
    refuse, allow = (_instruct(_RETURN, _FAIL | errno.EPERM), _instruct(_RETURN, _ALLOW))

    def judge(number: int, *judgement: bytes) -> None:
        code.extend((_instruct(_EQUAL, number, 0, len(judgement)), *judgement))

    # Threads are started, processes are not.
    threads = (_load_argument(0), _instruct(_AND, _THREAD), _instruct(_EQUAL, _THREAD, 0, 1), allow, refuse)
    judge(known.clone, *threads)
    for number in (known.kill, known.tgkill):
        judge(number, _load_argument(0), _instruct(_EQUAL, pid, 0, 1), allow, refuse)
    own = (_load_argument(0), _instruct(_EQUAL, 0, 1, 0), _instruct(_EQUAL, pid, 0, 1), allow, refuse)
    judge(known.prlimit, *own)
    judge(known.prctl, _load_argument(0), _instruct(_EQUAL, _DEATH_SIGNAL, 0, 1), refuse, allow)
    judge(known.ioctl, _load_argument(1), _instruct(_EQUAL, _TIOCSTI, 0, 1), refuse, allow)
    # Two connected ends, by which the runtimes of some libraries wake themselves. Only streams: a datagram
    # could be sent to another address.
    streams = (_load_argument(1), _instruct(_AND, 0xF), _instruct(_EQUAL, _STREAM, 0, 1), allow, refuse)
    judge(known.socketpair, _load_argument(0), _instruct(_EQUAL, _UNIX, 0, 4), *streams)
    # Opened for reading and emptied all the same: kernels before 6.2 leave that to us.
    emptying = (_instruct(_AND, _TRUNCATING), _instruct(_EQUAL, os.O_TRUNC, 0, 1), refuse, allow)
    judge(known.openat, _load_argument(2), *emptying)
    if known.open is not None:
        judge(known.open, _load_argument(1), *emptying)
    return b"".join([*code, allow])


def _instruct(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _load(place: int) -> bytes:
    return _instruct(_LOAD, place)


def _load_argument(number: int) -> bytes:
    """Its lower half, which is all that the calls judged here look at."""
    return _load(_ARGUMENTS + 8 * number)


def _when(test: int, value: int, answer: int) -> tuple[bytes, bytes]:
    return _instruct(test, value, 0, 1), _instruct(_RETURN, answer)


def _unless(test: int, value: int, answer: int) -> tuple[bytes, bytes]:
    return _instruct(test, value, 1, 0), _instruct(_RETURN, answer)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
