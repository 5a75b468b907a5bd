"""Hydration writes results beside the PDFs they were made from: `<stem>.md` and `<stem>.assets/`.

Promises: existing files stay, unless `force`; a Markdown file appears whole, and after all its pictures; a
document without a result is no error, and one that cannot be written does not stop the others. Many
documents are looked up by one listing. Must not know: how hashes are found.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct, field

from quire.library import archives, listing
from quire.library.context import LibraryContext
from quire.library.protocol import layout
from quire.model.errors import Missing, QuireError, Reject

LISTED_FROM = 200  # documents; fewer are looked up one by one
AT_ONCE = 8


class HydrationSource(Struct, frozen=True):
    path: Path
    hash: str


class HydrationOutcome(StrEnum):
    WRITTEN = "written"  # in a dry run: would be written
    KEPT = "kept"  # the Markdown file exists
    MISSING = "missing"  # no result yet
    FAILED = "failed"


class HydratedFile(Struct, frozen=True, kw_only=True):
    path: Path
    hash: str
    outcome: HydrationOutcome
    assets: int = 0
    error: str = ""


class HydrationCounts(Struct, kw_only=True):
    found: int = 0
    outcomes: dict[HydrationOutcome, int] = field(default_factory=dict)

    def count(self, one: HydratedFile) -> None:
        self.found += 1
        self.outcomes[one.outcome] = self.outcomes.get(one.outcome, 0) + 1


async def hydrate(
    context: LibraryContext,
    wanted: AsyncIterable[HydrationSource],
    *,
    force: bool = False,
    dry_run: bool = False,
    on_each: Callable[[HydratedFile], None] = lambda _: None,
) -> HydrationCounts:
    """Raises when the store cannot be reached at all; an error of one document is part of its outcome."""
    counts = HydrationCounts()
    done = _ResultIndex(context)
    async for some in _split(wanted, LISTED_FROM):
        await done.prepare(some)
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(want: HydrationSource, gate: asyncio.Semaphore = gate) -> HydratedFile:
            async with gate:
                return await _hydrate_file(context, done, want, force=force, dry_run=dry_run)

        for hydrating in asyncio.as_completed([one(want) for want in some]):
            hydrated = await hydrating
            counts.count(hydrated)
            on_each(hydrated)
    return counts


class _ResultIndex:
    """Which documents have results. After a full first chunk all results are listed, once."""

    def __init__(self, context: LibraryContext) -> None:
        self._context = context
        self._listed: set[bytes] | None = None

    async def prepare(self, some: Sequence[HydrationSource]) -> None:
        if self._listed is None and len(some) >= LISTED_FROM:
            self._listed = {bytes.fromhex(job) async for job in listing.list_results(self._context.objects)}

    async def has(self, job: str) -> bool:
        if self._listed is not None:
            return bytes.fromhex(layout.check_hash(job)) in self._listed
        return await self._context.objects.head(layout.out(job)) is not None


async def _hydrate_file(
    context: LibraryContext, done: _ResultIndex, want: HydrationSource, *, force: bool, dry_run: bool
) -> HydratedFile:
    target = want.path.with_suffix(".md")
    try:
        if not force and target.exists():
            return HydratedFile(path=want.path, hash=want.hash, outcome=HydrationOutcome.KEPT)
        if not await done.has(want.hash):
            return HydratedFile(path=want.path, hash=want.hash, outcome=HydrationOutcome.MISSING)
        if dry_run:
            return HydratedFile(path=want.path, hash=want.hash, outcome=HydrationOutcome.WRITTEN)
        assets = await _write_result(context, want, target, force=force)
    except Missing:
        return HydratedFile(path=want.path, hash=want.hash, outcome=HydrationOutcome.MISSING)
    except (QuireError, OSError, UnicodeError) as error:
        return HydratedFile(path=want.path, hash=want.hash, outcome=HydrationOutcome.FAILED, error=str(error))
    return HydratedFile(path=want.path, hash=want.hash, outcome=HydrationOutcome.WRITTEN, assets=assets)


async def _write_result(context: LibraryContext, want: HydrationSource, target: Path, *, force: bool) -> int:
    # Beside the PDF, so that the files are only renamed in the end.
    scratch = Path(
        await asyncio.to_thread(tempfile.mkdtemp, prefix=".quire-hydrate-", dir=str(want.path.parent))
    )
    try:
        archive = scratch / "result.zip"
        await fetch_result(context, want.hash, archive)
        return await asyncio.to_thread(_unpack_beside, archive, scratch, target, force=force)
    finally:
        await asyncio.to_thread(archives.remove_folder, scratch)


def _unpack_beside(path: Path, scratch: Path, target: Path, *, force: bool) -> int:
    folder = target.with_name(f"{target.stem}.assets")
    with archives.ResultArchive(path) as archive:
        text = archives.relink_assets(archive.text(), quote(folder.name))
        unpacked = scratch / "assets"
        number = archive.unpack_assets(unpacked)
    for file in list(archives.list_files(unpacked)) if number else []:
        there = folder / file.relative_to(unpacked)
        if force or not there.exists():
            there.parent.mkdir(parents=True, exist_ok=True)
            # A link in the collection must not lead foreign files to another place.
            if there.parent.resolve() != target.parent.resolve() / there.parent.relative_to(target.parent):
                raise Reject(f"{folder.name} is, or holds, a link; remove it first", code="linked_folder")
            file.replace(there)
    fresh = scratch / "text.md"
    fresh.write_text(text, "utf-8")
    fresh.replace(target)
    return number


async def fetch_result(context: LibraryContext, job: str, target: Path) -> int:
    """Write the result of a job to a file; returns its size. Raises Missing when there is none."""
    size = 0
    file = await asyncio.to_thread(target.open, "wb")
    try:
        async for piece in context.blobs.stream(layout.out(job)):
            size += len(piece)
            await asyncio.to_thread(file.write, piece)
    finally:
        await asyncio.to_thread(file.close)
    return size


async def _split(wanted: AsyncIterable[HydrationSource], most: int) -> AsyncIterator[list[HydrationSource]]:
    some: list[HydrationSource] = []
    async for want in wanted:
        some.append(want)
        if len(some) == most:
            yield some
            some = []
    if some:
        yield some
