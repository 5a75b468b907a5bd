"""A network share that stops answering: a FUSE file system of one folder with a few files, in this process.

`python -m tests.standins.stalled_share MOUNT NAME=SOURCE…` mounts copies of the sources and prints a line.
Reads of files whose name begins with "stalled" are accepted and never answered, as by a share whose server
has gone: the thread that reads stays in the kernel, and not even SIGKILL ends it before the mount is gone. A
line is printed for each. Needs /dev/fuse and the right to mount.
"""

import ctypes
import errno
import os
import struct
import sys
from pathlib import Path

_HEAD, _REPLY = struct.Struct("<IIQQIIIHH"), struct.Struct("<IiQ")
_LOOKUP, _FORGET, _GETATTR, _OPEN, _READ, _RELEASE = 1, 2, 3, 14, 15, 18
_FLUSH, _INIT, _OPENDIR, _READDIR, _RELEASEDIR, _INTERRUPT, _BATCH_FORGET = 25, 26, 27, 28, 29, 36, 42
_NO_SUID_NO_DEV = 6
_DETACH = 2


def can_mount():
    """Whether this user may mount a FUSE file system here, as root of a machine or of a container may."""
    return os.geteuid() == 0 and Path("/dev/fuse").exists()


class StalledShare:
    def __init__(self, folder, files):
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._names = list(files)
        self._contents = list(files.values())
        self._folder = os.fsencode(folder)
        self._device = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={self._device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
        if self._libc.mount(b"stalled", self._folder, b"fuse.stalled", _NO_SUID_NO_DEV, options.encode()):
            raise OSError(ctypes.get_errno(), "cannot mount a FUSE file system")

    def unmount(self):
        self._libc.umount2(self._folder, _DETACH)

    def serve(self):
        while True:
            try:
                request = os.read(self._device, 1 << 20)
            except OSError as error:
                if error.errno == errno.ENODEV:  # unmounted
                    return
                raise
            _, kind, unique, node, *_ = _HEAD.unpack_from(request)
            answer = self._answer(kind, node, request[_HEAD.size :])
            if answer is not None:
                failed = isinstance(answer, int)
                body = b"" if failed else answer
                os.write(
                    self._device,
                    _REPLY.pack(_REPLY.size + len(body), -answer if failed else 0, unique) + body,
                )

    def _answer(self, kind, node, body):
        """Bytes, the number of an error, or None for no answer."""
        answers = {
            _INIT: lambda: struct.pack("<IIIIHHI", 7, 31, 1 << 16, 0, 0, 0, 4096) + bytes(40),
            _GETATTR: lambda: struct.pack("<QII", 0, 0, 0) + self._attributes(node),
            _LOOKUP: lambda: self._look_up(os.fsdecode(body.split(b"\0")[0])),
            _OPEN: lambda: struct.pack("<QII", 1, 0, 0),
            _OPENDIR: lambda: struct.pack("<QII", 1, 0, 0),
            _READDIR: lambda: b"" if struct.unpack_from("<QQ", body)[1] else self._entries(),
            _READ: lambda: self._read(node, body),
            **dict.fromkeys((_RELEASE, _FLUSH, _RELEASEDIR), lambda: b""),
            **dict.fromkeys((_FORGET, _INTERRUPT, _BATCH_FORGET), lambda: None),
        }
        return answers.get(kind, lambda: errno.ENOSYS)()

    def _look_up(self, name):
        if name not in self._names:
            return errno.ENOENT
        found = self._names.index(name) + 2
        return struct.pack("<QQQQII", found, 0, 0, 0, 0, 0) + self._attributes(found)

    def _read(self, node, body):
        if self._names[node - 2].startswith("stalled"):
            sys.stdout.write("stalled\n")
            sys.stdout.flush()
            return None
        _, start, length = struct.unpack_from("<QQI", body)
        return self._contents[node - 2][start : start + length]

    def _attributes(self, node):
        mode, size = (0o40755, 0) if node == 1 else (0o100644, len(self._contents[node - 2]))
        return struct.pack(
            "<6Q10I", node, size, 1, 1_000_000_000, 1_000_000_000, 1, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0
        )

    def _entries(self):
        listed = b""
        for number, name in enumerate(map(os.fsencode, self._names), 2):
            entry = struct.pack("<QQII", number, number, len(name), 8) + name
            listed += entry + bytes(-len(entry) % 8)
        return listed


def main():
    folder, *files = sys.argv[1:]
    contents = {}
    for one in files:
        name, _, source = one.partition("=")
        contents[name] = Path(source).read_bytes()
    share = StalledShare(folder, contents)
    sys.stdout.write("mounted\n")
    sys.stdout.flush()
    share.serve()


if __name__ == "__main__":
    main()
