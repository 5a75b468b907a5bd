"""Registers the asset that a step declared: for every compute, the only place that does.

Promise: the record of the asset, and that of its tiles, is stored before the result that refers to it is
reported or settled. Workers of a pool call this themselves; for a worker that calls back, the server does,
with what it has verified. May be repeated: the first registration of an asset stays. Must not know: where the
step ran, and who is told.
"""

from quire.blobs import asset_records
from quire.blobs.port import Blobs
from quire.model.asset import AssetDraft, build_asset, build_tiles
from quire.model.files import File, Product


async def register_asset(
    blobs: Blobs, draft: AssetDraft, original: File, products: tuple[Product, ...]
) -> None:
    """`original` is the file that the step worked on; `products` are stored. Raises what the store raises."""
    asset, tiles = build_asset(draft, original, products), build_tiles(products)
    await asset_records.register(blobs, asset)
    if tiles is not None:
        await asset_records.register_tiles(blobs, asset.id, tiles)
