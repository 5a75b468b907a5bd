"""Records of assets in the blob store, and marks on the staged files they depend on.

Promises: a record is written once and never changes, even among concurrent writers; one with a wrong bit is
put right, one that is damaged further is never used and is replaced by the next registration; before it names
a staged file, that file is marked as held, so that the cleanup checks it with one request. Must not know:
callers.
"""

import logging
import re
from collections.abc import Awaitable
from contextlib import suppress

import msgspec

from quire.blobs import keys, seals
from quire.blobs.port import BlobInfo, Blobs, Condition, IfAbsent, IfVersion
from quire.model import asset as assets
from quire.model.asset import ORIGINAL, Asset
from quire.model.errors import DamagedBlob, Missing, Stale
from quire.model.files import stem_and_extension
from quire.model.tiling import Tiles

_STAGED = re.compile(r"staging/([0-7][0-9A-HJKMNP-TV-Z]{25})/.+")
_EXTENSION = re.compile(r"[a-z0-9]{1,10}")
_JSON = "application/json"
_ALWAYS = "-"  # held for several reasons, or not as an original: no copy elsewhere replaces it

_log = logging.getLogger("quire.assets")


async def find(blobs: Blobs, asset_id: str) -> Asset:
    """Raises Missing, or DamagedBlob."""
    key = keys.asset(asset_id)
    try:
        return assets.decode(await _read(blobs, key))
    except msgspec.DecodeError as error:
        raise _damaged(key) from error


async def register(blobs: Blobs, asset: Asset) -> tuple[Asset, bool]:
    """The asset that is registered under this id, and whether it is the given one: the first registration
    wins. May be repeated.
    """
    key = keys.asset(asset.id)
    condition: Condition = IfAbsent()
    try:
        return await find(blobs, asset.id), False
    except Missing:
        for role, rendition in asset.renditions.items():
            await _mark_held(blobs, rendition.key, asset.id if role == ORIGINAL else _ALWAYS)
    except DamagedBlob:
        condition = await _name_damaged(blobs, key, find(blobs, asset.id))
    try:
        await _write(blobs, key, asset, condition)
    except Stale:
        return await find(blobs, asset.id), False
    return asset, True


async def register_tiles(blobs: Blobs, asset_id: str, tiles: Tiles) -> None:
    """Register tiles; the first registration of an asset wins. May be repeated."""
    key = keys.asset_tiles(asset_id)
    try:
        await _write(blobs, key, tiles, IfAbsent())
    except Stale:
        with suppress(Stale):
            condition = await _name_damaged(blobs, key, find_tiles(blobs, asset_id))
            await _write(blobs, key, tiles, condition)


async def find_tiles(blobs: Blobs, asset_id: str) -> Tiles | None:
    """The tiles of an asset; None when it has none. Raises DamagedBlob."""
    key = keys.asset_tiles(asset_id)
    try:
        return assets.decode_tiles(await _read(blobs, key))
    except Missing:
        return None
    except msgspec.DecodeError as error:
        raise _damaged(key) from error


async def _write(blobs: Blobs, key: str, record: Asset | Tiles, condition: Condition) -> None:
    sealed = seals.seal(assets.encode(record))
    await blobs.put(key, sealed, content_type=_JSON, condition=condition)


async def _read(blobs: Blobs, key: str) -> bytes:
    """A record as it was written; a wrong bit is put right, in the store as well."""
    text = await blobs.get(key)
    opened = seals.open_sealed(text)
    if opened is None:
        raise _damaged(key)
    if opened.mended:
        _log.warning("a wrong bit in the record %s was put right; look after the disk of the store", key)
        with suppress(Stale, Missing):
            version = (await blobs.head(key)).version
            if await blobs.get(key) == text:
                await blobs.put(key, opened.text, content_type=_JSON, condition=IfVersion(version))
    return opened.text


async def _name_damaged(blobs: Blobs, key: str, look: Awaitable[object]) -> Condition:
    """The condition under which a damaged record is replaced: a right one that came meanwhile stays."""
    version = (await blobs.head(key)).version
    try:
        await look
    except DamagedBlob:
        return IfVersion(version)
    return IfAbsent()


def _damaged(key: str) -> DamagedBlob:
    return DamagedBlob(
        f"Quire's record {key!r} is damaged: it no longer says what was registered. Register the asset "
        "again, or run its folder again with another --home; look after the disk of the store."
    )


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
