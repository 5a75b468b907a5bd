"""Registrations of assets in both published shapes, and the answer to each.

The service's own shape names blobs in the store; that of the older specification carries the renditions
inline. Promise: a registration that passes can be recorded; every refusal is one sentence for the client.
"""

import re
from base64 import b64decode
from binascii import Error
from typing import Any

from msgspec import Struct, field, structs

from quire.model.asset import FALLBACKS, LONGEST_TEXT, MAX_SIDE, ORIGINAL, Asset
from quire.model.errors import Reject
from quire.tools import pillow
from quire.tools.refusals import MEGAPIXEL, PixelLimits

MAX_SIZE_BYTES = 5 << 40
_LIMITS = PixelLimits(max_pixels=500 * MEGAPIXEL)
_INLINE_TYPES = frozenset({"image/jpeg", "image/png", "image/webp"})
_CONTENT_TYPE = re.compile(r"[A-Za-z0-9.+_-]+/[A-Za-z0-9.+_-]+(; ?[A-Za-z0-9._-]+=[A-Za-z0-9._-]+)?")


class RenditionSource(Struct, frozen=True, kw_only=True):
    """A rendition as registered: `data` is still to be stored; otherwise the blob is under `key`."""

    content_type: str
    size: int
    key: str = ""
    data: bytes = b""
    width: int = 0
    height: int = 0


class Registration(Struct, frozen=True, kw_only=True):
    """`inline`: in the shape of the older specification, which has an answer of its own."""

    content_type: str
    is_image: bool
    size: int = 0
    url: str = ""
    width: int = 0
    height: int = 0
    default: str = "medium"
    name: str = ""
    cid: str | None = None
    inline: bool = False
    sources: dict[str, RenditionSource] = field(default_factory=dict)


def read_registration(said: Any) -> Registration:
    """Raises Reject `bad_asset`."""
    if not isinstance(said, dict):
        raise bad_asset("The body must be a JSON object")
    if isinstance(said.get("variants"), list):
        return _read_inline(said)
    return _read_image(said) if said.get("is_image") is True else _read_single(said)


def strip_bucket_prefix(registration: Registration, prefix: str) -> Registration:
    """Replaces keys of the bucket by those of the blob store, for staged files."""
    sources = {
        role: structs.replace(source, key=source.key.removeprefix(prefix))
        if source.key.startswith(f"{prefix}staging/")
        else source
        for role, source in registration.sources.items()
    }
    return structs.replace(registration, sources=sources)


def build_answer(asset: Asset, registration: Registration, base_url: str) -> dict[str, Any]:
    """The answer in the shape of the request."""
    address = f"{base_url}/asset/{asset.id}"
    made: dict[str, Any] = {"success": True, "assetId": asset.id, "cdnUrl": address}
    if registration.inline:
        return made | {"variants": {role: f"{address}?size={role}" for role in asset.renditions}}
    made["storage_type"] = "url" if asset.url else "r2"
    if asset.is_image:
        return made | {
            "defaultUrl": address,
            "variants": {role: f"{address}/{role}" for role in asset.renditions},
        }
    if asset.url:
        return made | {"sourceUrl": asset.url}
    return made | {"r2_key": asset.renditions[ORIGINAL].key}


def bad_asset(words: str) -> Reject:
    return Reject(words, code="bad_asset")


def _read_single(said: dict[str, Any]) -> Registration:
    url, key = said.get("url"), said.get("r2_key")
    if not url and not key:
        raise bad_asset("Either url or r2_key is required")
    if url and key:
        raise bad_asset("Only one of url and r2_key is allowed")
    kind, size = _read_content_type(said, "content_type"), _read_count(said, "size_bytes", MAX_SIZE_BYTES)
    if url:
        return Registration(
            content_type=kind, is_image=False, size=size, url=_read_text(said, "url", longest=2000)
        )
    source = RenditionSource(key=_read_text(said, "r2_key", longest=1024), content_type=kind, size=size)
    return Registration(content_type=kind, is_image=False, size=size, sources={ORIGINAL: source})


def _read_image(said: dict[str, Any]) -> Registration:
    kind = _read_content_type(said, "content_type")
    width, height = _read_sides(said, "original_width", "original_height")
    variants = said.get("variants")
    if not isinstance(variants, dict) or not variants:
        raise bad_asset("variants is required for images")
    sources = {}
    for role, one in variants.items():
        _check_role(role)
        if not isinstance(one, dict):
            raise bad_asset(f"variants.{role} must be an object")
        sources[role] = _read_rendition(role, one, kind)
    default = _check_role(said.get("default_variant", "medium"))
    size = sources[ORIGINAL].size if ORIGINAL in sources else 0
    return Registration(
        content_type=kind,
        is_image=True,
        width=width,
        height=height,
        default=default,
        size=size,
        sources=sources,
    )


def _read_rendition(role: str, said: dict[str, Any], original_kind: str) -> RenditionSource:
    # Renditions other than the original are JPEGs unless they say otherwise.
    usual = original_kind if role == ORIGINAL else "image/jpeg"
    kind = _read_content_type(said, "content_type") if "content_type" in said else usual
    width, height = _read_sides(said, "width", "height")
    return RenditionSource(
        key=_read_text(said, "r2_key", longest=1024),
        content_type=kind,
        size=_read_count(said, "size_bytes", MAX_SIZE_BYTES),
        width=width,
        height=height,
    )


def _read_inline(said: dict[str, Any]) -> Registration:
    kind = _read_content_type(said, "original_content_type")
    sources: dict[str, RenditionSource] = {}
    for one in said["variants"]:
        if not isinstance(one, dict):
            raise bad_asset("Each variant must be an object")
        role = _check_role(one.get("name"))
        if role in sources:
            raise bad_asset(f"The variant {role} is there twice")
        sources[role] = _decode_rendition(one, role)
    if not sources:
        raise bad_asset("At least one variant is required")
    largest = max(sources.values(), key=lambda source: source.width)
    whole = sources.get(ORIGINAL, largest)
    cid = said.get("ipfs_cid")
    if cid is not None and (not isinstance(cid, str) or len(cid) > LONGEST_TEXT):
        raise bad_asset("ipfs_cid must be text")
    return Registration(
        content_type=kind,
        is_image=True,
        width=whole.width,
        height=whole.height,
        size=sources[ORIGINAL].size if ORIGINAL in sources else 0,
        name=_read_text(said, "original_filename") if "original_filename" in said else "",
        cid=cid,
        inline=True,
        sources=sources,
    )


def _decode_rendition(said: dict[str, Any], role: str) -> RenditionSource:
    kind = _read_content_type(said, "content_type")
    if kind not in _INLINE_TYPES:
        raise bad_asset(f"The variant {role} must be image/jpeg, image/png or image/webp")
    try:
        data = b64decode(said.get("data", ""), validate=True)
    except (Error, TypeError, ValueError) as error:
        raise bad_asset(f"The data of variant {role} is not base64") from error
    if not data or ("size" in said and said["size"] != len(data)):
        raise bad_asset(f"The data of variant {role} does not have its size")
    try:
        width, height = pillow.dimensions(data, kind, _LIMITS)
    except Reject as error:
        raise bad_asset(f"The variant {role} cannot be read as {kind}: {error}") from error
    return RenditionSource(data=data, content_type=kind, size=len(data), width=width, height=height)


def _check_role(role: Any) -> str:
    if not isinstance(role, str) or role not in FALLBACKS:
        raise bad_asset(f"Variants are named {', '.join(FALLBACKS)}, not {str(role)[:80]!r}")
    return role


def _read_text(said: dict[str, Any], name: str, *, longest: int = LONGEST_TEXT) -> str:
    found = said.get(name)
    if not isinstance(found, str) or not found:
        raise bad_asset(f"{name} is required")
    if len(found) > longest or not found.isprintable():
        raise bad_asset(f"{name} must be printable and at most {longest} characters long")
    return found


def _read_content_type(said: dict[str, Any], name: str) -> str:
    found = _read_text(said, name)
    if not _CONTENT_TYPE.fullmatch(found):
        raise bad_asset(f"{name} must be a content type such as image/jpeg")
    return found.lower()


def _read_count(said: dict[str, Any], name: str, most: int) -> int:
    found = said.get(name)
    if isinstance(found, bool) or not isinstance(found, int):
        raise bad_asset(f"{name} is required")
    if not 0 < found <= most:
        raise bad_asset(f"{name} must be from 1 to {most}")
    return found


def _read_sides(said: dict[str, Any], *names: str) -> tuple[int, int]:
    width, height = (_read_count(said, name, MAX_SIDE) for name in names)
    if width * height > _LIMITS.max_pixels:
        raise bad_asset(f"{names[0]} and {names[1]} make more than {_LIMITS.max_pixels} pixels")
    return width, height
