"""Pillow: the second decoder, used only for kinds of pictures that libvips does not know.

It reads old-style JPEG, tiled planar and 8-bit LAB TIFFs. It must not be a way round a refusal: damaged
bytes are refused here too (`LOAD_TRUNCATED_IMAGES` stays off, warnings about missing data are errors), the
same pixel limit holds, and only the wanted formats are tried. For pictures that are only read, not converted,
it is also the decoder of GIF (the first picture) and BMP. Gives plain upright pixels; encodes nothing, knows
no batches.
"""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from quire.model.errors import QuireError
from quire.model.probe import Probe
from quire.tools import refusals
from quire.tools.refusals import PixelLimits
from quire.tools.tiff import TiffPage
from quire.tools.tiff_view import TiffPageView, has_many

_FORMATS = {f"image/{name}": name.upper() for name in ("jpeg", "png", "webp", "tiff", "gif", "bmp")}
_BITS_PER_SAMPLE, _ORIENTATION = 258, 274
_STRIP_OFFSETS, _STRIP_BYTES = 273, 279

_MISSING_DATA = re.compile(r"truncat|larger than file|expecting to read|unexpected end", re.IGNORECASE)
_OUT_OF_MEMORY = re.compile(r"out of memory|decoder error -9", re.IGNORECASE)


class Pixels(NamedTuple):
    """Rows from the top, 8 bits a sample: one band is grey, three are sRGB."""

    data: bytes
    width: int
    height: int
    bands: int


def probe() -> Probe:
    try:
        import PIL
    except ImportError:
        return Probe(name="Pillow", ok=False, advice="pip install pillow")
    return Probe(name="Pillow", ok=True, detail=PIL.__version__)


def decode(path: Path, content_type: str, page: TiffPage | None, limits: PixelLimits) -> Pixels:
    """One page, upright and plain. Raises `Unsupported` when Pillow does not know the kind either."""
    from PIL import Image, ImageOps

    with (
        _translate_errors(limits),
        _open(path, page) as source,
        Image.open(source, formats=[_FORMATS[content_type]]) as opened,
    ):
        opened.seek(page.index if page is not None and not has_many(page) else 0)
        refusals.check_pixels([opened.size], limits)
        opened.load()  # turns a TIFF by its tag and forgets the tag; other formats are turned below
        bits = _bits(opened)  # the turned picture is a copy without tags
        plain = _plain(ImageOps.exif_transpose(opened), bits)
    return Pixels(plain.tobytes(), plain.width, plain.height, len(plain.getbands()))


def _open(path: Path, page: TiffPage | None) -> Any:
    """The file, or one of its many pages alone: Pillow would walk through all before it."""
    return TiffPageView(path, page) if page is not None and has_many(page) else path.open("rb")


def dimensions(data: bytes, content_type: str, limits: PixelLimits) -> tuple[int, int]:
    """Width and height as the header says, without decoding. Raises as `decode` does."""
    from PIL import Image

    with _translate_errors(limits), Image.open(BytesIO(data), formats=[_FORMATS[content_type]]) as opened:
        refusals.check_pixels([opened.size], limits)
        return opened.size


class JpegHead(NamedTuple):
    """`components` is 1, 3 or 4; `inverted`: a CMYK picture as Adobe writes it; `orientation` is 1 to 8."""

    width: int
    height: int
    components: int
    inverted: bool
    profile: bytes
    orientation: int
    across_dpi: float
    down_dpi: float


def read_jpeg_head(path: Path, limits: PixelLimits) -> JpegHead | None:
    """What must be known of a JPEG to show it elsewhere as it is. None for kinds that only decoders know."""
    from PIL import Image

    with _translate_errors(limits), path.open("rb") as source, Image.open(source, formats=["JPEG"]) as opened:
        refusals.check_pixels([opened.size], limits)
        components = {"L": 1, "RGB": 3, "CMYK": 4}.get(opened.mode, 0)
        if not components or getattr(opened, "bits", 8) != 8:
            return None
        orientation = opened.getexif().get(_ORIENTATION, 1)
        dpi = opened.info.get("dpi") or (0, 0)
        return JpegHead(
            *opened.size,
            components,
            "adobe" in opened.info,
            opened.info.get("icc_profile") or b"",
            orientation if orientation in range(1, 9) else 1,
            *(float(one) for one in dpi),
        )


def encode_fax(pixels: Pixels) -> bytes:
    """A grey picture of black and white as CCITT group 4: one strip, in which black is 1."""
    from PIL import Image, ImageChops

    grey = Image.frombuffer("L", (pixels.width, pixels.height), pixels.data, "raw", "L", 0, 1)
    black = ImageChops.invert(grey).convert("1", dither=Image.Dither.NONE)
    out = BytesIO()
    black.save(out, "TIFF", compression="group4", strip_size=1 << 31)
    with Image.open(out) as written:
        tags = written.tag_v2  # type: ignore[attr-defined]
        (start,), (length,) = tags[_STRIP_OFFSETS], tags[_STRIP_BYTES]
    return out.getvalue()[start : start + length]


def _bits(picture: Any) -> int:
    """Of a sample of deep grey: 16, or what a TIFF says."""
    tags = getattr(picture, "tag_v2", {})
    return int((tags.get(_BITS_PER_SAMPLE) or (16,))[0])


def _plain(picture: Any, bits: int) -> Any:
    """Mode L or RGB, on white where it was transparent."""
    from PIL import Image

    if picture.mode in {"1", "L"}:
        return picture.convert("L")
    if picture.mode.startswith("I"):
        return _eight_bit_grey(picture, bits)
    if picture.mode == "F":
        raise refusals.unsupported("Pillow cannot tell which number of a floating-point picture is white")
    if picture.has_transparency_data:
        coloured = picture.convert("RGBA")
        white = Image.new("RGBA", coloured.size, "white")
        return Image.alpha_composite(white, coloured).convert("RGB")
    if picture.mode == "P":
        return picture.convert("RGB")
    return _srgb(picture)


def _eight_bit_grey(picture: Any, bits: int) -> Any:
    """By shifting: `convert("L")` clips, and shows every 16-bit page as white."""
    return picture.convert("I").point(lambda sample: sample * (1 / (1 << (bits - 8)))).convert("L")


def _srgb(picture: Any) -> Any:
    """Through the embedded profile; a LAB picture is its own profile."""
    from PIL import ImageCms

    srgb = ImageCms.createProfile("sRGB")
    profile = picture.info.get("icc_profile")
    try:
        if picture.mode == "LAB":
            return ImageCms.profileToProfile(picture, ImageCms.createProfile("LAB"), srgb, outputMode="RGB")
        if profile:
            return ImageCms.profileToProfile(picture, BytesIO(profile), srgb, outputMode="RGB")
    except ImageCms.PyCMSError:
        # A profile that is broken or for another kind of picture: its colours are a guess either way.
        pass
    return picture.convert("RGB")


@contextmanager
def _translate_errors(limits: PixelLimits) -> Iterator[None]:
    from PIL import Image, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = limits.max_pixels
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            yield
        for warning in heard:
            if _MISSING_DATA.search(str(warning.message)):
                raise refusals.truncated(str(warning.message))
    except (QuireError, MemoryError):
        raise
    except UnidentifiedImageError as error:
        raise refusals.unsupported("Pillow does not know this kind of picture") from error
    except Image.DecompressionBombError as error:
        raise refusals.too_many_pixels(str(error)) from error
    # Damaged bytes surface as any of these, out of parsers that trust what they read.
    except (
        OSError,
        EOFError,
        SyntaxError,
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        OverflowError,
    ) as error:
        raise _meaning(error) from error


def _meaning(error: Exception) -> Exception:
    text = str(error) or type(error).__name__
    if _OUT_OF_MEMORY.search(text):
        return MemoryError(text)
    if isinstance(error, OSError) and error.errno is not None:
        return error  # an error of the disk, not of the picture
    return refusals.truncated(text) if _MISSING_DATA.search(text) else refusals.corrupt(text)
