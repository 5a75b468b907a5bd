"""Tiles of an asset: found when they are its own, told when they are gone, described so that viewers cope."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.assets import iiif, tiles
from quire.blobs import asset_records, keys
from quire.model.asset import Asset, Rendition
from quire.model.errors import DamagedBlob, Reject, Retry
from quire.model.tiling import BOUNDS, HEAD, MARK, OFFSET, Grid, Tiles, first_offset
from quire.testing.memory_blobs import MemoryBlobs

ID = "01KB0000000000000000000000"
GRID = Grid(1000, 700, 512)


def asset(width=1000, height=700):
    known = ((200, 140), (width, height))
    renditions = {
        role: Rendition(key=role, content_type="image/jpeg", size=1, width=wide, height=high)
        for role, (wide, high) in zip(("thumb", "original"), known, strict=True)
    }
    return Asset(
        id=ID, content_type="image/jpeg", is_image=True, width=width, height=height, renditions=renditions
    )


def packed(grid=GRID):
    """A pack whose tiles are their own numbers."""
    bodies = [f"tile {one.number}".encode() for one in grid.tiles()]
    out, offset = HEAD.pack(MARK, len(bodies)), first_offset(len(bodies))
    for body in bodies:
        out += OFFSET.pack(offset)
        offset += len(body)
    return out + OFFSET.pack(offset) + b"".join(bodies)


@pytest.fixture
async def shelf():
    blobs, pack = MemoryBlobs(), packed()
    key = keys.content(hashlib.sha256(pack).hexdigest())
    await blobs.put(key, pack)
    record = Tiles(key=key, size=len(pack), width=GRID.width, height=GRID.height, side=GRID.side)
    await asset_records.register_tiles(blobs, ID, record)
    return blobs, record


async def test_each_tile_is_its_own_part_of_the_pack(shelf):
    blobs, record = shelf
    assert await tiles.find_tiles(blobs, asset()) == record
    versions = set()
    for tile in GRID.tiles():
        given_ = await tiles.locate_tile(blobs, asset(), record, tile)
        pieces = blobs.stream(given_.key, start=given_.offset, stop=given_.offset + given_.size)
        assert b"".join([piece async for piece in pieces]) == f"tile {tile.number}".encode()
        versions.add(given_.version)
    assert len(versions) == GRID.count


async def test_the_first_tiles_stay(shelf):
    blobs, record = shelf
    await asset_records.register_tiles(
        blobs, ID, Tiles(key="other", size=9, width=1000, height=700, side=256)
    )
    assert await tiles.find_tiles(blobs, asset()) == record


async def test_tiles_of_another_size_are_not_the_asset_s(shelf):
    blobs, _ = shelf
    assert await tiles.find_tiles(blobs, asset(1001, 700)) is None


async def test_a_pack_that_is_gone_is_told_as_lost_bytes_are(shelf):
    blobs, record = shelf
    await blobs.delete(record.key)
    with pytest.raises(Retry) as told:
        await tiles.locate_tile(blobs, asset(), record, next(GRID.tiles()))
    assert told.value.code == "asset_gone"


async def test_a_damaged_record_and_a_damaged_pack_are_refused(shelf):
    blobs, record = shelf
    await blobs.put(record.key, b"x" * HEAD.size + BOUNDS.pack(2, 1) + b"x" * record.size)
    with pytest.raises(Reject, match="damaged"):
        await tiles.locate_tile(blobs, asset(), record, next(GRID.tiles()))
    await blobs.put(keys.asset_tiles(ID), b"{}")
    with pytest.raises(Reject, match="damaged"):
        await tiles.find_tiles(blobs, asset())


@given(st.integers(300, 90_000), st.integers(300, 90_000), st.sampled_from([128, 256, 512, 4096]))
def test_sizes_are_never_as_many_as_scales(width, height, side):
    record = Tiles(key="k", size=1, width=width, height=height, side=side)
    said = iiif.build_image_info(asset(width, height), record, base_url="https://x")
    scales = len(said["tiles"][0]["scaleFactors"])
    assert len(said.get("sizes", ())) not in {scales, scales - 1} or scales == 1
    assert said.get("sizes") != []


async def test_a_damaged_record_of_tiles_is_never_used_and_is_replaced_by_the_next_registration(shelf):
    blobs, record = shelf
    await blobs.put(keys.asset_tiles(ID), b"\0" * 100)
    with pytest.raises(DamagedBlob):
        await asset_records.find_tiles(blobs, ID)
    await asset_records.register_tiles(blobs, ID, record)
    assert await asset_records.find_tiles(blobs, ID) == record
