"""The registry of assets: pictures and files with a permanent address.

Promises: what an id stands for never changes, so caches may keep it; registering the same again is no error,
registering something else is. Nothing is fetched from URLs in registrations.
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
from quire.model.errors import DamagedBlob, Missing, Reject, Retry, Stale

GONE_SECONDS = 60.0


class RegistrationResult(Struct, frozen=True, kw_only=True):
    """`created` is False when exactly this was registered before."""

    created: bool
    answer: dict[str, Any]


class Delivery(Struct, frozen=True, kw_only=True):
    """Where the bytes of an asset are. With `url` they are there, and the other fields mean nothing. With
    `offset` they are a part of the blob that begins there.
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
    digest: str = ""  # of the whole blob, where its record tells it


async def register(
    blobs: Blobs,
    asset_id: str,
    said: Any,
    *,
    allowed: Callable[[str], str],
    base_url: str,
    prefix: str = "",
    folder: str = "",
) -> RegistrationResult:
    """`allowed` checks a URL and raises Reject. `prefix` is the prefix of keys in the bucket, for workers
    that use those; `folder` is where blobs that are named must lie. Raises Reject `bad_asset`, Stale when the
    id stands for something else.
    """
    if not ID.fullmatch(asset_id):
        raise bad_asset("Invalid asset id")
    registration = registrations.strip_bucket_prefix(registrations.read_registration(said), prefix)
    for source in registration.sources.values():
        if source.key and not source.key.startswith(folder):
            raise bad_asset(f"r2_key must begin with {folder}")
    if registration.url:
        allowed(registration.url)
    asset = _build_asset(asset_id, registration)
    there, created = await _register_once(blobs, asset, registration)
    if there != asset:
        raise Stale("Asset already registered with different content", code="asset_exists")
    return RegistrationResult(
        created=created, answer=registrations.build_answer(asset, registration, base_url)
    )


async def _register_once(blobs: Blobs, asset: Asset, registration: Registration) -> tuple[Asset, bool]:
    try:
        # Looked up first: an asset stays registered, also when its staged files have been moved.
        return await asset_records.find(blobs, asset.id), False
    except (Missing, DamagedBlob):
        for role, source in registration.sources.items():
            if source.data:
                await content.put_bytes(blobs, source.data)
            else:
                await _check_stored(blobs, role, source)
    return await asset_records.register(blobs, asset)


async def find_asset(blobs: Blobs, asset_id: str) -> Asset:
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
    """Locate the `wanted` rendition or its fallback; None: the default one. Raises Missing, Reject for a
    rendition of a file that is no image, Retry `asset_gone` when the store has lost it.
    """
    asset = await find_asset(blobs, asset_id)
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
    """Locate exactly this rendition. Raises Retry `asset_gone`."""
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
        digest=stored.metadata.get("sha256", ""),
        width=rendition.width,
        height=rendition.height,
    )


def _build_asset(asset_id: str, registration: Registration) -> Asset:
    renditions = {role: _build_rendition(source) for role, source in registration.sources.items()}
    return Asset(
        id=asset_id,
        content_type=registration.content_type,
        is_image=registration.is_image,
        url=registration.url,
        width=registration.width,
        height=registration.height,
        default=registration.default if registration.is_image else ORIGINAL,
        size=registration.size,
        name=registration.name,
        cid=registration.cid,
        renditions=renditions,
    )


def _build_rendition(source: RenditionSource) -> Rendition:
    key = keys.content(hashlib.sha256(source.data).hexdigest()) if source.data else source.key
    return Rendition(
        key=key, content_type=source.content_type, size=source.size, width=source.width, height=source.height
    )


async def _check_stored(blobs: Blobs, role: str, source: RenditionSource) -> None:
    try:
        found = await blobs.head(keys.check(source.key))
    except Missing as error:
        raise bad_asset(f"r2_key of {role} is not in the store: {source.key[:200]}") from error
    except Reject as error:
        raise bad_asset(f"r2_key of {role} is not a key: {source.key[:200]}") from error
    if found.size != source.size:
        raise bad_asset(f"size_bytes of {role} is {source.size}, but the store has {found.size} bytes")


def _unknown_asset() -> Missing:
    return Missing("Asset not found", code="unknown_asset")
