"""What an arrived file is: what its sender says, unless its own first bytes prove that it is something else.

Senders call a JPEG application/octet-stream, and then no phase would find it. Where name and declared type
say the same nothing is read: a wrong word of both is found by the step. Must not know: what becomes of it.
"""

from quire.blobs.port import Blobs
from quire.ledger.port import Upload
from quire.tools.sniff import HEAD_BYTES, content_type, signature

# Of containers (zip, films) the first bytes do not tell what they are for; the sender's word is better.
_PROVEN = ("image/", "application/pdf")
_SAME = {"image/jpg": "image/jpeg", "image/x-png": "image/png"}


async def detect_content_type(blobs: Blobs, upload: Upload) -> str:
    """The content type of a file that lies in the store; one small read at most. Raises Retry."""
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
    """Could this type have been put in the place of what the sender said?"""
    return kind.startswith(_PROVEN)
