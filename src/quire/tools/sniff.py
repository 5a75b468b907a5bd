"""The content type of a file: by its first bytes where they are unmistakable, else by its extension.

A declared content type is often wrong (a JPEG sent as application/octet-stream), and so is an extension (a
JPEG called scan.tif); a signature is not. Formats without one (text, CSV) and containers that hide the real
format (a .docx is a zip) are recognised by extension. Pure functions: any name and any bytes give an answer,
nothing is raised.
"""

import codecs
import re

HEAD_BYTES = 512  # enough for every signature below and for a fair look at text

_UNKNOWN = "application/octet-stream"

# A bracket alone is not enough: "[Chapter 1]" and "{sic}" are prose.
_JSON_OPENING = re.compile(rb"""\s*(\{\s*["}]|\[\s*[\[{"\]\d-])""")

# Offset, bytes, content type. The first match wins.
_SIGNATURES: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"II*\x00", "image/tiff"),
    (0, b"MM\x00*", "image/tiff"),
    (0, b"II+\x00", "image/tiff"),  # BigTIFF
    (0, b"MM\x00+", "image/tiff"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (0, b"\x00\x00\x00\x0cjP  \r\n\x87\n", "image/jp2"),
    (0, b"\x00\x00\x00\x0cJXL \r\n\x87\n", "image/jxl"),
    (4, b"ftypavif", "image/avif"),
    (4, b"ftypheic", "image/heic"),
    (4, b"ftypheix", "image/heic"),
    (4, b"ftypmif1", "image/heif"),
    (0, b"8BPS", "image/vnd.adobe.photoshop"),
    (0, b"%PDF-", "application/pdf"),
    (0, b"PK\x03\x04", "application/zip"),
    (0, b"\x1f\x8b", "application/gzip"),
    (0, b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (4, b"ftyp", "video/mp4"),
)

# Signatures that are only a wrapping: the extension knows better what is inside.
_CONTAINERS = frozenset({"application/zip", "application/gzip", "video/mp4"})

_EXTENSIONS = {
    "avif": "image/avif",
    "bmp": "image/bmp",
    "csv": "text/csv",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "epub": "application/epub+zip",
    "gif": "image/gif",
    "gz": "application/gzip",
    "heic": "image/heic",
    "heif": "image/heif",
    "htm": "text/html",
    "html": "text/html",
    "jp2": "image/jp2",
    "jpe": "image/jpeg",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "json": "application/json",
    "jsonl": "application/x-ndjson",
    "jxl": "image/jxl",
    "m4a": "audio/mp4",
    "markdown": "text/markdown",
    "md": "text/markdown",
    "mov": "video/quicktime",
    "mp3": "audio/mpeg",
    "mp4": "video/mp4",
    "odt": "application/vnd.oasis.opendocument.text",
    "pdf": "application/pdf",
    "png": "image/png",
    "psd": "image/vnd.adobe.photoshop",
    "svg": "image/svg+xml",
    "tif": "image/tiff",
    "tiff": "image/tiff",
    "txt": "text/plain",
    "wav": "audio/wav",
    "webp": "image/webp",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "xml": "application/xml",
    "zip": "application/zip",
}

_IN_WORDS = {
    "application/gzip": "a gzip archive",
    "application/json": "JSON text",
    "application/pdf": "a PDF",
    "application/x-7z-compressed": "a 7-Zip archive",
    "application/xml": "XML or HTML text",
    "application/zip": "a zip archive or office document",
    "image/avif": "an AVIF picture",
    "image/bmp": "a BMP picture",
    "image/gif": "a GIF picture",
    "image/heic": "a HEIC picture",
    "image/heif": "a HEIF picture",
    "image/jp2": "a JPEG 2000 picture",
    "image/jpeg": "a JPEG picture",
    "image/jxl": "a JPEG XL picture",
    "image/png": "a PNG picture",
    "image/tiff": "a TIFF picture",
    "image/vnd.adobe.photoshop": "a Photoshop document",
    "image/webp": "a WebP picture",
    "text/plain": "plain text",
    "video/mp4": "a film or sound recording",
}


def content_type(name: str, head: bytes) -> str:
    """The content type of a file called `name` that begins with `head` (`HEAD_BYTES` of it are enough)."""
    signed = signature(head)
    if signed and signed not in _CONTAINERS:
        return signed
    stem, _, extension = name.rpartition(".")
    by_name = _EXTENSIONS.get(extension.lower()) if stem else None
    return by_name or signed or _textual(head) or _UNKNOWN


def signature(head: bytes) -> str | None:
    """The content type that the first bytes prove, or None."""
    for offset, magic, kind in _SIGNATURES:
        # RIFF is shared by WebP, WAV and AVI: bytes 8 to 12 alone prove nothing.
        if head.startswith(magic, offset) and (kind != "image/webp" or head.startswith(b"RIFF")):
            return kind
    # "BM" begins many an English text: the four reserved zero bytes must be there too.
    if head.startswith(b"BM") and head[6:10] == b"\0\0\0\0":
        return "image/bmp"
    return None


def looks_like(head: bytes) -> str:
    """What the bytes are, in words for a message: "plain text", "a PDF"."""
    if not head:
        return "an empty file"
    if not any(head):
        return "nothing but zero bytes"
    return _IN_WORDS.get(signature(head) or _textual(head) or "", "data of an unknown kind")


def _textual(head: bytes) -> str | None:
    """A kind of text, or None for binary data and for nothing at all."""
    text = head.removeprefix(b"\xef\xbb\xbf")
    if not text or any(byte < 32 and byte not in b"\t\n\f\r\x1b" for byte in text):
        return None
    try:
        # Not final: a head may end inside a character.
        codecs.getincrementaldecoder("utf-8")().decode(text, final=False)
    except UnicodeDecodeError:
        # Older single-byte encodings are text as well, as long as most of it is ASCII.
        if sum(byte < 128 for byte in text) < 0.75 * len(text):
            return None
    if _JSON_OPENING.match(text):
        return "application/json"
    return "application/xml" if text.lstrip().startswith(b"<") else "text/plain"
