"""What is told with a stored PDF: its name, its tags and its size, as published tools write and read it.

Promises: what is written fits into what stores accept, whatever the file is called; who reads gets what can
be understood of anybody's. The whole truth is in the index. The store's adapter encodes the values.
"""

import json

import msgspec
from msgspec import Struct, field

from quire.blobs.labels import MAX_BYTES, encode
from quire.blobs.port import Metadata

CONTENT_TYPE = "binary/octet-stream"  # of sources, and of markers without content
_NAME, _TAGS, _SIZE = "original-name", "tags", "size"
_RESERVED = 64  # for the mark of a conditional encode_metadata, and a margin


class SourceMetadata(Struct, frozen=True, kw_only=True):
    name: str = ""
    tags: list[str] = field(default_factory=list)
    size: int | None = None


def encode_metadata(name: str, tags: list[str], size: int) -> dict[str, str]:
    """Tags that do not fit are left out, the outermost folders first; then the end of the name."""
    room = MAX_BYTES - _RESERVED - sum(len(key) for key in (_NAME, _TAGS, _SIZE)) - len(str(size))
    kept_name = name
    while len(encode(kept_name)) > room // 2:
        kept_name = kept_name[:-1]
    room -= len(encode(kept_name))
    kept = list(tags)
    while kept and len(encode(json.dumps(kept))) > room:
        kept.pop(0)
    return {_NAME: kept_name, _TAGS: json.dumps(kept), _SIZE: str(size)}


def decode_metadata(metadata: Metadata) -> SourceMetadata:
    size = metadata.get(_SIZE, "")
    return SourceMetadata(
        name=metadata.get(_NAME, ""),
        tags=_decode_tags(metadata.get(_TAGS, "")),
        size=int(size) if size.isascii() and size.isdecimal() and len(size) <= 19 else None,
    )


def _decode_tags(said: str) -> list[str]:
    try:
        return msgspec.json.decode(said.encode(), type=list[str])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return []
