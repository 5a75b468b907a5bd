"""Content identifiers of whole files as one raw block: CIDv1, codec raw, sha2-256, base 32 (`bafkrei…`).

Such an identifier is an encoded SHA-256, so it can be made from a digest and checked against one.
Those of files that are cut into blocks are made by `quire.tools.ipfs`.
"""

from base64 import b32decode, b32encode
from binascii import Error

_HEAD = bytes([1, 0x55, 0x12, 32])  # version, codec raw, hash sha2-256, its length
_LENGTH = 59


def cid_of(sha256: bytes) -> str:
    """The identifier of the bytes that have this digest."""
    if len(sha256) != 32:
        raise ValueError(f"a SHA-256 has 32 bytes, not {len(sha256)}")
    return "b" + b32encode(_HEAD + sha256).decode().lower().rstrip("=")


def sha256_of(cid: str) -> bytes | None:
    """The digest in an identifier; None when it is of another kind and says less of the bytes."""
    if len(cid) != _LENGTH or cid[0] != "b" or cid != cid.lower() or not cid.isascii():
        return None
    try:
        binary = b32decode(cid[1:].upper() + "======")
    except Error:
        return None
    # The last character has bits to spare: one digest must not have several names.
    if not binary.startswith(_HEAD) or cid_of(binary[4:]) != cid:
        return None
    return binary[4:]
