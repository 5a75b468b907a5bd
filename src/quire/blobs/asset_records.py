"""Records of assets in the blob store, and marks on the staged files they depend on.

Promises: a record is written once and never changes, even among concurrent writers; before it names a staged
file, that file is marked as held, so that the cleanup checks it with one request. Must not know: callers.
"""

import re

import msgspec

from quire.blobs import keys
from quire.blobs.port import BlobInfo, Blobs, IfAbsent
from quire.model import asset as assets
from quire.model.asset import ORIGINAL, Asset
from quire.model.errors import Missing, Reject, Stale
from quire.model.files import stem_and_extension
from quire.model.tiling import Tiles

_STAGED = re.compile(r"staging/([0-7][0-9A-HJKMNP-TV-Z]{25})/.+")
_EXTENSION = re.compile(r"[a-z0-9]{1,10}")
_ALWAYS = "-"  # held for several reasons, or not as an original: no copy elsewhere replaces it


async def find(blobs: Blobs, asset_id: str) -> Asset:
    """Raises Missing, or Reject `corrupt`."""
    text = await blobs.get(keys.asset(asset_id))
    try:
        return assets.decode(text)
    except msgspec.DecodeError as error:
        raise Reject(f"The record of asset {asset_id} is damaged: {error}", code="corrupt") from error


async def register(blobs: Blobs, asset: Asset) -> tuple[Asset, bool]:
    """The asset that is registered under this id, and whether it is the given one: the first registration
    wins. May be repeated.
    """
    try:
        return await find(blobs, asset.id), False
    except Missing:
        for role, rendition in asset.renditions.items():
            await _mark_held(blobs, rendition.key, asset.id if role == ORIGINAL else _ALWAYS)
    try:
        await blobs.put(
            keys.asset(asset.id), assets.encode(asset), content_type="application/json", condition=IfAbsent()
        )
    except Stale:
        return await find(blobs, asset.id), False
    return asset, True


async def register_tiles(blobs: Blobs, asset_id: str, tiles: Tiles) -> None:
    """Register tiles; the first registration of an asset wins. May be repeated."""
    try:
        await blobs.put(
            keys.asset_tiles(asset_id),
            assets.encode(tiles),
            content_type="application/json",
            condition=IfAbsent(),
        )
    except Stale:
        return


async def find_tiles(blobs: Blobs, asset_id: str) -> Tiles | None:
    """The tiles of an asset; None when it has none. Raises Reject `corrupt`."""
    try:
        return assets.decode_tiles(await blobs.get(keys.asset_tiles(asset_id)))
    except Missing:
        return None
    except msgspec.DecodeError as error:
        raise Reject(f"The record of the tiles of {asset_id} is damaged: {error}", code="corrupt") from error


async def find_holder(blobs: Blobs, key: str) -> str | None:
    """The asset whose original this staged file is; empty: more depends on it; None: no asset does."""
    batch_id = batch_of(key)
    if batch_id is None:
        return None
    try:
        holder = (await blobs.get(keys.hold(batch_id, key))).decode()
    except Missing:
        return None
    return "" if holder == _ALWAYS else holder


async def locate(blobs: Blobs, asset_id: str, role: str, key: str) -> BlobInfo:
    """Find a rendition: at its key or, for an original that was staged, in the archive. Raises
    Missing.
    """
    try:
        return await blobs.head(key)
    except Missing:
        batch_id = batch_of(key)
        if role != ORIGINAL or batch_id is None:
            raise
        return await blobs.head(keys.archived(batch_id, asset_id, extension(key)))


def batch_of(key: str) -> str | None:
    """The batch whose staging folder holds the key, if one does."""
    found = _STAGED.fullmatch(key)
    return found[1] if found else None


def extension(key: str) -> str:
    """The extension as the archive writes it."""
    ending = stem_and_extension(key.rpartition("/")[2])[1].removeprefix(".").lower()
    return ending if _EXTENSION.fullmatch(ending) else "bin"


async def _mark_held(blobs: Blobs, key: str, asset_id: str) -> None:
    batch_id = batch_of(key)
    if batch_id is None:
        return
    mark = keys.hold(batch_id, key)
    try:
        await blobs.put(mark, asset_id.encode(), condition=IfAbsent())
    except Stale:
        if await find_holder(blobs, key) != asset_id:
            await blobs.put(mark, _ALWAYS.encode())
