"""The registry of assets: pictures and files that have an address for good.

Promises: what an id stands for never changes, so that caches may keep it; registering the same again is no
error, registering something else is. Nothing is fetched from the addresses that registrations name.
"""

import hashlib
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from quire.assets import registrations
from quire.assets.registrations import Registration, RenditionSource, bad_asset
from quire.blobs import asset_records, content, keys
from quire.blobs.port import Blobs
from quire.model.asset import FALLBACKS, ID, ORIGINAL, Asset, Rendition
from quire.model.errors import Missing, Reject, Retry, Stale

GONE_SECONDS = 60.0


class RegistrationResult(Struct, frozen=True, kw_only=True):
    """`created` is False when exactly this was registered before."""

    created: bool
    answer: dict[str, Any]


class Delivery(Struct, frozen=True, kw_only=True):
    """What is given to somebody who asks. With `url` it lies there and the rest says nothing. With `offset`
    it is a part of its blob and begins there.
    """

    asset: Asset
    url: str = ""
    role: str = ""
    key: str = ""
    content_type: str = ""
    size: int = 0
    version: str = ""
    width: int = 0
    height: int = 0
    offset: int | None = None


async def register(
    blobs: Blobs,
    asset_id: str,
    said: Any,
    *,
    allowed: Callable[[str], str],
    base_url: str,
    prefix: str = "",
) -> RegistrationResult:
    """`allowed` judges an address: it raises Reject. `prefix` is how keys of the bucket begin, for workers
    that know those. Raises Reject `bad_asset`, Stale when the id stands for something else.
    """
    if not ID.fullmatch(asset_id):
        raise bad_asset("Invalid asset id")
    form = registrations.strip_bucket_prefix(registrations.read(said), prefix)
    if form.url:
        allowed(form.url)
    asset = _build_asset(asset_id, form)
    there, created = await _register_once(blobs, asset, form)
    if there != asset:
        raise Stale("Asset already registered with different content", code="asset_exists")
    return RegistrationResult(created=created, answer=registrations.build_answer(asset, form, base_url))


async def _register_once(blobs: Blobs, asset: Asset, form: Registration) -> tuple[Asset, bool]:
    try:
        # Looked for first: what was registered once stays so, also when its staged files have moved on.
        return await asset_records.find(blobs, asset.id), False
    except Missing:
        for role, copy in form.copies.items():
            if copy.data:
                await content.put_bytes(blobs, copy.data)
            else:
                await _check_stored(blobs, role, copy)
    return await asset_records.register(blobs, asset)


async def find(blobs: Blobs, asset_id: str) -> Asset:
    """Raises Missing."""
    if not ID.fullmatch(asset_id):
        raise _unknown_asset()
    try:
        return await asset_records.find(blobs, asset_id)
    except Missing as error:
        raise _unknown_asset() from error


async def deliver(
    blobs: Blobs, asset_id: str, wanted: str | None, *, allowed: Callable[[str], str]
) -> Delivery:
    """Of the rendition that is `wanted`, or of what stands in for it; None: the usual one. Raises Missing,
    Reject when it cannot have that, Retry `asset_gone` when the store has lost it.
    """
    asset = await find(blobs, asset_id)
    if wanted is not None and not asset.is_image:
        raise Reject("Asset is not an image and has no variants", code="not_an_image_asset")
    if asset.url:
        return Delivery(asset=asset, url=allowed(asset.url))
    if wanted is not None and wanted not in FALLBACKS:
        raise Missing(f"Variant not found; there are {', '.join(FALLBACKS)}", code="unknown_variant")
    role = asset.choose_rendition(wanted)
    if role is None:
        raise Missing("Variant not found", code="unknown_variant")
    return await locate_rendition(blobs, asset, role)


async def locate_rendition(blobs: Blobs, asset: Asset, role: str) -> Delivery:
    """Of exactly this rendition. Raises Retry `asset_gone`."""
    rendition = asset.renditions[role]
    try:
        stored = await asset_records.locate(blobs, asset.id, role, rendition.key)
    except Missing as error:
        raise Retry(
            "The asset's bytes are not in the store", code="asset_gone", delay_seconds=GONE_SECONDS
        ) from error
    return Delivery(
        asset=asset,
        role=role,
        key=stored.key,
        content_type=rendition.content_type,
        size=stored.size,
        version=stored.version,
        width=rendition.width,
        height=rendition.height,
    )


def _build_asset(asset_id: str, form: Registration) -> Asset:
    renditions = {role: _build_rendition(copy) for role, copy in form.copies.items()}
    return Asset(
        id=asset_id,
        content_type=form.content_type,
        is_image=form.is_image,
        url=form.url,
        width=form.width,
        height=form.height,
        default=form.default if form.is_image else ORIGINAL,
        size=form.size,
        name=form.name,
        cid=form.cid,
        renditions=renditions,
    )


def _build_rendition(copy: RenditionSource) -> Rendition:
    key = keys.content(hashlib.sha256(copy.data).hexdigest()) if copy.data else copy.key
    return Rendition(
        key=key, content_type=copy.content_type, size=copy.size, width=copy.width, height=copy.height
    )


async def _check_stored(blobs: Blobs, role: str, copy: RenditionSource) -> None:
    try:
        found = await blobs.head(keys.check(copy.key))
    except Missing as error:
        raise bad_asset(f"r2_key of {role} is not in the store: {copy.key[:200]}") from error
    except Reject as error:
        raise bad_asset(f"r2_key of {role} is not a key: {copy.key[:200]}") from error
    if found.size != copy.size:
        raise bad_asset(f"size_bytes of {role} is {copy.size}, but the store has {found.size} bytes")


def _unknown_asset() -> Missing:
    return Missing("Asset not found", code="unknown_asset")
