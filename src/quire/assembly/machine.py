"""The memory of this machine, or of the container of this process when that has less.

Promise: any answer of the system gives a number; a limit that cannot be read is ignored.
"""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_MB = 1 << 20
_FALLBACK_MB = 4096
_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_OURS = Path("/proc/self/cgroup")


def usable_memory_mb() -> int:
    """For workers: a quarter stays for this process, the system and its disk cache."""
    return memory_mb() * 3 // 4


def memory_mb(groups: Path = _CONTROL_GROUPS, ours: Path = _OURS) -> int:
    try:
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // _MB
    except (ValueError, OSError):
        whole = _FALLBACK_MB
    return min([whole, *(size // _MB for size in _limits(groups, ours))])


def _limits(groups: Path, ours: Path) -> Iterator[int]:
    """The limits of the control groups of this process and of their parents: each may be the lowest."""
    for folder, name in _places(groups, _text(ours)):
        for place in (folder, *folder.parents):
            if place != groups and groups not in place.parents:
                break
            if (said := _text(place / name).strip()).isdecimal() and int(said) >= _MB:
                yield int(said)


def _places(groups: Path, said: str) -> Iterator[tuple[Path, str]]:
    """Version 2 has one tree, version 1 a separate one for memory. In a container the path may be that of the
    host, which does not exist inside: then the root of the tree applies.
    """
    for line in said.splitlines():
        number, _, rest = line.partition(":")
        kinds, _, path = rest.partition(":")
        inside = PurePosixPath(path).relative_to("/") if path.startswith("/") else PurePosixPath()
        if ".." in inside.parts:
            inside = PurePosixPath()
        if number == "0" and not kinds:
            yield groups / inside, "memory.max"
        elif "memory" in kinds.split(","):
            yield groups / "memory" / inside, "memory.limit_in_bytes"


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
