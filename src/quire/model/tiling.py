"""How a picture is cut into tiles, and where each tile is in the file that holds all of them.

Pure arithmetic, the same for the step that writes the pack and for the server that reads from it. The scheme
is that of IIIF Image 3, level 0: squares of one size on every scale 1, 2, 4 … until the whole picture is one
tile.

A pack is a mark, the number of tiles, the offset of each and the end of the last (64 bits each), and then the
JPEGs, the picture in full size first, row by row. A tile's offset is found by its number alone, so that the
list need not be read.
"""

import re
import struct
from collections.abc import Iterator

from msgspec import Struct

from quire.model.errors import Reject

MARK = b"QTIL0001"
HEAD = struct.Struct("<8sQ")
OFFSET = struct.Struct("<Q")
BOUNDS = struct.Struct("<QQ")
_NUMBER = r"(0|[1-9][0-9]{0,7})"
_REGION = re.compile(rf"{_NUMBER},{_NUMBER},{_NUMBER},{_NUMBER}")
_SIZE = re.compile(rf"{_NUMBER},{_NUMBER}?")


class Tiles(Struct, frozen=True, kw_only=True):
    """The record of a pack: of a picture of this size, in squares of `side`."""

    key: str
    size: int
    width: int
    height: int
    side: int
    schema: int = 1


class Tile(Struct, frozen=True):
    """The `number` in the pack, the region of the picture, and the size in which it is shown."""

    number: int
    x: int
    y: int
    region_width: int
    region_height: int
    width: int
    height: int


class Grid(Struct, frozen=True):
    width: int
    height: int
    side: int

    @property
    def scales(self) -> list[int]:
        """1, 2, 4 … up to the one at which the picture is a single tile."""
        found = [1]
        while max(self.width, self.height) > found[-1] * self.side:
            found.append(found[-1] * 2)
        return found

    @property
    def count(self) -> int:
        return sum(self._columns(scale) * self._rows(scale) for scale in self.scales)

    @property
    def overview(self) -> tuple[int, int]:
        """The size of the picture that is a single tile."""
        return self._level(self.scales[-1])

    def tiles(self) -> Iterator[Tile]:
        """All tiles in the order of the pack."""
        number = 0
        for scale in self.scales:
            for row in range(self._rows(scale)):
                for column in range(self._columns(scale)):
                    yield self._tile(number, scale, column, row)
                    number += 1

    def find_tile(self, region: str, size: str) -> Tile | None:
        """The tile at two parts of an IIIF address: `full` or `x,y,w,h`, and `w,h` or `w,`. None for
        everything else.
        """
        place = (0, 0, self.width, self.height) if region == "full" else _numbers(_REGION, region)
        shown = _numbers(_SIZE, size)
        if place is None or shown is None:
            return None
        before = 0
        for scale in self.scales:
            found = self._at(scale, before, (place[0], place[1]))
            if found is not None and _is(found, place, shown):
                return found
            before += self._columns(scale) * self._rows(scale)
        return None

    def _at(self, scale: int, before: int, corner: tuple[int, int]) -> Tile | None:
        step = self.side * scale
        column, row = corner[0] // step, corner[1] // step
        if column * step != corner[0] or row * step != corner[1]:
            return None
        if column >= self._columns(scale) or row >= self._rows(scale):
            return None
        return self._tile(before + row * self._columns(scale) + column, scale, column, row)

    def _tile(self, number: int, scale: int, column: int, row: int) -> Tile:
        step = self.side * scale
        x, y = column * step, row * step
        wide, high = min(step, self.width - x), min(step, self.height - y)
        return Tile(number, x, y, wide, high, _shrunk(wide, scale), _shrunk(high, scale))

    def _level(self, scale: int) -> tuple[int, int]:
        return _shrunk(self.width, scale), _shrunk(self.height, scale)

    def _columns(self, scale: int) -> int:
        return _shrunk(self.width, self.side * scale)

    def _rows(self, scale: int) -> int:
        return _shrunk(self.height, self.side * scale)


def grid_of(tiles: Tiles) -> Grid:
    """Raises Reject `corrupt` for a record that no pack can have."""
    if min(tiles.width, tiles.height, tiles.side) < 1:
        raise Reject("The record of the tiles is damaged", code="corrupt")
    return Grid(tiles.width, tiles.height, tiles.side)


def first_offset(count: int) -> int:
    """Where the first tile of a pack begins."""
    return HEAD.size + OFFSET.size * (count + 1)


def bounds_at(number: int) -> tuple[int, int]:
    """The bytes of a pack that hold a tile's offset and end."""
    start = HEAD.size + OFFSET.size * number
    return start, start + BOUNDS.size


def bounds(said: bytes, tiles: Tiles) -> tuple[int, int]:
    """A tile's offset and end, from those bytes. Raises Reject `corrupt` for impossible ones."""
    if len(said) == BOUNDS.size:
        start, stop = BOUNDS.unpack(said)
        if HEAD.size < start < stop <= tiles.size:
            return start, stop
    raise Reject("The pack of the tiles is damaged", code="corrupt")


def _is(tile: Tile, place: tuple[int, ...], shown: tuple[int, ...]) -> bool:
    same_place = place == (tile.x, tile.y, tile.region_width, tile.region_height)
    return same_place and shown in {(tile.width,), (tile.width, tile.height)}


def _numbers(pattern: re.Pattern[str], text: str) -> tuple[int, ...] | None:
    found = pattern.fullmatch(text)
    return tuple(int(one) for one in found.groups() if one is not None) if found else None


def _shrunk(length: int, scale: int) -> int:
    return -(-length // scale)
