"""Names and tags that copies of a bucket have lost, written again with the stored PDFs.

Promises: the bytes stay what they are: their hash is taken on the way, and nothing is written when they are
not those that the name says; what still has its name is left alone. Must not know: where names come from.
"""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path, PurePosixPath

from msgspec import Struct

from quire.model.errors import Missing, QuireError, Reject
from quire.queues.bucket import layout
from quire.service.library.room import Room

AT_ONCE = 4
CONTENT_TYPE = "binary/octet-stream"


class Name(Struct, frozen=True):
    """What the index knows of a document."""

    path: str
    tags: list[str]


class Fate(StrEnum):
    WRITTEN = "written"  # in a dry run: would be
    KEPT = "kept"  # it has its name
    NAMELESS = "nameless"  # the index does not know it either
    MISSING = "missing"  # no such source
    FAILED = "failed"


class Relabelled(Struct, frozen=True, kw_only=True):
    job: str
    fate: Fate
    name: str = ""
    error: str = ""


class Relabelling(Struct, frozen=True, kw_only=True):
    """`known` looks into the index; `described` makes metadata of name, tags and size."""

    known: Callable[[str], Name | None]
    described: Callable[[str, list[str], int], Mapping[str, str]]
    force: bool = False
    dry_run: bool = False


async def relabel(room: Room, jobs: Iterable[str], how: Relabelling) -> AsyncIterator[Relabelled]:
    some = list(jobs)
    for at in range(0, len(some), AT_ONCE):
        for told in await asyncio.gather(*(_one(room, job, how) for job in some[at : at + AT_ONCE])):
            yield told


async def _one(room: Room, job: str, how: Relabelling) -> Relabelled:
    try:
        stored = await room.blobs.head(layout.raw(job))
        if stored.metadata.get("original-name") and not how.force:
            return Relabelled(job=job, fate=Fate.KEPT, name=stored.metadata["original-name"])
        known = how.known(job)
        if known is None:
            return Relabelled(job=job, fate=Fate.NAMELESS)
        name = PurePosixPath(known.path).name
        if not how.dry_run:
            await _rewritten(room, job, how.described(name, known.tags, stored.size))
    except Missing:
        return Relabelled(job=job, fate=Fate.MISSING)
    except (QuireError, OSError) as error:
        return Relabelled(job=job, fate=Fate.FAILED, error=str(error))
    return Relabelled(job=job, fate=Fate.WRITTEN, name=name)


async def _rewritten(room: Room, job: str, metadata: Mapping[str, str]) -> None:
    with tempfile.TemporaryDirectory(prefix="quire-relabel-") as folder:
        path = Path(folder, "source.pdf")
        digest = hashlib.sha256()
        file = await asyncio.to_thread(path.open, "wb")
        try:
            async for piece in room.blobs.stream(layout.raw(job)):
                digest.update(piece)
                await asyncio.to_thread(file.write, piece)
        finally:
            await asyncio.to_thread(file.close)
        if digest.hexdigest() != job:
            raise Reject(
                f"its bytes have the SHA-256 {digest.hexdigest()}; remove it and ingest the file again",
                code="wrong_hash",
            )
        await room.blobs.put(layout.raw(job), path, content_type=CONTENT_TYPE, metadata=metadata)
