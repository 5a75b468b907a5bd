"""Uploads the bytes of a document: from its own file, or from the Git LFS object behind it.

Promises: what is stored under a hash has that hash, whatever happens to the file meanwhile: the bytes are
hashed as they are sent, and the object appears only if the hash is right; an existing source is not
replaced. The file and its work tree are only read.
"""

import asyncio
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from quire.blobs.port import Blobs, IfAbsent
from quire.library import metadata
from quire.library.ingest import lfs_pointers
from quire.library.ingest.checksums import PIECE_BYTES
from quire.library.ingest.pdf_search import FoundPdf
from quire.library.protocol import layout
from quire.model.errors import Missing, Reject, Stale
from quire.tools import git_lfs
from quire.tools.input_open import open_regular

SMALL_BYTES = 8 << 20  # up to which a source is sent in one request, on the condition that there is none


@contextmanager
def open_content(pdf: FoundPdf, environment: Mapping[str, str], scratch: Path | None) -> Iterator[Path]:
    """A file with the document's bytes, not verified yet. Blocks while it is fetched; raises Reject and
    Retry as `quire.tools.git_lfs` does.
    """
    if pdf.pointer is None:
        yield pdf.path
        return
    stored = lfs_pointers.find_object(pdf.pointer.oid, pdf.path.parent)
    if stored is not None:
        yield stored
        return
    if pdf.pointer.size is None:
        raise Reject(
            "the pointer lacks the size of its file, so git lfs cannot fetch it; check the pointer file",
            code="lfs_unavailable",
        )
    with tempfile.TemporaryDirectory(prefix="quire-lfs-", dir=scratch) as folder:
        target = Path(folder, "object")
        git_lfs.fetch(
            pdf.path, oid=pdf.pointer.oid, size=pdf.pointer.size, target=target, environment=environment
        )
        yield target


async def upload(blobs: Blobs, ident: str, pdf: FoundPdf, source: Path) -> int | None:
    """Store the file as the source of `ident`; returns its size, or None when there already was one. Raises
    Stale when the file has another hash, OSError when it cannot be read.
    """
    key = layout.raw(ident)
    below = pdf.below if source == pdf.path else 1
    size = (await asyncio.to_thread(source.stat)).st_size
    labels = metadata.encode_metadata(pdf.name, pdf.tags, size)
    if size <= SMALL_BYTES:
        body = await asyncio.to_thread(_read_small, source, below)
        _check_digest(hashlib.sha256(body).hexdigest(), ident)
        try:
            await blobs.put(
                key, body, content_type=metadata.CONTENT_TYPE, metadata=labels, condition=IfAbsent()
            )
        except Stale:
            return None
        return len(body)
    try:
        await blobs.head(key)
    except Missing:
        # Without a condition, which stores allow only for small objects: two uploads at once write the same
        # bytes.
        pieces = _read_verified(source, ident, below)
        await blobs.put(key, pieces, content_type=metadata.CONTENT_TYPE, metadata=labels)
        return size
    return None


async def _read_verified(source: Path, ident: str, below: int) -> AsyncIterator[bytes]:
    digest = hashlib.sha256()
    descriptor = await asyncio.to_thread(open_regular, source, below=below)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
            await asyncio.to_thread(digest.update, piece)
            yield piece
    _check_digest(digest.hexdigest(), ident)  # an error here, and the upload keeps nothing of it


def _read_small(source: Path, below: int) -> bytes:
    with open(open_regular(source, below=below), "rb") as file:  # noqa: PTH123 - a descriptor
        return file.read(SMALL_BYTES + PIECE_BYTES)  # a file that has grown has another hash


def _check_digest(found: str, wanted: str) -> None:
    if found != wanted:
        raise Stale(
            f"the content has the hash {found}, and {wanted} was expected; it was changed or damaged",
            code="hash_mismatch",
        )
