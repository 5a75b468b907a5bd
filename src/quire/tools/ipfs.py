"""Content identifiers (CIDv1) of files, computed without an IPFS node.

One file has several right CIDs, depending on how it is cut, so every answer belongs to a named profile that
is recorded beside it. Files are streamed: memory stays at one chunk plus one link per chunk, whatever the
size. Knows nothing of batches or stores.
"""

import hashlib
from base64 import b32encode
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, get_args

from quire.model.errors import Misconfigured

Profile = Literal["unixfs-v1-2025", "unixfs-256k", "raw"]
DEFAULT_PROFILE: Profile = "unixfs-v1-2025"

_RAW, _DAG_PB = 0x55, 0x70

# Bytes in a leaf, links in a node; "raw" is one block of any size and has neither.
_LAYOUTS = {"unixfs-v1-2025": (1 << 20, 1024), "unixfs-256k": (1 << 18, 174)}


class _Block(NamedTuple):
    cid: bytes
    file_bytes: int  # of the document, below this block
    tree_bytes: int  # of all blocks below, this one included: a link's Tsize


def file_cid(path: Path, profile: str = DEFAULT_PROFILE) -> str:
    """The CID of a file's bytes under a profile; equal bytes give an equal CID on every machine."""
    if profile not in get_args(Profile):
        choices = ", ".join(get_args(Profile))
        message = f"unknown CID profile {profile!r}: choose one of {choices}"
        raise Misconfigured(message, code="unknown_cid_profile")
    with path.open("rb") as stream:
        if profile == "raw":
            return _text(_cid(_RAW, hashlib.file_digest(stream, "sha256").digest()))
        leaf_bytes, links = _LAYOUTS[profile]
        return _text(_root(list(_leaves(stream, leaf_bytes)), links).cid)


def _leaves(stream: BinaryIO, leaf_bytes: int) -> Iterator[_Block]:
    """One raw block per chunk. An empty file is one empty chunk: it has a CID too."""
    chunk = stream.read(leaf_bytes)
    while True:
        yield _Block(_cid(_RAW, hashlib.sha256(chunk).digest()), len(chunk), len(chunk))
        chunk = stream.read(leaf_bytes)
        if not chunk:
            return


def _root(blocks: list[_Block], links: int) -> _Block:
    """The balanced tree: level by level, full nodes from the left, until one block is left."""
    while len(blocks) > 1:
        blocks = [_node(blocks[at : at + links]) for at in range(0, len(blocks), links)]
    return blocks[0]


def _node(children: list[_Block]) -> _Block:
    """A dag-pb node. Importers write Links before Data and an empty Name: other orders hash differently."""
    file_bytes = sum(child.file_bytes for child in children)
    unixfs = b"\x08\x02" + b"\x18" + _varint(file_bytes)  # Type = File, filesize
    unixfs += b"".join(b"\x20" + _varint(child.file_bytes) for child in children)  # blocksizes
    node = b"".join(_field(0x12, _link(child)) for child in children) + _field(0x0A, unixfs)
    tree_bytes = len(node) + sum(child.tree_bytes for child in children)
    return _Block(_cid(_DAG_PB, hashlib.sha256(node).digest()), file_bytes, tree_bytes)


def _link(child: _Block) -> bytes:
    return _field(0x0A, child.cid) + _field(0x12, b"") + b"\x18" + _varint(child.tree_bytes)


def _field(tag: int, value: bytes) -> bytes:
    return bytes([tag]) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    low_first = bytearray()
    while number > 0x7F:
        low_first.append(number & 0x7F | 0x80)
        number >>= 7
    low_first.append(number)
    return bytes(low_first)


def _cid(codec: int, digest: bytes) -> bytes:
    return bytes([1, codec, 0x12, len(digest)]) + digest  # CID version, codec, sha2-256, length


def _text(cid: bytes) -> str:
    return "b" + b32encode(cid).decode().lower().rstrip("=")
