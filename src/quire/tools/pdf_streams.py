"""Whether what a page of a PDF shows is whole: renderers draw the first half of a damaged picture, and say
nothing.

Promise: a JPEG of which rows are missing, and a Deflate stream (pictures, drawings and packed objects alike)
that is cut off or contradicts its checksum, are refused before the page is drawn. Streams that leave out
their own end, as some writers do, are whole. Other compressions carry no sum and are left to the renderer.
Works on the objects of pikepdf, handed in as `Any`; each stream is looked at once, whatever the number of
pages that show it.
"""

import zlib
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from quire.model.errors import Reject
from quire.tools import pdf_pictures, refusals

_JPEG, _DEFLATE = "/DCTDecode", ("/FlateDecode", "/Fl")
_OTHERS = frozenset(
    {
        *(
            "/LZWDecode",
            "/LZW",
            "/ASCII85Decode",
            "/A85",
            "/ASCIIHexDecode",
            "/AHx",
            "/RunLengthDecode",
            "/RL",
        ),
        *("/CCITTFaxDecode", "/CCF", "/JBIG2Decode", "/JPXDecode", "/DCT", "/Crypt"),
    }
)
_KNOWN = frozenset({_JPEG, *_DEFLATE, *_OTHERS})
_MADE_UP = "/QPDFFake"  # qpdf's names for what stands in a dictionary without one
_JPEG_END = b"\xff\xd9"
_PIECE = 1 << 20
_MOST_INFLATED = 1 << 30  # bytes of a document; what follows is left to the renderer
_SUM_BYTES = 4

CheckJpeg = Callable[[bytes], None]


class StreamChecker:
    """For one document."""

    def __init__(self, library: Any, check_jpeg: CheckJpeg) -> None:
        self._library, self._check_jpeg = library, check_jpeg
        self._seen: set[tuple[int, int]] = set()
        self._inflated = 0

    def check(self, page: Any, number: int) -> None:
        for stream in pdf_pictures.shown_streams(page, self._library, self._seen):
            try:
                self._check_stream(stream)
            except (Reject, zlib.error) as flaw:
                what = "a picture" if stream.get("/Subtype") == "/Image" else "its content"
                raise refusals.corrupt(f"page {number}: {what} is damaged or cut off", "PDF") from flaw

    def _check_stream(self, stream: Any) -> None:
        names = _filters(stream, self._library)
        if any(key.startswith(_MADE_UP) for key, _ in stream.items()):
            raise refusals.corrupt("what it says of itself cannot be read")
        if stream.get("/Subtype") == "/Image":
            _check_described(stream, names)
        if unknown := next((name for name in names if name not in _KNOWN), None):
            raise refusals.corrupt(f"nothing is known of its filter {unknown[:40]!r}")
        if names and names[0] in _DEFLATE and self._inflated < _MOST_INFLATED:
            self._check_deflate(bytes(stream.read_raw_bytes()))
        elif names == [_JPEG] and stream.get("/Subtype") == "/Image":
            self._check_jpeg(bytes(stream.read_raw_bytes()) + _JPEG_END)

    def _check_deflate(self, data: bytes) -> None:
        self._inflated += _inflate(data, _MOST_INFLATED - self._inflated)


def _check_described(picture: Any, names: list[str]) -> None:
    """Renderers leave out a picture that does not say what it is."""
    sides = (picture.get("/Width"), picture.get("/Height"))
    if not all(isinstance(side, int | Decimal) and side > 0 for side in sides):
        raise refusals.corrupt("a picture says no size")
    is_mask = picture.get("/ImageMask") is True
    if not is_mask and "/ColorSpace" not in picture and "/JPXDecode" not in names:
        raise refusals.corrupt("a picture says no colours")
    bits = 1 if is_mask else picture.get("/BitsPerComponent", 1)
    if not names and len(bytes(picture.read_raw_bytes())) < int((sides[0] * bits + 7) // 8 * sides[1]):
        raise refusals.truncated("a picture has too few bytes")


def check_objects(stream: Any, library: Any) -> None:
    """Of a stream that holds other objects: a wrong byte in it is another picture, or none."""
    if (names := _filters(stream, library)) and names[0] in _DEFLATE:
        try:
            _inflate(bytes(stream.read_raw_bytes()), _MOST_INFLATED)
        except (Reject, zlib.error) as flaw:
            raise refusals.corrupt("some of its objects are damaged or cut off", "PDF") from flaw


def _filters(stream: Any, library: Any) -> list[str]:
    filters = stream.get("/Filter")
    if filters is None:
        return []
    return [str(one) for one in (filters if isinstance(filters, library.Array) else [filters])]


def _inflate(data: bytes, most: int) -> int:
    """How many bytes come out, of which no more than `most` or one piece further are looked at."""
    unpacker = zlib.decompressobj()
    rest, found = data, 0
    while rest and not unpacker.eof and found < most:
        found += len(unpacker.decompress(rest, _PIECE))
        rest = unpacker.unconsumed_tail
    if data and not unpacker.eof and not rest and _is_cut_off(unpacker):
        raise refusals.truncated("a stream has no end")
    return found


def _is_cut_off(unpacker: Any) -> bool:
    """Whether more than the checksum is missing: then further bytes are taken for content."""
    try:
        unpacker.decompress(bytes(_SUM_BYTES))
    except zlib.error as error:
        return "data check" not in str(error)
    return not unpacker.eof
