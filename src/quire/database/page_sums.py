"""Checksums of the pages of a SQLite file, in a file beside it: `quire.db-sums`.

SQLite itself has none: a changed bit in a row is read like any other. The checksums belong to one state of
the file, which they name by size and time of modification. Whoever writes the file changes that time, so that
checksums never speak of pages that were written after them; a fault of the disk does not change it.

Promise: a page that differs from its checksum is reported; one of which a single bit differs is repaired, and
only after two checksums of different kinds agree. Must not know: tables, connections, what is in a page.

Only a process that has no connection to the file may open it as done here: closing any descriptor of a file
ends all locks that the process has on it, those of SQLite too.
"""

import contextlib
import fcntl
import os
import struct
from array import array
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple
from zlib import adler32, crc32

from msgspec import Struct

SUFFIX = "-sums"
# As many damaged pages are looked into; a disk that lost more needs a backup.
MAX_REPAIRED = 64
_HEAD = struct.Struct("<16sQqII")  # mark, size, time, bytes of a page, CRC of what follows
_MARK = b"quire page sums1"
_READ_PAGES = 512
_PAGE_BYTES = range(512, 65537)
_MOST_PAGES = 1 << 28  # 2 TiB of pages as Quire makes them
# Where SQLite locks: every connection to a file in WAL mode keeps a shared lock here.
_LOCK_AT, _LOCK_BYTES = 0x40000002, 510


class FileState(NamedTuple):
    """Another one after every write."""

    size: int
    mtime_ns: int


class PageSums(Struct, frozen=True):
    """Two checksums of each page: `crcs` find damage, `adlers` confirm a repair."""

    state: FileState
    page_bytes: int
    crcs: "array[int]"
    adlers: "array[int]"


class DamagedPage(Struct, frozen=True):
    """`bit` is the one that differs, counted from the beginning of the file; None: more than one."""

    number: int
    offset: int
    bit: int | None


def find_state(path: Path) -> FileState | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return FileState(found.st_size, found.st_mtime_ns)


def sums_path(path: Path) -> Path:
    return path.with_name(path.name + SUFFIX)


def open_sums_path(path: Path) -> Path | None:
    """Where they are while the file is written: a name that only this run of the machine knows. After a power
    cut the file may have new pages and still its old time, so these checksums must not be found again.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return None
    return path.with_name(f"{path.name}{SUFFIX}-{boot}")


def has_sums(path: Path) -> bool:
    return any(place is not None and place.exists() for place in (sums_path(path), open_sums_path(path)))


def begin_writing(path: Path) -> None:
    """Before the file itself is written: durably, what its checksums are found by is no longer there."""
    place, kept = sums_path(path), open_sums_path(path)
    try:
        if kept is None:
            place.unlink()
        else:
            place.replace(kept)
    except FileNotFoundError:
        return
    folder = os.open(place.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_sums(path: Path) -> PageSums | None:
    """Of the file as it is now. None: there are none, of another state, or they are damaged themselves."""
    state = find_state(path)
    if state is None:
        return None
    closed, opened = _read_stored(sums_path(path), state), open_sums_path(path)
    return closed if closed is not None or opened is None else _read_stored(opened, state)


def _read_stored(place: Path, state: FileState) -> PageSums | None:
    try:
        with place.open("rb") as stream:
            head = stream.read(_HEAD.size)
            mark, size, mtime_ns, page_bytes, crc = _HEAD.unpack(head)
            if mark != _MARK or mtime_ns != state.mtime_ns or page_bytes not in _PAGE_BYTES:
                return None
            count = -(-size // page_bytes)
            if count > _MOST_PAGES:
                return None
            stored = stream.read(8 * count + 1)
    except (OSError, struct.error):
        return None
    if len(stored) != 8 * count or crc32(stored, crc32(head[: -struct.calcsize("I")])) != crc:
        return None
    crcs, adlers = array("I", stored[: 4 * count]), array("I", stored[4 * count :])
    # Of the same time and another size: a fault cut it off, or added to it.
    return PageSums(FileState(size, mtime_ns), page_bytes, crcs, adlers)


def mark_state(path: Path, now_ns: int) -> FileState | None:
    """Give the file a time that no write gives it by chance: those are of the kernel's coarser clock. None:
    the file system does not keep times so exactly, so that a later write could go unnoticed.
    """
    try:
        os.utime(path, ns=(now_ns, now_ns))
    except OSError:
        return None
    state = find_state(path)
    return state if state is not None and state.mtime_ns == now_ns else None


def write_sums(
    path: Path,
    state: FileState,
    *,
    known: PageSums | None = None,
    changed: Collection[int] = (),
    closed: bool = True,
) -> bool:
    """Compute and store the checksums of the file, whose state must be `state` all the while. With those of
    an earlier state in `known`, only of the pages that were `changed` (numbered from 1) or are new. True when
    they are stored. Not `closed`: other processes have the file open and may write it at any time.
    """
    with path.open("rb") as stream:
        page_bytes = known.page_bytes if known is not None else _read_page_bytes(stream.read(100))
        if page_bytes is None:
            return False
        count = -(-state.size // page_bytes)
        if known is None:
            crcs, adlers = array("I"), array("I")
            stream.seek(0)
            for page in _iterate_pages(stream, page_bytes):
                crcs.append(crc32(page))
                adlers.append(adler32(page))
        else:
            crcs, adlers = known.crcs[:count], known.adlers[:count]
            new = range(len(crcs) + 1, count + 1)
            crcs.extend([0] * len(new))
            adlers.extend([0] * len(new))
            for number in {*changed, *new}:
                if number <= count:
                    stream.seek((number - 1) * page_bytes)
                    data = stream.read(page_bytes)
                    crcs[number - 1], adlers[number - 1] = crc32(data), adler32(data)
    if len(crcs) != count or find_state(path) != state:
        return False
    place = sums_path(path) if closed else open_sums_path(path)
    if place is None:
        return False
    _store(place, PageSums(state, page_bytes, crcs, adlers))
    for outdated in path.parent.glob(f"{path.name}{SUFFIX}-*") if closed else ():
        outdated.unlink(missing_ok=True)
    return True


def _store(place: Path, sums: PageSums) -> None:
    stored = sums.crcs.tobytes() + sums.adlers.tobytes()
    head = struct.pack("<16sQqI", _MARK, *sums.state, sums.page_bytes)
    new = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        # Not synchronized: what a power cut leaves of it does not match its own checksum and is ignored.
        new.write_bytes(head + struct.pack("<I", crc32(stored, crc32(head))) + stored)
        new.replace(place)
    finally:
        new.unlink(missing_ok=True)


def find_damage(path: Path, sums: PageSums) -> list[DamagedPage]:
    """The pages that are not what they were; none when the file was written while they were read."""
    found: list[tuple[int, bytes]] = []
    with path.open("rb") as stream:
        place = 0
        for page in _iterate_pages(stream, sums.page_bytes):
            if place >= len(sums.crcs) or crc32(page) != sums.crcs[place]:
                found.append((place, bytes(page) if len(found) < MAX_REPAIRED else b""))
            place += 1
    found += [(missing, b"") for missing in range(place, len(sums.crcs))]
    state = find_state(path)
    if not found or state is None or state.mtime_ns != sums.state.mtime_ns:
        return []
    damaged = []
    for number, data in found:
        known = bool(data) and number < len(sums.crcs)
        bit = _find_flipped_bit(data, sums.crcs[number], sums.adlers[number]) if known else None
        offset = number * sums.page_bytes
        damaged.append(DamagedPage(number + 1, offset, None if bit is None else 8 * offset + bit))
    return damaged


def repair(path: Path, sums: PageSums, damaged: Collection[DamagedPage]) -> bool:
    """Turn the bits of these pages back. False, and nothing is changed, when one of them has more than one
    wrong bit, or when a process has the database open.
    """
    bits = [one.bit for one in damaged if one.bit is not None]
    if len(bits) != len(damaged):
        return False
    with path.open("r+b") as stream:
        if not _lock(stream) or find_state(path) != sums.state:
            return False
        for bit in bits:
            stream.seek(bit // 8)
            (byte,) = stream.read(1)
            stream.seek(bit // 8)
            stream.write(bytes((byte ^ 1 << bit % 8,)))
        stream.flush()
        os.fsync(stream.fileno())
        # The file is again in the state that the checksums name.
        os.utime(path, ns=(sums.state.mtime_ns, sums.state.mtime_ns))
    return True


def is_unused(path: Path) -> bool:
    """Whether no process has the database open."""
    try:
        with path.open("r+b") as stream:
            return _lock(stream)
    except OSError:
        return False


def _lock(stream: BinaryIO) -> bool:
    """Lock out connections until the stream is closed; False when there is one."""
    try:
        fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB, _LOCK_BYTES, _LOCK_AT)
    except OSError:
        return False
    return True


def read_changed_pages(log: Path) -> set[int]:
    """The pages that SQLite's log has for the file; none when there is no log. Raises OSError."""
    pages: set[int] = set()
    with contextlib.suppress(FileNotFoundError), log.open("rb") as stream:
        head = stream.read(32)
        page_bytes = int.from_bytes(head[8:12], "big")
        if len(head) < 32 or page_bytes not in _PAGE_BYTES:
            return pages
        # Frames of an earlier round of the log have other salts.
        salts = head[16:24]
        for place in range(32, os.fstat(stream.fileno()).st_size, 24 + page_bytes):
            stream.seek(place)
            frame = stream.read(16)
            if frame[8:16] == salts:
                pages.add(int.from_bytes(frame[:4], "big"))
    return pages


def _read_page_bytes(head: bytes) -> int | None:
    if len(head) < 100 or not head.startswith(b"SQLite format 3\0"):
        return None
    stored = int.from_bytes(head[16:18], "big")
    return 65536 if stored == 1 else stored if stored in _PAGE_BYTES else None


def _iterate_pages(stream: BinaryIO, page_bytes: int) -> Iterator[memoryview]:
    while piece := stream.read(_READ_PAGES * page_bytes):
        view = memoryview(piece)
        for start in range(0, len(piece), page_bytes):
            yield view[start : start + page_bytes]


def _find_flipped_bit(page: bytes, crc: int, adler: int) -> int | None:
    """The bit by which the page differs from the one with this CRC. The difference of two CRCs depends on the
    differing bits alone, and for pages of up to 64 KiB it is another one for every bit.
    """
    wanted = crc32(page) ^ crc
    # What each bit of a byte contributes, for the last byte of the page, then for those before it.
    shares = [_TABLE[1 << bit] for bit in range(8)]
    for place in range(len(page) - 1, -1, -1):
        if wanted in shares:
            bit = shares.index(wanted)
            fixed = bytearray(page)
            fixed[place] ^= 1 << bit
            return 8 * place + bit if adler32(fixed) == adler else None
        shares = [_TABLE[share & 0xFF] ^ share >> 8 for share in shares]
    return None


_TABLE = [crc32(bytes((byte,)), 0xFFFFFFFF) ^ 0xFFFFFFFF for byte in range(256)]
