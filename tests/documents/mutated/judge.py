"""Compares what was made of a damaged file with what a decoder sees that had no part in making it.

Pictures: Pillow, for what libvips made, and the other way round for the kinds that only Pillow reads. PDFs:
qpdf decodes every stream of the single pages, and the page that was drawn from the whole document must look
like the page that was cut out of it. A picture is compared by means of small squares: rounding and the
quality of the JPEG disappear in them, a grey or smeared area does not.
"""

import re
from io import BytesIO
from pathlib import Path
from typing import Any
from warnings import catch_warnings

import pikepdf
import pypdfium2
from PIL import Image, ImageChops

from quire.model.errors import Reject
from quire.tools import pillow, sniff, tiff, vips
from quire.tools.refusals import PixelLimits, Unsupported

# Of the worker pool, not of the files: none of these may occur.
LOST = frozenset({"crash", "timeout", "out_of_memory", "step_error", "bad_result", "stalled"})
REFUSALS = frozenset(
    {
        *("empty_file", "not_an_image", "unsupported_format", "truncated", "corrupt", "too_many_pixels"),
        *("not_a_pdf", "encrypted", "no_pages", "too_many_pages", "too_many_bytes", "too_much_memory"),
    }
)
_SQUARE = 8
_LEVELS = 32  # of 255: how far the means of a square may differ
_WEBP = 50001
_COPY = 200  # the longest side of the copy that is looked at, of a picture that is not converted
_COPIED = frozenset({".jpg", ".png", ".webp"})
# Of a tag that no pixel depends on; the decoder goes on without it, and is as strict about pixels.
_OF_RESOLUTION = re.compile(r"Skipping tag (?:282|283|296)\b|Truncated File Read")
_LIMITS = PixelLimits(max_pixels=20_000_000)


def judge(source: Path, entry: dict[str, Any], out: Path) -> str:
    """`agrees`, `error: …`, or what is wrong, after an exclamation mark."""
    if entry["status"] != "done":
        known = entry["error_class"]
        return f"error: {known}" if known in REFUSALS else f"!failed: {known}: {entry['reason']}"
    made = [name for name in entry["outputs"] if name.endswith((".jpg", ".pdf"))]
    if not made and source.suffix in _COPIED:
        return _judge_small(source)
    if not made:
        return "!done with nothing made of it"
    if source.suffix == ".pdf":
        return _judge_pdf(source, [out / name for name in made])
    try:
        return _judge_pictures(source, [out / name for name in made])
    except (Reject, OSError) as refusal:
        return f"!the other decoder refuses it: {refusal}"


def _judge_small(source: Path) -> str:
    """A picture that is smaller than any copy of it would be is looked through, and nothing is made."""
    try:
        picture = _decode(source, sniff.signature(source.read_bytes()[: sniff.HEAD_BYTES]) or "", 0)
    except (Reject, OSError) as refusal:
        return f"!the other decoder refuses it: {refusal}"
    return "agrees" if max(picture.size) <= _COPY else "!done with nothing made of it"


def _judge_pictures(source: Path, made: list[Path]) -> str:
    kind = sniff.signature(source.read_bytes()[: sniff.HEAD_BYTES]) or ""
    pages = sorted(one for one in made if len(one.suffixes) == 1) if source.suffix == ".tif" else made
    places = [page.index for page in tiff.pages(source)] if kind == "image/tiff" else [0]
    if len(pages) < len(places):
        return f"!of {len(places)} pages {len(pages)} were made"
    for place, one in zip(places, _in_order(pages), strict=False):
        with Image.open(one) as picture:
            picture.load()
        if fault := _compare(picture.convert("RGB"), _decode(source, kind, place)):
            return f"!page {place + 1}: {fault}"
    return "agrees"


def _in_order(pages: list[Path]) -> list[Path]:
    """The first page has no number."""
    return sorted(pages, key=lambda path: (len(path.stem), path.stem))


def _decode(source: Path, kind: str, place: int) -> Image.Image:
    page = (
        next((one for one in tiff.pages(source) if one.index == place), None)
        if kind == "image/tiff"
        else None
    )
    if page and page.parts.compression == _WEBP:
        return _lay_tiles(source.read_bytes(), page)
    try:
        data, width, height, bands = pillow.decode(source, kind, page, _LIMITS)
    except Unsupported:
        with vips.decoded(source, kind, page) as picture:
            plain: Any = picture
            data, width, height, bands = plain.write_to_memory(), plain.width, plain.height, plain.bands
    except Reject as refusal:
        if not _OF_RESOLUTION.search(str(refusal)):
            raise
        with catch_warnings(action="ignore"), Image.open(source) as picture:
            picture.seek(place)
            return picture.convert("RGB")
    return Image.frombytes("L" if bands == 1 else "RGB", (width, height), data).convert("RGB")


def _lay_tiles(content: bytes, page: tiff.TiffPage) -> Image.Image:
    """Pillow reads WebP, and TIFFs, but no WebP within a TIFF."""
    whole = Image.new("RGB", (page.width, page.height))
    for number, (offset, count) in enumerate(zip(page.parts.offsets, page.parts.counts, strict=True)):
        with Image.open(BytesIO(content[offset : offset + count]), formats=["WEBP"]) as tile:
            across = -(-page.width // tile.width)
            whole.paste(tile.convert("RGB"), (number % across * tile.width, number // across * tile.height))
    return whole


def _compare(made: Image.Image, other: Image.Image) -> str:
    sheared = abs(made.width * other.height - made.height * other.width)
    if made.size != other.size and (max(made.size) > _COPY or sheared > 2 * max(other.size)):
        return f"{made.size} pixels, the other decoder finds {other.size}"
    squares = tuple(max(1, side // _SQUARE) for side in made.size)
    box = Image.Resampling.BOX
    apart = ImageChops.difference(made.resize(squares, box), other.resize(squares, box))
    most = max(high for _, high in apart.getextrema())
    return f"{most} levels apart" if most > _LEVELS else ""


def _judge_pdf(source: Path, made: list[Path]) -> str:
    drawn = sorted(one for one in made if one.suffix == ".jpg" and len(one.suffixes) == 1)
    for picture in drawn:
        single = picture.with_suffix(".pdf")
        if fault := _find_lost_stream(single):
            return f"!{picture.stem}: {fault}"
        with Image.open(picture) as seen, pypdfium2.PdfDocument(single) as document:
            other = document[0].render(scale=1).to_pil().convert("RGB")
            if fault := _compare(seen.convert("RGB"), other):
                return f"!{picture.stem}: {fault}"
    with pikepdf.open(source) as pdf:
        if len(pdf.pages) != len(drawn):
            return f"!of {len(pdf.pages)} pages {len(drawn)} were made"
    return "agrees"


def _find_lost_stream(single: Path) -> str:
    try:
        with pikepdf.open(single) as pdf:
            found = [words for words in pdf.check_pdf_syntax() if "decoding" in words]
            if found and "Pl_DCT" in found[0]:
                # To qpdf the oddities of headers and bytes behind the picture are damage as well.
                _load_jpegs(pdf)
                return ""
    except (pikepdf.PdfError, OSError) as error:
        found = [f"decoding: {error}"]
    return found[0] if found else ""


def _load_jpegs(pdf: pikepdf.Pdf) -> None:
    """Raises OSError for one that Pillow finds damaged."""
    for one in pdf.objects:
        if isinstance(one, pikepdf.Stream) and one.get("/Filter") == "/DCTDecode":
            with Image.open(BytesIO(one.read_raw_bytes()), formats=["JPEG"]) as picture:
                picture.load()
