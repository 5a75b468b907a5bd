"""Tiles of pictures for zooming viewers: which exist, and where the requested one is.

Promise: a requested address is parsed as numbers and compared with the expected grid; no part of it becomes a
key. A tile costs three small requests to the store, whatever the number of tiles.
"""

from quire.assets.registry import GONE_SECONDS, Delivery
from quire.blobs import asset_records
from quire.blobs.port import Blobs
from quire.model import tiling
from quire.model.asset import Asset
from quire.model.errors import Missing, Retry
from quire.model.tiling import Tile, Tiles

ROLE = "tile"


async def find_tiles(blobs: Blobs, asset: Asset) -> Tiles | None:
    """None for a picture without tiles, or with tiles of another size than its own. Raises Reject."""
    if not asset.is_image or not asset.width:
        return None
    found = await asset_records.find_tiles(blobs, asset.id)
    same = found is not None and (found.width, found.height) == (asset.width, asset.height)
    return found if same else None


def match_tile(tiles: Tiles | None, region: str, size: str, file_name: str) -> Tile | None:
    if tiles is None or file_name != "default.jpg":
        return None
    return tiling.grid_of(tiles).find_tile(region, size)


async def locate_tile(blobs: Blobs, asset: Asset, tiles: Tiles, tile: Tile) -> Delivery:
    """Raises Retry `asset_gone`, Reject `corrupt`."""
    first, last = tiling.bounds_at(tile.number)
    try:
        said = b"".join([piece async for piece in blobs.stream(tiles.key, start=first, stop=last)])
    except Missing as error:
        raise Retry(
            "The asset's tiles are not in the store", code="asset_gone", delay_seconds=GONE_SECONDS
        ) from error
    start, stop = tiling.bounds(said, tiles)
    return Delivery(
        asset=asset,
        role=ROLE,
        key=tiles.key,
        content_type="image/jpeg",
        size=stop - start,
        # The key of a pack is the digest of its bytes.
        version=f"{tiles.key.rpartition('/')[2][:32]}-{tile.number}",
        width=tile.width,
        height=tile.height,
        offset=start,
    )
