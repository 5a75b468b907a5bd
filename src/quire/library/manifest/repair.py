"""Repairs the manifest: when manifest.json cannot be read, and when it lacks stored documents.

Promises: nothing unreadable is overwritten before a copy of it lies beside it; existing entries stay; the
metadata of a stored PDF is enough to find it again.
"""

import asyncio
from collections.abc import Callable, Mapping

from msgspec import Raw, Struct

from quire.library import metadata
from quire.library.context import LibraryContext
from quire.library.manifest import entries
from quire.library.manifest.entries import ManifestEntry
from quire.library.manifest.store import LibraryManifest, StoredManifest, format_time
from quire.library.protocol import layout
from quire.model.errors import Missing, Reject, Stale

_AT_ONCE = 16
_PER_ROUND = 500


class RepairResult(Struct, frozen=True, kw_only=True):
    """`copy` is the key of the broken manifest, if there was one; `kept` of its entries were readable."""

    broken: str = ""
    copy: str = ""
    kept: int = 0
    dropped: int = 0  # entries without a valid hash, or unreadable; the copy has them
    moved: int = 0  # additions merged into manifest.json


class RebuildResult(Struct, frozen=True, kw_only=True):
    """`nameless` documents have lost their metadata, as by a copy of the bucket: only their size is known."""

    stored: int = 0
    added: int = 0
    nameless: int = 0


async def repair_manifest(manifest: LibraryManifest, *, dry_run: bool = False) -> RepairResult:
    """Make manifest.json readable and complete. Raises Stale when another writer changes it meanwhile."""
    found = await manifest.load()
    if found.newer:
        raise Reject(
            f"{layout.MANIFEST} cannot be repaired: {found.why}. Upgrade quire.", code="manifest_broken"
        )
    whole = b"" if found.whole is None else found.whole.body
    there = entries.salvage(whole) if found.content is None else found.content.entries
    kept = {ident: raw for ident, raw in there.items() if _is_sound(ident, raw)}
    dropped = len(there) - len(kept)
    result = RepairResult(broken=found.why, kept=len(kept), dropped=dropped, moved=len(found.parts))
    if dry_run:
        return result
    copy = ""
    if found.why or dropped:
        copy = await _replace_broken(manifest, found, kept)
    await manifest.compact()
    return RepairResult(broken=found.why, copy=copy, kept=len(kept), dropped=dropped, moved=result.moved)


async def rebuild_manifest(
    manifest: LibraryManifest,
    *,
    force: bool = False,
    dry_run: bool = False,
    on_progress: Callable[[int], None] = lambda _: None,
) -> RebuildResult:
    """Add an entry for every stored PDF that has none, from its metadata; with `force` for all, which
    completes existing entries. A manifest that cannot be read is repaired first.
    """
    context = manifest.context
    view = await manifest.read()
    if view.problems and not dry_run:
        await repair_manifest(manifest)
        view = await manifest.read()
    stored = added = nameless = 0
    async for page in context.objects.pages(layout.RAW):
        known = [ident for seen in page if (ident := layout.parse_job(seen.key)) is not None]
        stored += len(known)
        wanted = [ident for ident in known if force or ident not in view]
        for at in range(0, len(wanted), _PER_ROUND):
            found = await _read_entries(context, wanted[at : at + _PER_ROUND])
            added += len(found)
            nameless += sum(not entry.paths for entry in found.values())
            if not dry_run:
                await manifest.add(found)
        on_progress(stored)
    if not dry_run:
        await manifest.compact()
    return RebuildResult(stored=stored, added=added, nameless=nameless)


async def _replace_broken(manifest: LibraryManifest, found: StoredManifest, kept: Mapping[str, Raw]) -> str:
    context = manifest.context
    copy = f"registry/manifest.broken-{context.ids.ulid()}.json"
    if found.whole is not None:
        await context.objects.create(copy, found.whole.body)
    if not await manifest.write(kept, found):
        raise Stale(
            f"{layout.MANIFEST} was changed by another writer; run the repair again. "
            f"A copy of the broken one is {copy}."
        )
    return copy


async def _read_entries(context: LibraryContext, idents: list[str]) -> dict[str, ManifestEntry]:
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(ident: str) -> tuple[str, ManifestEntry] | None:
        async with gate:
            try:
                stored = await context.blobs.head(layout.raw(ident))
            except Missing:
                return None
        said = metadata.decode_metadata(stored.metadata)
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
