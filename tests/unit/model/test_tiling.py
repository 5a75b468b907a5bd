"""How pictures are cut: every pixel once on each scale, and addresses mean a tile or nothing."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.model.errors import Reject
from quire.model.tiling import BOUNDS, HEAD, Grid, Tiles, bounds, bounds_at, first_offset, grid_of

grids = st.builds(Grid, st.integers(1, 3000), st.integers(1, 3000), st.sampled_from([128, 256, 500, 512]))
RECORD = Tiles(key="cas/aa/x", size=1000, width=1777, height=1111, side=512)


def address(tile):
    return f"{tile.x},{tile.y},{tile.region_width},{tile.region_height}", f"{tile.width},{tile.height}"


@given(grids)
def test_tiles_of_a_scale_cover_the_picture_once(grid):
    tiles = list(grid.tiles())
    assert [one.number for one in tiles] == list(range(grid.count))
    left = tiles
    for scale in grid.scales:
        columns, rows = (math.ceil(n / (grid.side * scale)) for n in (grid.width, grid.height))
        level, left = left[: columns * rows], left[columns * rows :]
        assert sum(one.region_width * one.region_height for one in level) == grid.width * grid.height
        assert sum(one.width for one in level[:columns]) == math.ceil(grid.width / scale)
        assert sum(one.height for one in level[::columns]) == math.ceil(grid.height / scale)
        assert max(max(one.width, one.height) for one in level) <= grid.side
    assert not left


@given(grids)
def test_only_the_last_scale_is_a_single_tile(grid):
    sizes = [(math.ceil(grid.width / scale), math.ceil(grid.height / scale)) for scale in grid.scales]
    assert [max(size) <= grid.side for size in sizes] == [False] * (len(sizes) - 1) + [True]
    assert grid.overview == sizes[-1]


@given(grids, st.data())
def test_every_tile_is_found_by_its_address(grid, data):
    tile = data.draw(st.sampled_from(list(grid.tiles())))
    region, size = address(tile)
    found = grid.find_tile(region, size)
    assert found is not None
    assert address(found) == (region, size)
    # The width alone means the first tile of that region and width: a strip may look alike at two scales.
    alike = [one for one in grid.tiles() if address(one)[0] == region and one.width == tile.width]
    assert grid.find_tile(region, f"{tile.width},") == alike[0]


def test_the_whole_picture_has_two_names():
    grid = Grid(1777, 1111, 512)
    last = list(grid.tiles())[-1]
    assert grid.find_tile("full", "445,278") == grid.find_tile("0,0,1777,1111", "445,") == last
    assert grid.find_tile("full", "1777,1111") is None


@given(
    grids, st.integers(0, 4000), st.integers(0, 4000), st.integers(0, 4000), st.integers(0, 4000), st.data()
)
def test_numbers_that_are_no_tile_mean_nothing(grid, x, y, wide, high, data):
    width, height = data.draw(st.integers(0, 600)), data.draw(st.integers(0, 600))
    known = {address(one) for one in grid.tiles()}
    region, size = f"{x},{y},{wide},{high}", f"{width},{height}"
    assert (grid.find_tile(region, size) is not None) == ((region, size) in known)


@given(st.text(), st.text())
def test_any_other_text_means_nothing_and_breaks_nothing(region, size):
    grid = Grid(1777, 1111, 512)
    known = {address(one) for one in grid.tiles()}
    found = grid.find_tile(region, size)
    assert found is None or (region, size) in known


@pytest.mark.parametrize(
    ("region", "size"),
    [
        ("0,0,512,0512", "512,512"),
        ("0,0,512,512", "512,512,"),
        (" 0,0,512,512", "512,512"),
        ("0,0,512,512\n", "512,512"),
        ("+0,0,512,512", "512,512"),
        ("0,0,512,512", "^512,512"),
        ("0,0,512,512", "!512,512"),
        ("0,0,512,512", "max"),
        ("0,0,512,512", ",512"),
        ("pct:0,0,100,100", "445,278"),
        ("square", "512,512"),
        ("..", ".."),
        ("\u0660,0,512,512", "512,512"),
        (f"0,0,{'9' * 5000},512", "512,512"),
        ("-512,0,512,512", "512,512"),
        ("1536,0,512,512", "512,512"),
    ],
)
def test_near_misses_mean_nothing(region, size):
    assert Grid(1777, 1111, 512).find_tile(region, size) is None


def test_where_a_tile_lies_is_read_from_its_own_entry():
    assert bounds_at(0) == (HEAD.size, HEAD.size + 16)
    assert bounds_at(3)[0] == HEAD.size + 24
    assert first_offset(2) == HEAD.size + 24
    assert bounds(BOUNDS.pack(100, 900), RECORD) == (100, 900)


@pytest.mark.parametrize(
    "said", [b"", b"x" * 16, BOUNDS.pack(900, 100), BOUNDS.pack(0, 9), BOUNDS.pack(99, 1001)]
)
def test_a_damaged_pack_is_reported_and_not_read(said):
    with pytest.raises(Reject, match="damaged"):
        bounds(said, RECORD)


def test_a_record_without_a_size_is_damaged():
    with pytest.raises(Reject, match="damaged"):
        grid_of(Tiles(key="k", size=1, width=0, height=5, side=512))
