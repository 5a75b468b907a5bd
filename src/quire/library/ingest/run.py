"""Putting PDFs into the library: each is stored once, indexed under every path, and waits to be converted.

Promises: whatever is there already (waiting, being worked on, failed, given up, done) is left as it is; a
document that is known but neither waits nor has a result waits again; one that fails is told with a reason
and the rest goes on. Killed at any moment and run again, the result is the same: first the source is stored,
then the job waits, and the index is completed from what is found.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path

from msgspec import Struct, field

from quire.blobs.port import IfAbsent
from quire.library import metadata
from quire.library.context import LibraryContext
from quire.library.ingest import pdf_search, upload
from quire.library.ingest.checksums import Checksums, ChecksumStore
from quire.library.ingest.pdf_search import (
    Finding,
    FoundPdf,
    OtherFile,
    RefusedFile,
)
from quire.library.listing import LISTED_FROM, JobStatusIndex
from quire.library.manifest import entries, recovery
from quire.library.manifest.entries import ManifestEntry
from quire.library.manifest.search import ManifestView
from quire.library.manifest.store import CHEAP_BYTES, LibraryManifest, format_time
from quire.library.protocol import layout
from quire.library.protocol.bodies import DEFAULT_TIER
from quire.library.protocol.operator import JobStatus
from quire.model.errors import Misconfigured, QuireError, Reject, Retry, Stale

INDEXED_AT_ONCE = 500
_MOST_FAILURES = 10_000  # told one by one; the rest is counted
_UNREACHABLE = 20  # documents in a row that the store did not take, before the run is given up
_LARGE_AT_ONCE = 2  # each holds some tens of megabytes on its way up


class IngestOptions(Struct, frozen=True, kw_only=True):
    """`recovery` is a folder for entries that the index could not take. `sums` is a file that remembers the
    hashes of files that cannot carry them. `environment` is for git, as `scratch` is for what it fetches.
    """

    tier: str = DEFAULT_TIER
    dry_run: bool = False
    at_once: int = 8
    hashed_at_once: int = 4
    recovery: Path | None = None
    sums: Path | None = None
    scratch: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


class IngestCounts(Struct, kw_only=True):
    """What has become of everything so far. In a dry run: what would."""

    found: int = 0
    uploaded: int = 0
    queued: int = 0
    skipped: int = 0
    duplicates: int = 0  # of the skipped: the same bytes as another one of this run
    standings: Counter[str] = field(default_factory=Counter)  # of the skipped: where they stand
    failed: int = 0
    failures: list[RefusedFile] = field(default_factory=list)
    others: int = 0  # files that are no PDFs by their name
    indexed: int = 0  # documents whose entry is new or has changed
    uploaded_bytes: int = 0
    problems: list[str] = field(default_factory=list)  # with the index; the documents are safe


async def ingest(
    context: LibraryContext,
    given: Sequence[str | Path],
    options: IngestOptions | None = None,
    on_progress: Callable[[IngestCounts], None] = lambda _: None,
) -> IngestCounts:
    """Raises Reject for a source that does not exist or an unknown tier, Retry when the store cannot be
    reached any more, Misconfigured where a person must do something first.
    """
    chosen = options or IngestOptions()
    layout.todo(chosen.tier, "0" * 64)  # an unknown tier is told before anything is done
    run = _Run(context, chosen, on_progress)
    try:
        await run.all(pdf_search.find_pdfs(given))
    finally:
        run.close()
    return run.tally


class _Run:
    def __init__(
        self, context: LibraryContext, options: IngestOptions, on_progress: Callable[[IngestCounts], None]
    ) -> None:
        self.tally = IngestCounts()
        self._context = context
        self._options = options
        self._on_progress = on_progress
        self._manifest = LibraryManifest(context)
        self._census = JobStatusIndex(context)
        self._view = ManifestView()
        self._book = _open_checksum_store(options)
        self._checksums = Checksums(context.clock.now, book=self._book, remember=not options.dry_run)
        self._hashing = asyncio.Semaphore(options.hashed_at_once)
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)
        self._settled: set[str] = set()
        self._busy: dict[str, asyncio.Event] = {}
        self._pending: dict[str, ManifestEntry] = {}
        self._writing = asyncio.Lock()
        self._in_vain = 0

    def close(self) -> None:
        if self._book is not None:
            self._book.close()

    async def all(self, found: Iterator[Finding]) -> None:
        first, self.tally.others = await asyncio.to_thread(_read_first, found)
        if sum(isinstance(one, FoundPdf) for one in first) >= LISTED_FROM:
            await self._census.take()
        if not self._options.dry_run and self._options.recovery is not None:
            await self._recover(self._options.recovery)
        self._view = await self._manifest.read()
        self.tally.problems += self._view.problems
        try:
            await self._share(_read_in_thread(chain(first, found)))
        finally:
            await self._index()
        if not self._options.dry_run:
            await self._manifest.compact_when_due(cheap_bytes=CHEAP_BYTES)

    async def _share(self, found: AsyncIterator[Finding]) -> None:
        """Several at work, each taking the next one when it is free."""
        turn = asyncio.Lock()

        async def work() -> None:
            while True:
                async with turn:
                    one = await anext(found, None)
                if one is None:
                    return
                await self._judge(one)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(max(1, self._options.at_once)):
                    group.create_task(work())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _judge(self, one: Finding) -> None:
        match one:
            case OtherFile():
                self.tally.others += 1
                return
            case RefusedFile():
                self._fail(one)
            case FoundPdf():
                self.tally.found += 1
                await self._take(one)
        self._on_progress(self.tally)

    async def _take(self, pdf: FoundPdf) -> None:
        try:
            try:
                await self._settle(pdf, anew=False)
            except Stale:
                if pdf.pointer is not None:
                    raise
                await self._settle(pdf, anew=True)  # changed since its sum was taken: once more
            self._in_vain = 0
        except Misconfigured:
            raise
        except Retry as error:
            self._in_vain += 1
            if self._in_vain >= _UNREACHABLE:
                raise
            self._fail(RefusedFile(path=pdf.relative, code=error.code, reason=str(error)))
        except QuireError as error:
            self._fail(RefusedFile(path=pdf.relative, code=error.code, reason=str(error)))
        except OSError as error:
            reason = f"it cannot be read ({error.strerror or error})"
            self._fail(RefusedFile(path=pdf.relative, code="unreadable", reason=reason))

    async def _settle(self, pdf: FoundPdf, *, anew: bool) -> None:
        ident, size = await self._identify(pdf, anew=anew)
        while (busy := self._busy.get(ident)) is not None:
            await busy.wait()
        done = self._busy[ident] = asyncio.Event()
        try:
            await self._place(pdf, ident)
        finally:
            del self._busy[ident]
            done.set()
        self._settled.add(ident)
        await self._note(pdf, ident, size)

    async def _identify(self, pdf: FoundPdf, *, anew: bool) -> tuple[str, int]:
        if pdf.pointer is not None:
            return pdf.pointer.oid, pdf.pointer.size or 0
        async with self._hashing:
            found = await asyncio.to_thread(self._checksums.sum, pdf.path, anew=anew)
        return found.digest, found.size

    async def _place(self, pdf: FoundPdf, ident: str) -> None:
        if ident in self._settled:
            self.tally.duplicates += 1
            self.tally.skipped += 1
            return
        standing = await self._census.standing(ident)
        if standing not in {JobStatus.RAW, JobStatus.UNKNOWN}:
            self.tally.standings[standing.value] += 1
            self.tally.skipped += 1
            return
        if standing is JobStatus.UNKNOWN:
            await self._upload(pdf, ident)
        await self._queue(ident)

    async def _upload(self, pdf: FoundPdf, ident: str) -> None:
        if self._options.dry_run:
            self.tally.uploaded += 1
            return
        with ExitStack() as stack:
            opened = upload.open_content(pdf, self._options.environment, self._options.scratch)
            path = await asyncio.to_thread(stack.enter_context, opened)
            async with self._large if pdf.size > upload.SMALL_BYTES else _Open():
                size = await upload.upload(self._context.blobs, ident, pdf, path)
        if size is not None:
            self.tally.uploaded += 1
            self.tally.uploaded_bytes += size

    async def _queue(self, ident: str) -> None:
        """A marker without content, as published tools write it; one that is there is left alone."""
        if not self._options.dry_run:
            key = layout.todo(self._options.tier, ident)
            try:
                await self._context.blobs.put(
                    key, b"", content_type=metadata.CONTENT_TYPE, condition=IfAbsent()
                )
            except Stale:
                self.tally.standings[JobStatus.QUEUED.value] += 1
                self.tally.skipped += 1
                return
        self.tally.queued += 1

    async def _note(self, pdf: FoundPdf, ident: str, size: int) -> None:
        """Into the index, where this path or anything else about it is new there."""
        new = ManifestEntry(
            paths=[pdf.relative],
            size=size,
            tags=pdf.tags,
            ingested_at=format_time(self._context.clock.now()),
            source=pdf.source,
        )
        waiting = self._pending.get(ident)
        known = waiting or self._view.get(ident)
        both = new if known is None else entries.merge(known, new)
        if both == known:
            return
        self.tally.indexed += waiting is None
        self._pending[ident] = both
        if len(self._pending) >= INDEXED_AT_ONCE:
            await self._index()

    async def _index(self) -> None:
        async with self._writing:
            batch, self._pending = self._pending, {}
            if not batch or self._options.dry_run:
                return
            try:
                await self._manifest.add(batch)
            except QuireError as error:
                await self._set_aside(batch, error)
            else:
                for ident, entry in batch.items():
                    self._view.entries[ident] = entries.encode_entry(entry)

    async def _set_aside(self, batch: Mapping[str, ManifestEntry], error: QuireError) -> None:
        what = f"{len(batch)} entries could not be written to the manifest ({error})"
        folder = self._options.recovery
        if folder is None:
            self.tally.problems.append(f"{what}; ingest the same again to complete it.")
            return
        now = format_time(self._context.clock.now())
        try:
            path = await asyncio.to_thread(recovery.save, folder, batch, self._context.ids, now)
        except OSError as second:
            self.tally.problems.append(f"{what}, nor kept in {folder} ({second}); ingest the same again.")
        else:
            self.tally.problems.append(f"{what}; they are kept in {path} and written by the next ingest.")

    async def _recover(self, folder: Path) -> None:
        try:
            await recovery.recover(self._manifest, folder)
        except (Retry, Reject, OSError) as error:
            self.tally.problems.append(f"Entries kept in {folder} could not be written yet: {error}")

    def _fail(self, failure: RefusedFile) -> None:
        self.tally.failed += 1
        if len(self.tally.failures) < _MOST_FAILURES:
            self.tally.failures.append(failure)


def _open_checksum_store(options: IngestOptions) -> ChecksumStore | None:
    """In a dry run only one that is there: it would be made by being asked."""
    if options.sums is None or (options.dry_run and not options.sums.exists()):
        return None
    return ChecksumStore(options.sums)


class _Open:
    """A gate that is never shut."""

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *_: object) -> None: ...


def _read_first(found: Iterator[Finding]) -> tuple[list[Finding], int]:
    """As many as tell whether there are many; other files, of which there may be any number, are counted."""
    some: list[Finding] = []
    pdfs = others = 0
    while pdfs < LISTED_FROM and (one := next(found, None)) is not None:
        pdfs += isinstance(one, FoundPdf)
        if isinstance(one, OtherFile):
            others += 1
        else:
            some.append(one)
    return some, others


async def _read_in_thread(found: Iterator[Finding]) -> AsyncIterator[Finding]:
    """From a thread, some at a time: looking into files may block."""
    while some := await asyncio.to_thread(lambda: list(islice(found, 64))):
        for one in some:
            yield one
