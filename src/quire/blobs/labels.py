"""Labels of a blob: content type and metadata, with one check for all stores.

Promise: labels that pass the check come back from every store unchanged. Must not know: any store.
"""

import re
from urllib.parse import quote, unquote

from msgspec import Struct, field

from quire.blobs.port import Metadata
from quire.model.errors import Reject

MAX_BYTES = 2048  # S3 refuses more user metadata than this

# S3 carries names as HTTP header names: case is lost there, so only lower case comes back unchanged.
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_CONTENT_TYPE = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?")
_EMPTY = "%"  # never the result of percent-encoding; servers drop headers without a value

NONCE = "quire-nonce"  # the S3 store's own mark on conditional writes


class Labels(Struct, frozen=True, kw_only=True, omit_defaults=True):
    schema: int = 1
    content_type: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.content_type is not None or bool(self.metadata)


def check_labels(content_type: str | None, metadata: Metadata | None) -> Labels:
    """Checked labels. Raises Reject with code `bad_metadata`."""
    if content_type is not None and not _CONTENT_TYPE.fullmatch(content_type):
        raise Reject(
            f"Content type {content_type[:80]!r} is not plain ASCII text of at most 255 characters.",
            code="bad_metadata",
        )
    given = dict(metadata or {})
    for name in given:
        if not _NAME.fullmatch(name) or name == NONCE:
            raise Reject(
                f"Metadata name {name[:80]!r} is not allowed: use lower-case letters, digits and hyphens.",
                code="bad_metadata",
            )
    try:
        size = sum(len(name) + len(encode(value)) for name, value in given.items())
    except UnicodeEncodeError as error:
        raise Reject("A metadata value is not valid Unicode.", code="bad_metadata") from error
    if size > MAX_BYTES:
        raise Reject(
            f"Metadata of {size} bytes (percent-encoded) is more than the {MAX_BYTES} that stores accept.",
            code="bad_metadata",
        )
    return Labels(content_type=content_type, metadata=given)


def encode(value: str) -> str:
    """Encode a metadata value for an HTTP header. Only letters, digits and `_.-~` stay as they are: published
    tools that share a bucket with Quire encode the same way.
    """
    return quote(value, safe="") or _EMPTY


def decode(value: str) -> str:
    return "" if value == _EMPTY else unquote(value)
