"""Reads the directories of a TIFF without a decoder: pages, their sizes, and whether the file is complete.

libvips and Pillow count overviews as pages and call a cut-off file "unknown"; libvips shows missing WebP
tiles as black, Pillow missing old-style JPEG data as grey. This reader settles all of that with a few small
reads, before a pixel is touched. It knows tags and offsets only, and checks every number from the file
against the file's size.
"""

import sys
from array import array
from collections.abc import Container, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Literal

from msgspec import Struct, structs

from quire.model.errors import Reject
from quire.tools import refusals

_MOST_DIRECTORIES = 65_535
_MOST_ENTRIES = 4_096  # of one directory; real ones have dozens

_NEW_SUBFILE_TYPE, _SUBFILE_TYPE = 254, 255
_WIDTH, _HEIGHT, _BITS, _EXTRA_SAMPLES = 256, 257, 258, 338
_COMPRESSION, _PHOTOMETRIC, _ORIENTATION, _SAMPLES, _PLANAR = 259, 262, 274, 277, 284
_FILL_ORDER, _STRIP_HEIGHT, _TILE_WIDTH, _TILE_HEIGHT, _SAMPLE_FORMAT = 266, 278, 322, 323, 339
_JPEG_TABLES = 347
_OLD_JPEG_COMPRESSION, _JPEG_COMPRESSION, _LAB, _SEPARATE_PLANES = 6, 7, 8, 2
_STRIPS, _TILES, _OLD_JPEG = (273, 279), (324, 325), (513, 514)  # tags of offsets and of byte counts
_EXTENTS = (_STRIPS, _TILES, _OLD_JPEG)
_SCALARS = {
    *(_NEW_SUBFILE_TYPE, _SUBFILE_TYPE, _WIDTH, _HEIGHT, _BITS, _EXTRA_SAMPLES),
    *(_COMPRESSION, _PHOTOMETRIC, _ORIENTATION, _SAMPLES, _PLANAR, _TILE_HEIGHT, _SAMPLE_FORMAT),
    *(_FILL_ORDER, _STRIP_HEIGHT, _TILE_WIDTH),
}
_WANTED = _SCALARS.union(*_EXTENTS, (_JPEG_TABLES,))
_KINDS = frozenset({_NEW_SUBFILE_TYPE, _SUBFILE_TYPE})

# The integer types, and bytes of no type (tables of a JPEG); no wanted tag has another.
_TYPES = {1: "B", 3: "H", 4: "I", 7: "B", 13: "I", 16: "Q", 18: "Q"}
_OVERVIEW_OR_MASK = 0b101  # of NewSubfileType: bit 0 reduced size, bit 2 transparency mask

_Tags = dict[int, Sequence[int]]


class TiffParts(Struct, frozen=True, kw_only=True):
    """The strips or tiles of a page, as they are stored."""

    compression: int
    offsets: Sequence[int] = ()
    counts: Sequence[int] = ()
    tiled: bool = False
    needed: int = 0  # so many make up the page
    room: int = 0  # bytes that one of them may come to, decoded
    reversed_bits: bool = False
    jpeg_tables: bytes = b""


class TiffPage(Struct, frozen=True, kw_only=True):
    """One picture of a TIFF. `index` is its place among all directories, as decoders count them."""

    index: int
    width: int
    height: int
    bits: int
    extra_sample: int | None  # 0 unspecified data, 1 premultiplied alpha, 2 alpha; None: not said
    auxiliary: bool  # an overview or a mask of another picture
    pixels_end: int  # where the last strip or tile ends; 0 when the file does not say
    samples: int = 1  # of a pixel
    rows: int = 1  # of a tile: so many lines are decoded together
    turned: bool = False  # stored rotated
    whole_numbers: bool = True  # samples from 0 upwards, not signed ones or fractions
    odd: bool = False  # a kind that only the second decoder reads
    lone_plane: bool = False  # its only sample is said to be in a plane of its own
    among: int = 1  # so many directories are in the file
    directory: int = 0  # where its directory lies, and where in it the way to the next one
    next_at: int = 0
    word: int = 4  # bytes of an offset
    order: Literal["little", "big"] = "little"
    parts: TiffParts = TiffParts(compression=1)


def pages(path: Path) -> list[TiffPage]:
    """The pages in order, without overviews and masks. Refuses directories that are cut off or circular."""
    with path.open("rb") as stream:
        found = list(_Reader(stream, path.stat().st_size).directories())
    found = [structs.replace(page, among=len(found)) for page in found] if len(found) > 1 else found
    # Camera files may carry only a preview at the top level: better the largest of those than nothing.
    return [page for page in found if not page.auxiliary] or [max(found, key=lambda page: page.width)]


def known_pages(path: Path) -> list[TiffPage]:
    """The same, kept for the file that was asked about last: of a book, each page is asked for alone."""
    found = path.stat()
    return _remembered(path, found.st_ino, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=1)
def _remembered(path: Path, _number: int, _changed_ns: int, _size: int) -> list[TiffPage]:
    return pages(path)


def count_pages(stream: BinaryIO, size: int, *, most: int) -> int:
    """How many pages there are, up to `most`. Reads no more of a directory than its own entries: for files
    of strangers that are looked at outside a worker process. Of a file that shows no page at all, 0 is
    said; one that is cut off or circular after its first page is refused.
    """
    found = 0
    try:
        for tags in _Reader(stream, size).chain(_KINDS, within=True):
            found += not _is_auxiliary(tags)
            if found >= most:
                break
    except Reject as flaw:
        if found or flaw.code not in {"truncated", "corrupt"}:  # the stream may have refusals of its own
            raise
    return found


def check_complete(path: Path, chosen: Sequence[TiffPage]) -> None:
    """Refuse a file that ends before its pixels do."""
    size = path.stat().st_size
    for number, page in enumerate(chosen, 1):
        if page.pixels_end > size:
            where = f"the pixels of page {number} go up to byte {page.pixels_end}, the file ends at {size}"
            raise refusals.truncated(where)


def _page(index: int, tags: _Tags, place: "_Place") -> TiffPage:
    first = {tag: values[0] for tag, values in tags.items() if values}
    if not (first.get(_WIDTH) and first.get(_HEIGHT)):
        raise refusals.corrupt(f"directory {index + 1} gives no width or height")
    return TiffPage(
        index=index,
        width=first[_WIDTH],
        height=first[_HEIGHT],
        bits=first.get(_BITS, 1),
        extra_sample=first.get(_EXTRA_SAMPLES),
        auxiliary=_is_auxiliary(tags),
        pixels_end=max(_end(tags, *extent) for extent in _EXTENTS),
        samples=first.get(_SAMPLES, 1),
        rows=first.get(_TILE_HEIGHT, 1),
        turned=first.get(_ORIENTATION, 1) != 1,
        whole_numbers=first.get(_SAMPLE_FORMAT, 1) == 1,
        odd=first.get(_COMPRESSION) == _OLD_JPEG_COMPRESSION
        or first.get(_PHOTOMETRIC) == _LAB
        or (
            first.get(_PLANAR) == _SEPARATE_PLANES and (_TILE_HEIGHT in first or first.get(_SAMPLES, 1) == 1)
        ),
        lone_plane=first.get(_PLANAR) == _SEPARATE_PLANES and first.get(_SAMPLES, 1) == 1,
        directory=place.offset,
        next_at=place.next_at,
        word=place.word,
        order=place.order,
        parts=_parts(tags, first),
    )


def _parts(tags: _Tags, first: dict[int, int]) -> TiffParts:
    tiled = _TILE_WIDTH in first
    samples = 1 if first.get(_PLANAR) == _SEPARATE_PLANES else first.get(_SAMPLES, 1)
    bits = samples * max(tags.get(_BITS) or (1,))
    width = first[_TILE_WIDTH] if tiled else first[_WIDTH]
    rows = first.get(_TILE_HEIGHT, 1) if tiled else min(first.get(_STRIP_HEIGHT, 1 << 32), first[_HEIGHT])
    offsets, counts = _TILES if tiled else _STRIPS
    planes = first.get(_SAMPLES, 1) if first.get(_PLANAR) == _SEPARATE_PLANES else 1
    return TiffParts(
        compression=first.get(_COMPRESSION, 1),
        offsets=tags.get(offsets, ()),
        counts=tags.get(counts, ()),
        tiled=tiled,
        needed=-(-first[_WIDTH] // max(width, 1)) * -(-first[_HEIGHT] // max(rows, 1)) * planes,
        room=(width * bits + 7) // 8 * rows,
        reversed_bits=first.get(_FILL_ORDER, 1) == 2,
        jpeg_tables=bytes(tags.get(_JPEG_TABLES, ()))
        if first.get(_COMPRESSION) == _JPEG_COMPRESSION
        else b"",
    )


def _is_auxiliary(tags: _Tags) -> bool:
    """An overview or a mask."""
    first = {tag: values[0] for tag, values in tags.items() if tag in _KINDS and values}
    return bool(first.get(_NEW_SUBFILE_TYPE, 0) & _OVERVIEW_OR_MASK) or first.get(_SUBFILE_TYPE) == 2


def _end(tags: _Tags, offsets: int, counts: int) -> int:
    extents = zip(tags.get(offsets, ()), tags.get(counts, ()), strict=False)
    return max((offset + count for offset, count in extents), default=0)


class _Place(Struct, frozen=True):
    """Where a directory lies, and where in it the offset of the next one is written."""

    offset: int
    next_at: int
    word: int
    order: Literal["little", "big"]


class _Reader:
    """Reads numbers at offsets, in the file's byte order and offset width."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream, self._size = stream, size
        head = self._read(0, 8, "the header")
        self._order: Literal["little", "big"] = "little" if head[:2] == b"II" else "big"
        self._big = head[2:4] in {b"+\0", b"\0+"}  # BigTIFF: all counts and offsets have 8 bytes
        self._word = 8 if self._big else 4
        self.place = _Place(0, 0, self._word, self._order)  # of the directory that was read last

    def directories(self) -> Iterator[TiffPage]:
        for index, tags in enumerate(self.chain(_WANTED)):
            yield _page(index, tags, self.place)

    def chain(self, wanted: Container[int], *, within: bool = False) -> Iterator[_Tags]:
        """The main chain. Sub-directories (overviews, EXIF) hang aside and are not visited. `within`: values
        that lie elsewhere in the file are left out.
        """
        offset = self._number(self._read(self._word, self._word, "the header"))
        seen: set[int] = set()
        while offset:
            if offset in seen:
                raise refusals.corrupt(f"directory {len(seen)} leads back to an earlier one")
            if len(seen) == _MOST_DIRECTORIES:
                raise refusals.corrupt(f"it claims more than {_MOST_DIRECTORIES} directories")
            seen.add(offset)
            tags, offset = self._directory(offset, f"directory {len(seen)}", wanted, within=within)
            yield tags
        if not seen:
            raise refusals.corrupt("there is no directory in it")

    def _directory(
        self, offset: int, what: str, wanted: Container[int], *, within: bool
    ) -> tuple[_Tags, int]:
        count_bytes, entry_bytes = (8, 20) if self._big else (2, 12)
        entries = self._number(self._read(offset, count_bytes, what))
        if not 0 < entries <= _MOST_ENTRIES:
            raise refusals.corrupt(f"{what} claims {entries} entries")
        raw = self._read(offset + count_bytes, entries * entry_bytes + self._word, what)
        next_at = offset + count_bytes + entries * entry_bytes
        self.place = _Place(offset, next_at, self._word, self._order)
        tags: _Tags = {}
        for at in range(0, entries * entry_bytes, entry_bytes):
            tag, kind = self._number(raw[at : at + 2]), self._number(raw[at + 2 : at + 4])
            if tag not in wanted or kind not in _TYPES:
                continue
            said = raw[at + 4 : at + entry_bytes]
            if not within or self._fits(said, _TYPES[kind]):
                tags[tag] = self._values(said, _TYPES[kind], f"tag {tag} of {what}")
        return tags, self._number(raw[-self._word :])

    def _fits(self, count_and_value: bytes, letter: str) -> bool:
        return self._number(count_and_value[: self._word]) * array(letter).itemsize <= self._word

    def _values(self, count_and_value: bytes, letter: str, what: str) -> Sequence[int]:
        count, value = self._number(count_and_value[: self._word]), count_and_value[self._word :]
        values = array(letter)
        length = count * values.itemsize
        values.frombytes(
            value[:length] if length <= self._word else self._read(self._number(value), length, what)
        )
        if self._order != sys.byteorder:
            values.byteswap()
        return values

    def _number(self, raw: bytes) -> int:
        return int.from_bytes(raw, self._order)

    def _read(self, offset: int, length: int, what: str) -> bytes:
        if offset + length > self._size:
            raise refusals.truncated(
                f"{what} goes up to byte {offset + length}, the file ends at {self._size}"
            )
        self._stream.seek(offset)
        return self._stream.read(length)
