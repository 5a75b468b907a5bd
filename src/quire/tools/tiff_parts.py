"""Checks the strips and tiles of a TIFF that decoders read without looking at their end.

Promise: a part that is compressed with Deflate and does not fit its own checksum is refused, and so is one
that decodes to more than it has room for; of a JPEG tile, missing or left-over rows are damage; a WebP part
must be as long as it says; no part is left over. libtiff stops when a part is full and when it has all rows,
and libvips decodes JPEG tiles without a word about their flaws. Other compressions carry no sum, and their
decoders complain. Reads the page's parts once, one at a time.
"""

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from quire.model.errors import Reject
from quire.tools import refusals
from quire.tools.tiff import TiffPage

_DEFLATE, _JPEG, _WEBP = frozenset({8, 32946}), 7, 50001
_WEBP_HEAD = 12
_PIECE = 1 << 18
_START, _END = b"\xff\xd8", b"\xff\xd9"


def check(path: Path, page: TiffPage, check_jpeg: Callable[[bytes], None]) -> None:
    """`check_jpeg` refuses a JPEG that is not whole."""
    parts = page.parts
    if len(parts.offsets) > parts.needed:
        left = len(parts.offsets) - parts.needed
        raise refusals.corrupt(
            f"{left} {'tiles' if parts.tiled else 'strips'} are left over after the last row"
        )
    deflate = parts.compression in _DEFLATE and not parts.reversed_bits
    tiles = parts.compression == _JPEG and parts.tiled
    if not (deflate or tiles or parts.compression == _WEBP):
        return
    with path.open("rb") as stream:
        for number, (offset, count) in enumerate(zip(parts.offsets, parts.counts, strict=False), 1):
            if not count:
                continue  # a tile without bytes is empty on purpose
            stream.seek(offset)
            where = f"{'tile' if parts.tiled else 'strip'} {number}"
            if deflate:
                _check_deflate(stream, count, parts.room, where)
            elif parts.compression == _WEBP:
                _check_webp(stream.read(_WEBP_HEAD), count, where)
            else:
                _check_tile(stream.read(count), parts.jpeg_tables, check_jpeg, where)


def _check_deflate(stream: BinaryIO, count: int, room: int, where: str) -> None:
    unpacker = zlib.decompressobj()
    found = 0
    try:
        while count and not unpacker.eof:
            rest = stream.read(min(count, _PIECE))
            count -= len(rest) or count
            while rest and not unpacker.eof:
                found += len(unpacker.decompress(rest, _PIECE))
                rest = unpacker.unconsumed_tail
                if found > room:
                    raise refusals.corrupt(f"{where} decodes to more than the {room} bytes it has room for")
    except zlib.error as error:
        raise refusals.corrupt(f"{where}: {error}") from error


def _check_webp(head: bytes, count: int, where: str) -> None:
    promised = 8 + int.from_bytes(head[4:8], "little")
    if head[:4] != b"RIFF" or head[8:] != b"WEBP" or promised > count:
        raise refusals.corrupt(f"{where} is not a whole WebP")


def _check_tile(data: bytes, tables: bytes, check_jpeg: Callable[[bytes], None], where: str) -> None:
    if tables.startswith(_START) and data.startswith(_START):
        data = tables.removesuffix(_END) + data.removeprefix(_START)
    try:
        check_jpeg(data)
    except Reject as flaw:
        raise refusals.corrupt(f"{where} is not a whole JPEG") from flaw
