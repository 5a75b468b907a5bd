"""Pictures for viewers that speak IIIF: a batch as a manifest (Presentation 3), an asset as an image service
(Image 3, level 0: the sizes and tiles that exist, and no others).

Promise: every address in an answer exists. Only registered pictures are listed; memory holds one page of a
batch.
"""

import asyncio
import hashlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from quire.blobs import asset_records, checked_reads
from quire.blobs.port import Blobs
from quire.ledger.port import BatchStore, InputRecord, RecordStore
from quire.model.asset import Asset, Rendition
from quire.model.errors import Missing, Reject
from quire.model.tiling import Tiles, grid_of

PAGE = 200
AT_ONCE = 16
MAX_CANVASES = 1000
_REFERENCE_ENDING = ".ref.json"
_FORMATS = {"image/jpeg": "jpg", "image/jpg": "jpg", "image/png": "png", "image/webp": "webp"}


class BatchPicture(Struct, frozen=True):
    """A picture of a batch: its path and its asset."""

    path: str
    asset: Asset


async def build_manifest(
    batches: BatchStore,
    records: RecordStore,
    blobs: Blobs,
    batch_id: str,
    *,
    base_url: str,
    after: str = "",
    limit: int = MAX_CANVASES,
) -> dict[str, Any]:
    """The pictures of a batch in order of path, about `limit` of them: all pages of one file stay together.
    The next page is at the address in `seeAlso`. Raises Missing, also when there is no picture.
    """
    batch = await batches.get_batch(batch_id)
    shown: list[BatchPicture] = []
    more = True
    last = after
    while more and len(shown) < limit:
        page = await records.list_inputs(batch.no, after=last, limit=min(PAGE, limit - len(shown)))
        more = bool(page)
        if page:
            last = page[-1].path
            shown += await _load_pictures(blobs, page)
    if not shown:
        raise Missing("There are no registered pictures in this batch", code="no_pictures")
    at = f"{base_url}/api/batches/{batch.id}/iiif"
    made = {
        "@context": "http://iiif.io/api/presentation/3/context.json",
        "id": f"{at}/manifest.json" + (f"?after={quote(after)}" if after else ""),
        "type": "Manifest",
        "label": {"none": [batch.id]},
        "items": [_build_canvas(one, at, base_url) for one in shown],
    }
    if more and await records.list_inputs(batch.no, after=last, limit=1):
        following = {
            "id": f"{at}/manifest.json?after={quote(last)}&limit={limit}",
            "type": "Dataset",
            "label": {"en": ["The pictures that follow"]},
            "format": "application/json",
            "profile": "http://iiif.io/api/presentation/3/context.json",
        }
        made["seeAlso"] = [following]
    return made


async def _load_pictures(blobs: Blobs, page: list[InputRecord]) -> list[BatchPicture]:
    wanted = [file for record in page for role, file in record.made if role == "ref"]
    places = asyncio.Semaphore(AT_ONCE)

    async def look(path: str, key: str) -> BatchPicture | None:
        async with places:
            asset = await _load_asset(blobs, key)
        return BatchPicture(path.removesuffix(_REFERENCE_ENDING), asset) if asset is not None else None

    found = await asyncio.gather(*(look(file.path, file.key) for file in wanted))
    return [one for one in found if one is not None]


async def _load_asset(blobs: Blobs, key: str) -> Asset | None:
    """None for references from before pictures were registered, and for those that lead elsewhere."""
    try:
        reference = msgspec.json.decode(await checked_reads.read(blobs, key), type=dict[str, Any])
        asset = await asset_records.find(blobs, str(reference.get("url", "")).rpartition("/")[2])
    except (Reject, msgspec.DecodeError):
        return None
    return asset if asset.is_image and asset.width and asset.choose_rendition(None) else None


def _build_canvas(shown: BatchPicture, at: str, base_url: str) -> dict[str, Any]:
    asset = shown.asset
    name = hashlib.sha256(shown.path.encode()).hexdigest()[:16]
    canvas = f"{at}/canvas/{name}"
    large, small = asset.choose_rendition("large"), asset.choose_rendition("thumb")
    body = _build_image(asset, large or asset.choose_rendition(None) or "", base_url)
    body["service"] = [{"id": f"{base_url}/iiif/{asset.id}", "type": "ImageService3", "profile": "level0"}]
    painting = {
        "id": f"{canvas}/painting",
        "type": "Annotation",
        "motivation": "painting",
        "body": body,
        "target": canvas,
    }
    return {
        "id": canvas,
        "type": "Canvas",
        "label": {"none": [shown.path]},
        "width": asset.width,
        "height": asset.height,
        "thumbnail": [_build_image(asset, small or large or asset.choose_rendition(None) or "", base_url)],
        "items": [{"id": f"{canvas}/page", "type": "AnnotationPage", "items": [painting]}],
    }


def _build_image(asset: Asset, role: str, base_url: str) -> dict[str, Any]:
    rendition = asset.renditions[role]
    said: dict[str, Any] = {
        "id": f"{base_url}/asset/{asset.id}/{role}",
        "type": "Image",
        "format": rendition.content_type,
    }
    if rendition.width:
        said |= {"width": rendition.width, "height": rendition.height}
    return said


def build_image_info(asset: Asset, tiles: Tiles | None = None, *, base_url: str) -> dict[str, Any]:
    """The info.json of an image service. Raises Missing when the asset has no known sizes."""
    offered, form = _list_renditions(asset)
    largest = offered[-1][1]
    sizes = [(one.width, one.height) for _, one in offered]
    if tiles is not None:
        sizes = _list_sizes_beside_tiles(sizes, tiles)
    made: dict[str, Any] = {
        "@context": "http://iiif.io/api/image/3/context.json",
        "id": f"{base_url}/iiif/{asset.id}",
        "type": "ImageService3",
        "protocol": "http://iiif.io/api/image",
        "profile": "level0",
        "width": asset.width,
        "height": asset.height,
    }
    if sizes:
        made["sizes"] = [{"width": width, "height": height} for width, height in sizes]
    if tiles is not None:
        made["tiles"] = [{"width": tiles.side, "scaleFactors": grid_of(tiles).scales}]
    if (largest.width, largest.height) != (asset.width, asset.height):
        made |= {"maxWidth": largest.width, "maxHeight": largest.height}
    if form != "jpg":
        made |= {"extraFormats": [form], "preferredFormats": [form]}
    return made


def _list_sizes_beside_tiles(sizes: list[tuple[int, int]], tiles: Tiles) -> list[tuple[int, int]]:
    """The sizes with that of the overview, which is a tile. A viewer that finds as many sizes as scales, or
    one less, takes them for the sizes of the scales, which ours are not: then only the smallest are listed.
    """
    grid = grid_of(tiles)
    listed = sorted({*sizes, grid.overview})
    scales = len(grid.scales)
    return listed[: max(0, scales - 2)] if len(listed) in {scales, scales - 1} else listed


def find_rendition(asset: Asset, wanted: str, file_name: str) -> str:
    """The role of the rendition for a requested size: `max`, `w,h` or `w,`. Raises Missing."""
    offered, form = _list_renditions(asset)
    if file_name == f"default.{form}":
        if wanted == "max":
            return offered[-1][0]
        for role, one in offered:
            if wanted in {f"{one.width},{one.height}", f"{one.width},"}:
                return role
    raise Missing("No such size; info.json lists those that there are", code="unknown_variant")


def _list_renditions(asset: Asset) -> tuple[list[tuple[str, Rendition]], str]:
    """Renditions of one format, smallest first: JPEG if there is any, as viewers expect."""
    known = [
        (role, one) for role, one in asset.renditions.items() if one.width and one.content_type in _FORMATS
    ]
    known.sort(key=lambda one: (one[1].width, one[1].height))
    for form in ("jpg", "png", "webp"):
        offered = list(_drop_repeated_sizes(one for one in known if _FORMATS[one[1].content_type] == form))
        if offered and asset.width:
            return offered, form
    raise Missing("This asset is no picture of known size", code="no_pictures")


def _drop_repeated_sizes(sizes: Iterator[tuple[str, Rendition]]) -> Iterator[tuple[str, Rendition]]:
    seen: set[tuple[int, int]] = set()
    for role, one in sizes:
        if (one.width, one.height) not in seen:
            seen.add((one.width, one.height))
            yield role, one
