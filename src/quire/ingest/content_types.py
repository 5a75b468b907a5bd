"""The content type of an upload: as declared, unless its first bytes prove another one.

Some clients declare a JPEG as application/octet-stream, and then no phase would select it. Where name and
declared type agree nothing is read: if both are wrong, the step finds out. Must not know: pipelines.
"""

from quire.blobs.port import Blobs
from quire.ledger.port import Upload
from quire.tools.sniff import HEAD_BYTES, content_type, signature

# The first bytes of containers (zip, video) do not tell their purpose; the declared type is better.
_PROVEN = ("image/", "application/pdf")
_SAME = {"image/jpg": "image/jpeg", "image/x-png": "image/png"}


async def detect_content_type(blobs: Blobs, upload: Upload) -> str:
    """The content type of a stored file; at most one small read. Raises Retry."""
    said = upload.content_type
    declared = said.partition(";")[0].strip().lower()
    by_name = content_type(upload.path.rpartition("/")[2], b"")
    if _SAME.get(declared, declared) == by_name != content_type("", b"") or not upload.size:
        return said
    head = b""
    async for piece in blobs.stream(upload.key, stop=min(upload.size, HEAD_BYTES)):
        head += piece
    found = signature(head)
    if found is None or not found.startswith(_PROVEN) or found == _SAME.get(declared, declared):
        return said
    return found


def is_provable(kind: str) -> bool:
    """Whether this type may have replaced the declared one."""
    return kind.startswith(_PROVEN)
