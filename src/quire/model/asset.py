"""Assets: pictures and files with a permanent address, and their records.

Pure values. A stored record never changes: caches may keep its renditions for a year.
"""

import re
from typing import Final

import msgspec
from msgspec import Struct, field

from quire.model.files import File, Product
from quire.model.tiling import Tiles

ORIGINAL = "original"
TILES = "tiles"
# The renditions beside the original, and which ones replace a missing one.
FALLBACKS: Final = {
    "thumb": ("thumb", "medium", ORIGINAL),
    "medium": ("medium", ORIGINAL),
    "large": ("large", "medium", ORIGINAL),
    ORIGINAL: (ORIGINAL,),
}
DEFAULT = "medium"
# A ULID, or an id of the earlier service: time in base 36 and 16 hexadecimal digits.
ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{7,63}")
NAMED_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
MAX_SIDE = 1_000_000  # pixels
LONGEST_TEXT = 255  # characters of a name or a content identifier


class Rendition(Struct, frozen=True, kw_only=True):
    """One stored form of an asset. `width` and `height` are 0 when unknown."""

    key: str
    content_type: str
    size: int
    width: int = 0
    height: int = 0


class Asset(Struct, frozen=True, kw_only=True):
    """The record of an asset. With `url` the bytes are elsewhere and there are no renditions."""

    id: str
    content_type: str
    is_image: bool
    schema: int = 1
    url: str = ""
    width: int = 0
    height: int = 0
    default: str = DEFAULT
    size: int = 0
    name: str = ""
    cid: str | None = None
    renditions: dict[str, Rendition] = field(default_factory=dict)

    def choose_rendition(self, wanted: str | None) -> str | None:
        """The role to serve for `wanted` (None: the default one); None when there is no rendition."""
        if wanted is None:
            chain = (self.default, *FALLBACKS.get(self.default, ()), DEFAULT, ORIGINAL, "large", "thumb")
        else:
            chain = FALLBACKS.get(wanted, ())
        return next((role for role in chain if role in self.renditions), None)


class AssetDraft(Struct, frozen=True, kw_only=True):
    """A step declares by this that its file becomes an asset. The copies are those of its products whose
    roles are in `FALLBACKS`, with `width` and `height` among their facts; the product `TILES`, if there is
    one, is a pack of tiles.
    """

    id: str
    content_type: str
    width: int
    height: int
    cid: str | None = None


def build_asset(draft: AssetDraft, original: File, products: tuple[Product, ...]) -> Asset:
    """Build the record of an asset from a step's draft and its stored products."""
    copies = {
        one.role: Rendition(
            key=one.key,
            content_type=one.content_type,
            size=one.size,
            width=int(one.facts.get("width", 0)),
            height=int(one.facts.get("height", 0)),
        )
        for one in products
        if one.role in FALLBACKS
    }
    whole = Rendition(
        key=original.key,
        content_type=draft.content_type,
        size=original.size,
        width=draft.width,
        height=draft.height,
    )
    return Asset(
        id=draft.id,
        content_type=draft.content_type,
        is_image=True,
        width=draft.width,
        height=draft.height,
        size=original.size,
        name=original.name,
        cid=draft.cid,
        renditions={**copies, ORIGINAL: whole},
    )


def build_tiles(products: tuple[Product, ...]) -> Tiles | None:
    """Build the record of the tiles among a step's products; None when there are none."""
    pack = next((one for one in products if one.role == TILES), None)
    if pack is None:
        return None
    width, height, side = (int(pack.facts.get(name, 0)) for name in ("width", "height", "side"))
    return Tiles(key=pack.key, size=pack.size, width=width, height=height, side=side)


_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(Asset)
_tiles_decoder = msgspec.json.Decoder(Tiles)


def encode(record: Asset | Tiles) -> bytes:
    return _encoder.encode(record)


def decode(text: bytes) -> Asset:
    """Raises msgspec.DecodeError."""
    return _decoder.decode(text)


def decode_tiles(text: bytes) -> Tiles:
    """Raises msgspec.DecodeError."""
    return _tiles_decoder.decode(text)
