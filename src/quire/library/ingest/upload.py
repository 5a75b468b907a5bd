"""A document's bytes on their way into the bucket: from its own file, or from where Git LFS has them.

Promises: what is stored under a hash has that hash, whatever happens to the file meanwhile: it is counted as
it goes, and nobody sees it before the end was right; a source that is there is not replaced. The file and its
work tree are only read.
"""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from quire.blobs.port import Blobs, IfAbsent
from quire.library import metadata as headers
from quire.library.ingest import lfs_pointers
from quire.library.ingest.checksums import PIECE_BYTES
from quire.library.ingest.pdf_search import FoundPdf
from quire.library.protocol import layout
from quire.model.errors import Missing, Reject, Stale
from quire.tools import git_lfs

SMALL_BYTES = 8 << 20  # up to which a source goes up in one request, on the condition that there is none


@contextmanager
def open_content(pdf: FoundPdf, environment: Mapping[str, str], scratch: Path | None) -> Iterator[Path]:
    """A file with the document's bytes, as far as its name says. Blocks while it is fetched; raises Reject
    and Retry as `quire.tools.git_lfs` does.
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
            "the pointer does not say how large the file is, so git lfs cannot get it; see what happened "
            "to the pointer",
            code="lfs_unavailable",
        )
    with tempfile.TemporaryDirectory(prefix="quire-lfs-", dir=scratch) as folder:
        target = Path(folder, "object")
        git_lfs.fetch(
            pdf.path, oid=pdf.pointer.oid, size=pdf.pointer.size, target=target, environment=environment
        )
        yield target


async def upload(blobs: Blobs, ident: str, pdf: FoundPdf, source: Path) -> int | None:
    """Store it as the source of `ident`; its size, or None when there was one already. Raises Stale when the
    file has another hash, OSError when it cannot be read.
    """
    key = layout.raw(ident)
    size = (await asyncio.to_thread(source.stat)).st_size
    said = headers.encode_metadata(pdf.name, pdf.tags, size)
    if size <= SMALL_BYTES:
        body = await asyncio.to_thread(_read_small, source)
        _check_digest(hashlib.sha256(body).hexdigest(), ident)
        try:
            await blobs.put(key, body, content_type=headers.CONTENT_TYPE, metadata=said, condition=IfAbsent())
        except Stale:
            return None
        return len(body)
    try:
        await blobs.head(key)
    except Missing:
        # Without a condition, which stores allow for small objects alone: two who do this at once write the
        # same bytes.
        pieces = _read_verified(source, ident)
        await blobs.put(key, pieces, content_type=headers.CONTENT_TYPE, metadata=said)
        return size
    return None


async def _read_verified(source: Path, ident: str) -> AsyncIterator[bytes]:
    digest = hashlib.sha256()
    file: IO[bytes] = await asyncio.to_thread(source.open, "rb", 0)
    with file:
        while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
            await asyncio.to_thread(digest.update, piece)
            yield piece
    _check_digest(digest.hexdigest(), ident)  # an error here, and the upload keeps nothing of it


def _read_small(source: Path) -> bytes:
    with source.open("rb") as file:
        return file.read(SMALL_BYTES + PIECE_BYTES)  # one that has grown has another hash


def _check_digest(found: str, wanted: str) -> None:
    if found != wanted:
        raise Stale(
            f"the content has the hash {found}, and {wanted} was expected; it was changed or damaged",
            code="hash_mismatch",
        )
