"""libvips: the first decoder, the only encoder.

Promises: half a picture is an error, never a grey or smeared area: every warning counts that
`decoder_warnings` does not list as harmless, and so do rows that nobody asked for; a header is read
without a pixel being decoded; the same input gives the same bytes (no metadata, no dates); the result is
upright, sRGB or grey, 8 bits, without transparency. Knows nothing of batches; importing this module does not
load the library.
"""

import mmap
import re
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Protocol, Self

from msgspec import Struct

from quire.model.errors import Misconfigured
from quire.model.probe import Probe
from quire.tools import colour, decoder_warnings, png, refusals, tiff_parts
from quire.tools.jpeg import JpegBytes, is_padding
from quire.tools.pdfium import PageBitmap
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
_MM_PER_INCH = 25.4
_LOWEST_DPI, _HIGHEST_DPI = 73, 2400  # where nothing is said, libvips says 25, and cameras say 72

_JPEG_START = b"\xff\xd8\xff"
_SAMPLE_BYTES = {"uchar": 1, "char": 1, "ushort": 2, "short": 2, "uint": 4, "int": 4, "float": 4}

# libvips has one error class; what the caller must do is in the words. Damage is looked for before oddness: a
# file that is both must not be given to a more lenient decoder ("Uncompressed data (not supported) at line 9"
# is a broken fax, and Pillow would show it). Only a missing codec cannot have seen any damage.
_ROUTINE = re.compile(r"^unable to call|: load error$", re.IGNORECASE)  # some come or not, as threads happen
# Of each library; a thread that cannot be created has no room for its stack.
_NO_MEMORY = re.compile(r"(?:out of|insufficient|cannot allocate) memory|creating thread", re.IGNORECASE)
_MACHINE = re.compile(r"system error|unable to (open for )?write(?! to memory)", re.IGNORECASE)
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
        picture = _Input(path, content_type).load()
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


@contextmanager
def decoded(path: Path, content_type: str, page: TiffPage | None = None) -> Iterator[VipsImage]:
    """An upright plain picture, for as long as the block lasts. Lazy: damage shows when it is saved or, at
    the latest, at the end of the block. Keep nothing of what was made of it when the block raises.
    """
    bits, extra_sample = (page.bits, page.extra_sample) if page else (8, None)
    with _translate_errors(), _Input(path, content_type, page).checked() as given:
        picture = given.load()
        # A stream cannot be turned ("out of order read"), nor read twice.
        if _orientation(picture) != 1 or colour.needs_two_passes(picture):
            picture = given.load(access="random")
        yield colour.plain(picture.autorot(), bits=bits, extra_sample=extra_sample)


def thumbnail(path: Path, content_type: str, known: Header, side: int) -> VipsImage:
    """The picture of a file with its longest side at most `side`, upright, plain, in memory.

    JPEG and WebP are shrunk while they are decoded: much cheaper than decode and shrink.
    """
    options = {"export_profile": "srgb"} if known.profile_matters else {}
    with _translate_errors(), _Input(path, content_type).checked() as given:
        # As an option of the loader: the argument `fail_on` of this operation is ignored, and half a JPEG
        # comes out grey (libvips 8.18).
        source = given.source()
        small = _vips().Image.thumbnail_source(
            source, side, height=side, size="down", option_string="[fail_on=error]", **options
        )
        flat: VipsImage = colour.on_white(_keep(small, source)).copy_memory()
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
    with _translate_errors(), _Input(path, content_type).checked() as given:
        given.load().avg()


def from_pixels(data: bytes | memoryview, width: int, height: int, bands: int) -> VipsImage:
    """A plain picture that another decoder has read: `bands` is 1 for grey, 3 for sRGB."""
    numbers = _vips().Image.new_from_memory(data, width, height, bands, "uchar")
    picture: VipsImage = numbers.copy(interpretation="b-w" if bands == 1 else "srgb")
    return picture


def to_bitmap(picture: Any) -> PageBitmap:
    """The pixels of a plain picture, in memory; grey stays one band."""
    with _translate_errors():
        held = picture.copy_memory()  # its errors name the picture's fault; those of the next line do not
        return PageBitmap(memoryview(held.write_to_memory()), held.width, held.height, held.bands)


def read_dpi(picture: Any) -> int:
    """What the file says of its resolution; 0 where it says nothing, or something that cannot be meant."""
    found = round(picture.xres * _MM_PER_INCH)
    return found if _LOWEST_DPI <= found <= _HIGHEST_DPI else 0


def resized(picture: Any, width: int, height: int) -> VipsImage:
    """The picture with exactly these sides."""
    if (picture.width, picture.height) == (width, height):
        same: VipsImage = picture
        return same
    with _translate_errors():
        made: VipsImage = picture.thumbnail_image(width, height=height, size="force")
    return made


def read_resolution(path: Path, content_type: str, page: TiffPage | None = None) -> tuple[int, int]:
    """Dots per inch across and down, of the picture as it is stored; 0 as `read_dpi` gives it."""
    with _translate_errors():
        picture = _Input(path, content_type, page).load()
        found = [round(one * _MM_PER_INCH) for one in (picture.xres, picture.yres)]
    across, down = (one if _LOWEST_DPI <= one <= _HIGHEST_DPI else 0 for one in found)
    return (across, down) if across and down else (0, 0)


def to_png(picture: Any) -> bytes:
    """Without loss and without metadata: the same picture gives the same bytes."""
    with _translate_errors():
        return bytes(picture.pngsave_buffer(compression=6, filter="all", keep="none"))


def is_black_and_white(picture: Any) -> bool:
    """Whether a plain grey picture has no other shades."""
    with _translate_errors():
        if picture.bands != 1:
            return False
        counts = picture.hist_find()
        return bool(counts.crop(1, 0, counts.width - 2, 1).max() == 0) if counts.width > 2 else True


def to_jpeg(picture: Any, quality: int) -> bytes:
    """As `save_jpeg`, in memory."""
    with _translate_errors():
        return bytes(picture.jpegsave_buffer(Q=quality, keep="none", interlace=False))


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


class _Input:
    """A file that may be opened several times; `checked` judges what the last decoder left unsaid."""

    def __init__(self, path: Path, content_type: str, page: TiffPage | None = None) -> None:
        self._path, self._content_type, self._page = path, content_type, page
        self._jpeg: JpegBytes | None = None

    def load(self, access: str = "sequential", **options: Any) -> Any:
        loader = getattr(_vips().Image, _LOADERS[self._content_type])
        source = self.source()
        if self._page and not has_many(self._page):
            options["page"] = self._page.index
        return _keep(loader(source, fail_on="error", access=access, **options), source)

    def source(self) -> Any:
        if self._page and has_many(self._page):
            # The page alone: libvips would walk through all directories of the file for each of its pages.
            return _custom_source(TiffPageView(self._path, self._page))
        # A source, not a file name: libvips reads options out of names such as "scan[page=2].tif".
        if self._content_type != "image/jpeg":
            return _vips().Source.new_from_file(str(self._path))
        with self._path.open("rb") as stream:
            self._jpeg = JpegBytes(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
        return _custom_source(self._jpeg)

    @contextmanager
    def checked(self) -> Iterator[Self]:
        if self._content_type == "image/png":
            png.check_sums(self._path)
        if self._page and self._page.lone_plane:
            raise refusals.unsupported("libvips makes a black page of a lone plane")
        if self._page:
            tiff_parts.check(self._path, self._page, check_jpeg)
        _complaints.clear()
        with decoder_warnings.listening() as heard:
            try:
                yield self
                self._check_left_over()
            finally:
                if self._jpeg:
                    self._jpeg.release()
        _collect_complaints()
        decoder_warnings.check(_complaints if self._content_type == "image/jpeg" else [*heard, *_complaints])

    def _check_left_over(self) -> None:
        if self._jpeg and not is_padding(self._jpeg.left_over):
            self.load(shrink=8).avg()  # the caller may not have needed the last rows
        if self._jpeg:
            _check_end(self._jpeg)


def check_jpeg(data: bytes) -> None:
    """Refuse a JPEG, given whole, of which rows are missing or left over. Raises as `verify` does."""
    if not data.startswith(_JPEG_START):
        # Some decoders look further for the next marker, others show nothing.
        raise refusals.corrupt("it does not begin as a JPEG does")
    with _translate_errors():
        jpeg = JpegBytes(data)
        source = _custom_source(jpeg)
        _complaints.clear()
        picture = _vips().Image.jpegload_source(source, fail_on="error", access="sequential", shrink=8)
        _keep(picture, source).avg()
        _check_end(jpeg)
        _collect_complaints()
        decoder_warnings.check(_complaints)


def _keep(picture: Any, source: Any) -> Any:
    """The picture, with its source: one that is gone when libvips asks it for bytes ends the process."""
    picture._references.append(source)  # noqa: SLF001 as pyvips itself does in new_from_source
    return picture


def _custom_source(view: JpegBytes | TiffPageView) -> Any:
    source = _vips().SourceCustom()
    _sources.append(source)
    source.on_read(view.read)
    source.on_seek(view.seek)
    return source


def _check_end(jpeg: JpegBytes) -> None:
    if not jpeg.is_ended:
        raise refusals.truncated("no end marker follows the coded rows")
    if not is_padding(jpeg.left_over):
        raise refusals.corrupt(f"{len(jpeg.left_over)} bytes of coded rows are left over after the last row")


def _stored_samples(picture: Any) -> float:
    halved = picture.get_typeof("jpeg-chroma-subsample") and "4:2:0" in picture.get("jpeg-chroma-subsample")
    return picture.bands - 1.5 if halved and picture.bands > 1 else float(picture.bands)


def _orientation(picture: Any) -> int:
    return int(picture.get("orientation")) if picture.get_typeof("orientation") else 1


# Also of pictures that failed: their threads may ask once more. The bytes are released before.
_sources: deque[Any] = deque(maxlen=64)

# What libvips wrote into its error buffer while it succeeded: of a JPEG the first warning of libjpeg.
_complaints: list[str] = []


def _collect_complaints() -> None:
    """Empty the error buffer: what an earlier file left there would be blamed on the next one."""
    library = _vips()
    found = library.ffi.string(library.vips_lib.vips_error_buffer()).decode("utf-8", "replace")
    library.vips_lib.vips_error_clear()
    _complaints.extend(line.partition(": ")[2] or line for line in found.splitlines() if line.strip())


@contextmanager
def _translate_errors() -> Iterator[None]:
    library = _vips()
    _collect_complaints()
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
