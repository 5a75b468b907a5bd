"""Checks the sums that a PNG carries: decoders stop at the last row and do not compare all of them.

Promise: a picture whose header, palette or pixels do not have the checksum that was stored with them is
refused, and so is one that ends before its last chunk. Other chunks (texts, dates, profiles) may be damaged:
no pixel depends on them. Decodes nothing; reads the file once, in pieces.
"""

import zlib
from pathlib import Path
from typing import BinaryIO

from quire.tools import refusals

_SIGNATURE_BYTES = 8
_PIECE = 1 << 20
_CRITICAL = frozenset({b"IHDR", b"PLTE", b"IDAT", b"IEND"})


def check_sums(path: Path) -> None:
    with path.open("rb") as stream:
        size = path.stat().st_size
        at = _SIGNATURE_BYTES
        while True:
            stream.seek(at)
            head = stream.read(8)
            length, kind = int.from_bytes(head[:4]), head[4:]
            end = at + 12 + length
            if len(head) < 8 or end > size:
                raise refusals.truncated(
                    f"a chunk at byte {at} goes up to byte {end}, the file ends at {size}"
                )
            if kind in _CRITICAL:
                _check(stream, length, kind, at)
            if kind == b"IEND":
                return
            at = end


def _check(stream: BinaryIO, length: int, kind: bytes, at: int) -> None:
    found = zlib.crc32(kind)
    while length:
        piece = stream.read(min(length, _PIECE))
        found = zlib.crc32(piece, found)
        length -= len(piece)
    if found.to_bytes(4) != stream.read(4):
        raise refusals.corrupt(f"the checksum of the chunk {kind.decode()} at byte {at} is wrong")
