"""A checksum within a small JSON object, by which its reader finds out that a bit of it has changed.

Promise: one wrong bit is found and put right; other damage is found, but for one case in four billion.
Objects without a checksum, as earlier versions wrote them, are given back as they are. For records that have
no digest in their key. Must not know: what the object says.
"""

import re
import zlib
from typing import NamedTuple

_SEAL = re.compile(rb',"crc32":([0-9]{1,10})\}\Z')
_LONGEST_MENDED = 4096  # bytes: each bit is tried


class Opened(NamedTuple):
    """`text` is as it was sealed; `mended`: it was put right."""

    text: bytes
    mended: bool


def seal(text: bytes) -> bytes:
    """The JSON object with a last entry `crc32`. It must not be empty."""
    return b'%b,"crc32":%d}' % (text[:-1], zlib.crc32(text))


def open_sealed(text: bytes) -> Opened | None:
    """The object, still with its seal; None when it is damaged."""
    found = _SEAL.search(text)
    if found is None or _fits(text, found):
        return Opened(text, mended=False)
    if len(text) > _LONGEST_MENDED:
        return None
    changed = bytearray(text)
    for bit in range(8 * len(text)):
        changed[bit // 8] ^= 1 << bit % 8
        found = _SEAL.search(changed)
        if found is not None and _fits(changed, found):
            return Opened(bytes(changed), mended=True)
        changed[bit // 8] ^= 1 << bit % 8
    return None


def _fits(text: bytes | bytearray, found: re.Match[bytes]) -> bool:
    return zlib.crc32(b"}", zlib.crc32(memoryview(text)[: found.start()])) == int(found[1])
