"""Putting the library's index right: when manifest.json cannot be read, and when it lacks stored documents.

Promises: nothing that cannot be read is overwritten before a copy of it lies beside it; entries that are
there stay; what is told in a stored PDF's metadata is enough to find it again.
"""

import asyncio
from collections.abc import Callable, Mapping

from msgspec import Raw, Struct

from quire.library import metadata as headers
from quire.library.context import LibraryContext
from quire.library.manifest import entries
from quire.library.manifest.entries import ManifestEntry
from quire.library.manifest.store import LibraryManifest, StoredManifest, format_time
from quire.library.protocol import layout
from quire.model.errors import Missing, Reject, Stale

_AT_ONCE = 16
_PER_ROUND = 500


class RepairResult(Struct, frozen=True, kw_only=True):
    """`copy` is where the broken index lies now, if there was one; `kept` of its entries were readable."""

    broken: str = ""
    copy: str = ""
    kept: int = 0
    dropped: int = 0  # entries under what is no hash, or that say nothing; they are in the copy
    moved: int = 0  # additions that are in manifest.json now


class RebuildResult(Struct, frozen=True, kw_only=True):
    """`nameless` have lost their metadata, as by a copy of the bucket: only their size is known."""

    stored: int = 0
    added: int = 0
    nameless: int = 0


async def repair(room: LibraryContext, manifest: LibraryManifest, *, dry_run: bool = False) -> RepairResult:
    """Make manifest.json readable and complete. Raises Stale when somebody writes it at the same time."""
    found = await manifest.open()
    if found.newer:
        raise Reject(
            f"{layout.MANIFEST} is not to be repaired: {found.why}. Upgrade quire.", code="manifest_broken"
        )
    whole = b"" if found.whole is None else found.whole.body
    there = entries.salvage(whole) if found.book is None else found.book.entries
    kept = {ident: raw for ident, raw in there.items() if _is_sound(ident, raw)}
    dropped = len(there) - len(kept)
    told = RepairResult(broken=found.why, kept=len(kept), dropped=dropped, moved=len(found.parts))
    if dry_run:
        return told
    copy = ""
    if found.why or dropped:
        copy = await _replace_broken(room, manifest, found, kept)
    await manifest.compact()
    return RepairResult(broken=found.why, copy=copy, kept=len(kept), dropped=dropped, moved=told.moved)


async def rebuild(
    room: LibraryContext,
    manifest: LibraryManifest,
    *,
    force: bool = False,
    dry_run: bool = False,
    on_progress: Callable[[int], None] = lambda _: None,
) -> RebuildResult:
    """An entry for every stored PDF that has none, from what is told with it; with `force` for all, which
    adds what they lack. An index that cannot be read is repaired first.
    """
    view = await manifest.read()
    if view.problems and not dry_run:
        await repair(room, manifest)
        view = await manifest.read()
    stored = added = nameless = 0
    async for page in room.objects.pages(layout.RAW):
        known = [ident for seen in page if (ident := layout.parse_job(seen.key)) is not None]
        stored += len(known)
        wanted = [ident for ident in known if force or ident not in view]
        for at in range(0, len(wanted), _PER_ROUND):
            told = await _read_entries(room, wanted[at : at + _PER_ROUND])
            added += len(told)
            nameless += sum(not entry.paths for entry in told.values())
            if not dry_run:
                await manifest.add(told)
        on_progress(stored)
    if not dry_run:
        await manifest.compact()
    return RebuildResult(stored=stored, added=added, nameless=nameless)


async def _replace_broken(room: LibraryContext, manifest: LibraryManifest, found: StoredManifest, kept: Mapping[str, Raw]) -> str:
    copy = f"registry/manifest.broken-{room.ids.ulid()}.json"
    if found.whole is not None:
        await room.objects.create(copy, found.whole.body)
    if not await manifest.write(kept, found):
        raise Stale(
            f"{layout.MANIFEST} was written by somebody else meanwhile; look at it again. "
            f"A copy of what it was is {copy}."
        )
    return copy


async def _read_entries(room: LibraryContext, idents: list[str]) -> dict[str, ManifestEntry]:
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(ident: str) -> tuple[str, ManifestEntry] | None:
        async with gate:
            try:
                stored = await room.blobs.head(layout.raw(ident))
            except Missing:
                return None
        said = headers.decode_metadata(stored.metadata)
        entry = ManifestEntry(
            paths=[said.name] if said.name else [],
            size=stored.size,
            tags=said.tags,
            ingested_at=format_time(stored.modified_at),
        )
        return ident, entry

    found = await asyncio.gather(*map(one, idents))
    return dict(pair for pair in found if pair is not None)


def _is_sound(ident: str, raw: Raw) -> bool:
    return entries.is_hash(ident) and entries.decode_entry(raw) is not None
