"""libvips: the first decoder, the only encoder.

Promises: half a picture is an error, never a grey area (`fail_on="error"` on every load); a header is read
without a pixel being decoded; the same input gives the same bytes (no metadata, no dates); the result is
upright, sRGB or grey, 8 bits, without transparency. Knows nothing of batches; importing this module does not
load the library.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from quire.model.errors import Misconfigured
from quire.model.probe import Probe
from quire.tools import colour, refusals
from quire.tools.tiff import TiffPage
from quire.tools.tiff_view import TiffPageView, has_many

# For the environment of a worker process, before it starts: with these a worker that makes thumbnails for
# hours stays at some 70 MB instead of growing past 300. Pictures up to 64 MB come from memory that is kept
# for the next one: taking it anew from the system costs some 4 % of the time.
WORKER_ENVIRONMENT = {
    "VIPS_CONCURRENCY": "1",
    "VIPS_WARNING": "1",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(64 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(128 << 20),
}

_ADVICE = "pip install pyvips pyvips-binary"
_LOADERS = {
    "image/jpeg": "jpegload_source",
    "image/png": "pngload_source",
    "image/webp": "webpload_source",
    "image/tiff": "tiffload_source",
}

_SAMPLE_BYTES = {"uchar": 1, "char": 1, "ushort": 2, "short": 2, "uint": 4, "int": 4, "float": 4}

# libvips has one error class; what the caller must do is in the words. Damage is looked for before oddness: a
# file that is both must not be given to a more lenient decoder ("Uncompressed data (not supported) at line 9"
# is a broken fax, and Pillow would show it). Only a missing codec cannot have seen any damage.
_ROUTINE = re.compile(r"^unable to call|: load error$", re.IGNORECASE)  # some come or not, as threads happen
# Of each library; a thread that cannot be created has no room for its stack.
_NO_MEMORY = re.compile(r"(?:out of|insufficient|cannot allocate) memory|creating thread", re.IGNORECASE)
_MACHINE = re.compile(r"system error|unable to (open for )?write", re.IGNORECASE)
_NO_CODEC = re.compile(r"not configured|decoding is not implemented", re.IGNORECASE)
_TRUNCATED = re.compile(r"premature|truncat|read error|unexpected end|end of file", re.IGNORECASE)
_CORRUPT = re.compile(r"corrupt|error|\bbad (?!labq)|(line|row|strip|tile) \d|marker", re.IGNORECASE)
_OTHER_KIND = re.compile(
    r"not supported|unsupported|bad labq|not a whole number of bytes", re.IGNORECASE
)  # the last: 12 bits a sample


class VipsImage(Protocol):
    """What callers may use of a picture; the rest is pyvips, which has no types."""

    @property
    def width(self) -> int: ...
    @property
    def height(self) -> int: ...


class Header(Struct, frozen=True, kw_only=True):
    """What the first bytes of a picture say. Width and height are those of the upright picture."""

    width: int
    height: int
    profile_matters: bool
    sample_bytes: float = 3.0  # of one pixel, as it is decoded
    stored_samples: float = 3.0  # of one pixel: a JPEG keeps less of its colours
    whole: bool = False  # progressive or interlaced: no line is complete before the last byte is read
    turned: bool = False  # stored rotated


def probe() -> Probe:
    try:
        library = _vips()
    except Misconfigured:
        return Probe(name="libvips", ok=False, advice=_ADVICE)
    return Probe(name="libvips", ok=True, detail=".".join(str(library.version(part)) for part in range(3)))


def header(path: Path, content_type: str) -> Header:
    """Decodes no pixel."""
    with _translate_errors():
        picture = _load(path, content_type, access="sequential")
        width, height = picture.width, picture.height
        if _orientation(picture) >= 5:  # these four lie on their side
            width, height = height, width
        return Header(
            width=width,
            height=height,
            profile_matters=colour.profile_matters(picture),
            sample_bytes=picture.bands * _SAMPLE_BYTES.get(picture.format, 8),
            stored_samples=_stored_samples(picture),
            whole=bool(picture.get_typeof("interlaced")),
            turned=_orientation(picture) != 1,
        )


def decode(path: Path, content_type: str, page: TiffPage | None = None) -> VipsImage:
    """An upright plain picture. Lazy: damage may show only when it is saved, so save it with `save_jpeg`."""
    options: dict[str, Any] = {"page": page} if page else {}
    bits, extra_sample = (page.bits, page.extra_sample) if page else (8, None)
    with _translate_errors():
        picture = _load(path, content_type, access="sequential", **options)
        # A stream cannot be turned ("out of order read"), nor read twice.
        if _orientation(picture) != 1 or colour.needs_two_passes(picture):
            picture = _load(path, content_type, access="random", **options)
        upright: VipsImage = colour.plain(picture.autorot(), bits=bits, extra_sample=extra_sample)
        return upright


def thumbnail(path: Path, known: Header, side: int) -> VipsImage:
    """The picture of a file with its longest side at most `side`, upright, plain, in memory.

    JPEG and WebP are shrunk while they are decoded: much cheaper than decode and shrink.
    """
    options = {"export_profile": "srgb"} if known.profile_matters else {}
    with _translate_errors():
        source = _vips().Source.new_from_file(str(path))
        # As an option of the loader: the argument `fail_on` of this operation is ignored, and half a JPEG
        # comes out grey (libvips 8.18).
        small = _vips().Image.thumbnail_source(
            source, side, height=side, size="down", option_string="[fail_on=error]", **options
        )
        flat: VipsImage = colour.on_white(small).copy_memory()
        return flat


def smaller(picture: Any, side: int) -> VipsImage:
    """The same for a picture in memory; one that is small enough is given back as it is."""
    small: VipsImage = picture
    if max(picture.width, picture.height) > side:
        with _translate_errors():
            small = picture.thumbnail_image(side, height=side, size="down").copy_memory()
    return small


def verify(path: Path, content_type: str) -> None:
    """Decode everything and keep nothing: for pictures of which nothing is made."""
    with _translate_errors():
        _load(path, content_type, access="sequential").avg()


def from_pixels(data: bytes | memoryview, width: int, height: int, bands: int) -> VipsImage:
    """A plain picture that another decoder has read: `bands` is 1 for grey, 3 for sRGB."""
    numbers = _vips().Image.new_from_memory(data, width, height, bands, "uchar")
    picture: VipsImage = numbers.copy(interpretation="b-w" if bands == 1 else "srgb")
    return picture


def save_jpeg(picture: Any, target: Path, quality: int) -> None:
    """Baseline, sRGB by convention (no profile), no metadata: the same picture gives the same bytes."""
    with _translate_errors():
        picture.jpegsave(str(target), Q=quality, keep="none", interlace=False)


def save_tiles(picture: Any, target: Path, *, side: int, quality: int) -> None:
    """The picture on all scales as a ZIP of JPEG tiles, called as IIIF Image 3 calls them. The order of the
    files in it is not always the same; the bytes of each are.
    """
    with _translate_errors():
        picture.dzsave(
            str(target),
            layout="iiif3",
            container="zip",
            compression=0,
            tile_size=side,
            overlap=0,
            suffix=f".jpg[Q={quality},keep=none]",
        )


@cache
def _vips() -> Any:
    """The library, set up for untrusted files: no operation cache, no loader but the four we want."""
    try:
        import pyvips
    except (ImportError, OSError) as error:
        raise Misconfigured(f"libvips cannot be loaded ({error}): {_ADVICE}", code="missing_tool") from error
    pyvips.cache_set_max(0)
    pyvips.block_untrusted_set(True)
    pyvips.operation_block_set("VipsForeignLoad", True)
    for loader in ("Jpeg", "Png", "Webp", "Tiff"):
        pyvips.operation_block_set(f"VipsForeignLoad{loader}", False)
    return pyvips


def _load(path: Path, content_type: str, page: TiffPage | None = None, **options: Any) -> Any:
    if page is not None and has_many(page):
        source = _source_of_page(path, page)
    else:
        # A source, not a file name: libvips reads options out of names such as "scan[page=2].tif".
        source = _vips().Source.new_from_file(str(path))
        options |= {"page": page.index} if page else {}
    picture = getattr(_vips().Image, _LOADERS[content_type])(source, fail_on="error", **options)
    picture._references.append(source)  # noqa: SLF001 - a source in Python must live as long as its picture
    return picture


def _source_of_page(path: Path, page: TiffPage) -> Any:
    """The page alone: libvips would walk through all directories of the file for each of its pages."""
    view = TiffPageView(path, page)
    source = _vips().SourceCustom()
    source.on_read(view.read)
    source.on_seek(view.seek)
    return source


def _stored_samples(picture: Any) -> float:
    halved = picture.get_typeof("jpeg-chroma-subsample") and "4:2:0" in picture.get("jpeg-chroma-subsample")
    return picture.bands - 1.5 if halved and picture.bands > 1 else float(picture.bands)


def _orientation(picture: Any) -> int:
    return int(picture.get("orientation")) if picture.get_typeof("orientation") else 1


@contextmanager
def _translate_errors() -> Iterator[None]:
    library = _vips()
    # What an earlier file left in the error buffer would be blamed on this one.
    library.vips_lib.vips_error_clear()
    try:
        yield
    except library.Error as error:
        raise _meaning(str(error)) from error


def _meaning(text: str) -> Exception:
    """The Quire error for an error of libvips. The last line that is not routine describes it best."""
    lines = [line.strip() for line in text.strip().splitlines() if not _ROUTINE.search(line)]
    detail = lines[-1] if lines else text.strip()
    text = "\n".join(lines)
    if _NO_MEMORY.search(text):
        return MemoryError(detail)
    if _MACHINE.search(text):
        return OSError(f"libvips could not read or write a file: {' '.join(text.split())}")
    damaged = _TRUNCATED.search(text) or _CORRUPT.search(text)
    if _NO_CODEC.search(text) or (_OTHER_KIND.search(text) and not damaged):
        return refusals.unsupported(f"libvips does not read this kind of picture ({detail})")
    return refusals.truncated(detail) if _TRUNCATED.search(text) else refusals.corrupt(detail)
