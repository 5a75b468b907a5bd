"""Makes smaller copies of a picture for the web, and the `.ref.json` that replaces it in the list.

Runs in a worker process; needs pyvips and Pillow installed. Reads the source file (JPEG, PNG or WebP),
writes `thumb`, `medium` and `large` JPEGs, each only when the picture is larger than that, and the
reference; the picture with its copies becomes an asset. With `tile_size`, a picture larger than `tiles_above`
gets a pack of tiles, too. The original is not changed. Deterministic: ids come from the content, so a
repeated run gives the same bytes. Refuses with the codes of `tools.refusals`; a picture too small for any
copy is decoded all the same, so that damage does not pass.
"""

import json
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from quire.model.asset import TILES, AssetDraft
from quire.model.ids import named_ulid
from quire.model.step import OutputFile, StepInput, StepOutput
from quire.steps import image_input, tile_pack
from quire.tools import refusals, vips
from quire.tools.ipfs import DEFAULT_PROFILE, file_cid
from quire.tools.refusals import MEGAPIXEL, PixelLimits, Unsupported

# The longest side of each, largest first: every one is made from the one before.
VARIANTS = (("large", 2400), ("medium", 1288), ("thumb", 200))
_JPEG = "image/jpeg"


class ImageVariantsOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    public_url: str = "http://localhost:8787"
    quality: Annotated[int, Meta(ge=1, le=100)] = 85
    max_pixels: int = 500 * MEGAPIXEL
    cid_profile: str = DEFAULT_PROFILE
    tile_size: Annotated[int, Meta(ge=0, le=8192)] = 0  # 0: no tiles
    tiles_above: Annotated[int, Meta(ge=0)] = 2400


def run(step_input: StepInput) -> StepOutput:
    options = image_input.options_of(step_input, ImageVariantsOptions)
    source = step_input.source
    kind = image_input.content_type(source, "a JPEG, PNG or WebP picture")
    if kind == "image/tiff":
        raise refusals.unsupported("a TIFF: image_variants works on what tiff_to_jpeg makes of it")
    width, height, variants = _variants(source, kind, step_input.folder, options)
    own = file_cid(source, options.cid_profile)
    # A CID that came with the file is the one its owner knows it by; it may follow another profile, or be
    # anything: an address that stays for good follows from the bytes alone.
    cid = step_input.file.cid or own
    asset_id = named_ulid(own)
    reference = {
        "url": f"{options.public_url.rstrip('/')}/asset/{asset_id}",
        "ipfs_cid": cid,
        "type": kind,
        "size": source.stat().st_size,
        "filename": step_input.file.name,
    }
    if options.tile_size and max(width, height) > max(options.tiles_above, options.tile_size):
        variants.append(_tiles(source, kind, step_input.folder, options))
    outputs = (*variants, _reference(step_input.folder / "ref.json", reference, options.cid_profile))
    facts = {"width": width, "height": height, "asset_id": asset_id, "cid": cid, "content_type": kind}
    asset = AssetDraft(id=asset_id, content_type=kind, width=width, height=height, cid=cid)
    return StepOutput(files=outputs, facts=facts, asset=asset)


def _variants(
    source: Path, kind: str, folder: Path, options: ImageVariantsOptions
) -> tuple[int, int, list[OutputFile]]:
    """The upright size of the original, and its copies. Only the largest copy is made from the file."""
    limits = PixelLimits(max_pixels=options.max_pixels)
    try:
        known = vips.header(source, kind)
        refusals.check_pixels([(known.width, known.height)], limits)
        width, height = known.width, known.height
        wanted = _wanted(width, height)
        if not wanted:
            vips.verify(source, kind)
            return width, height, []
        picture = vips.thumbnail(source, kind, known, wanted[0][1])
    except Unsupported as first:
        picture = image_input.second_opinion(source, kind, None, limits, first)
        width, height = picture.width, picture.height
        wanted = _wanted(width, height)
    outputs = []
    for role, side in wanted:
        picture = vips.smaller(picture, side)
        target = folder / f"{role}.jpg"
        vips.save_jpeg(picture, target, options.quality)
        outputs.append(_build_product(role, target, picture))
    return width, height, outputs


def _wanted(width: int, height: int) -> list[tuple[str, int]]:
    return [(role, side) for role, side in VARIANTS if max(width, height) > side]


def _build_product(role: str, target: Path, picture: vips.VipsImage) -> OutputFile:
    facts = {"width": picture.width, "height": picture.height}
    return OutputFile(role=role, path=target, content_type=_JPEG, facts=facts)


def _tiles(source: Path, kind: str, folder: Path, options: ImageVariantsOptions) -> OutputFile:
    try:
        with vips.decoded(source, kind) as picture:
            target = tile_pack.write(picture, folder, side=options.tile_size, quality=options.quality)
    except Unsupported as first:
        picture = image_input.second_opinion(
            source, kind, None, PixelLimits(max_pixels=options.max_pixels), first
        )
        target = tile_pack.write(picture, folder, side=options.tile_size, quality=options.quality)
    facts = {"width": picture.width, "height": picture.height, "side": options.tile_size}
    return OutputFile(role=TILES, path=target, content_type="application/octet-stream", facts=facts)


def _reference(target: Path, reference: dict[str, object], cid_profile: str) -> OutputFile:
    # Two spaces and no newline at the end: the size that readers compute from the data equals the stored one.
    target.write_bytes(json.dumps(reference, indent=2, ensure_ascii=False).encode())
    facts = {"cid": file_cid(target, cid_profile)}
    return OutputFile(role="ref", path=target, content_type="application/json", facts=facts)
