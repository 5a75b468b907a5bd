"""Ingest: each PDF is stored once, indexed under every path, and queued for conversion.

Promises: a document that is waiting, processing, failed, dead or done is left as it is; a known document
that is neither queued nor done is queued again; a file that fails is reported with a reason and the rest
continues. Killed at any moment and run again, the result is the same: the source is stored first, then the
job is queued, and the manifest is completed from what is found.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct, field, structs

from quire.blobs.port import IfAbsent
from quire.library import metadata
from quire.library.context import LibraryContext
from quire.library.ingest import pdf_search, upload
from quire.library.ingest.checksums import Checksums, ChecksumStore
from quire.library.ingest.pdf_search import Finding, FoundPdf, OtherFile, RefusedFile
from quire.library.listing import LISTED_FROM, JobStatusIndex
from quire.library.manifest import entries, recovery
from quire.library.manifest.entries import ManifestEntry
from quire.library.manifest.search import ManifestView
from quire.library.manifest.store import CHEAP_BYTES, LibraryManifest, format_time
from quire.library.protocol import layout
from quire.library.protocol.bodies import DEFAULT_TIER
from quire.library.protocol.operator import JobStatus
from quire.model.errors import Misconfigured, QuireError, Reject, Retry, Stale
from quire.tools.shares import this_machine

INDEXED_AT_ONCE = 500
_MAX_FAILURES = 10_000  # listed; the rest is only counted
_UNREACHABLE = 20  # documents in a row that the store did not take, before the run ends
_LARGE_AT_ONCE = 2  # each takes tens of megabytes of memory


class IngestOptions(Struct, frozen=True, kw_only=True):
    """`recovery` is a folder for entries that could not be written to the manifest. `sums` is a file for the
    checksums of files without extended attributes. `environment` is for git, `scratch` for what it fetches.
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
    """What was done so far; in a dry run, what would be done."""

    found: int = 0
    uploaded: int = 0
    queued: int = 0
    skipped: int = 0
    duplicates: int = 0  # of the skipped: the same bytes as another file of this run
    standings: Counter[str] = field(default_factory=Counter)  # of the skipped: their status
    failed: int = 0
    failures: list[RefusedFile] = field(default_factory=list)
    others: int = 0  # files without a PDF name
    indexed: int = 0  # documents with a new or changed entry
    uploaded_bytes: int = 0
    problems: list[str] = field(default_factory=list)  # with the manifest; the documents are safe


async def ingest(
    context: LibraryContext,
    given: Sequence[str | Path],
    options: IngestOptions | None = None,
    on_progress: Callable[[IngestCounts], None] = lambda _: None,
) -> IngestCounts:
    """Raises Reject for a path that does not exist or an unknown priority, Retry when the store cannot be
    reached any more, Misconfigured when an operator must do something first.
    """
    chosen = options or IngestOptions()
    layout.todo(chosen.tier, "0" * 64)  # refuses an unknown priority before anything is done
    run = _Run(context, chosen, on_progress)
    try:
        await run.ingest(pdf_search.find_pdfs(given))
    finally:
        run.close()
    return run.counts


class _Run:
    def __init__(
        self, context: LibraryContext, options: IngestOptions, on_progress: Callable[[IngestCounts], None]
    ) -> None:
        self.counts = IngestCounts()
        self._context = context
        self._options = options
        self._on_progress = on_progress
        self._manifest = LibraryManifest(context)
        self._statuses = JobStatusIndex(context)
        self._view = ManifestView()
        self._checksum_store = _open_checksum_store(options)
        self._checksums = Checksums(
            context.clock.now, cache=self._checksum_store, remember=not options.dry_run
        )
        self._hashing = asyncio.Semaphore(options.hashed_at_once)
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)
        self._settled: set[str] = set()
        self._busy: dict[str, asyncio.Event] = {}
        self._pending: dict[str, ManifestEntry] = {}
        self._writing = asyncio.Lock()
        self._unreachable = 0

    def close(self) -> None:
        if self._checksum_store is not None:
            self._checksum_store.close()

    async def ingest(self, found: Iterator[Finding]) -> None:
        first, self.counts.others = await asyncio.to_thread(_read_first, found)
        if sum(isinstance(one, FoundPdf) for one in first) >= LISTED_FROM:
            await self._statuses.load()
        if not self._options.dry_run and self._options.recovery is not None:
            await self._recover(self._options.recovery)
        self._view = await self._manifest.read()
        self.counts.problems += self._view.problems
        try:
            await self._process_all(_read_in_thread(chain(first, found)))
        finally:
            await self._write_entries()
        if not self._options.dry_run:
            await self._manifest.compact_when_due(cheap_bytes=CHEAP_BYTES)

    async def _process_all(self, found: AsyncIterator[Finding]) -> None:
        """Several tasks at once, each taking the next file when it is free."""
        turn = asyncio.Lock()

        async def work() -> None:
            while True:
                async with turn:
                    one = await anext(found, None)
                if one is None:
                    return
                await self._process(one)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(max(1, self._options.at_once)):
                    group.create_task(work())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _process(self, one: Finding) -> None:
        match one:
            case OtherFile():
                self.counts.others += 1
                return
            case RefusedFile():
                self._fail(one)
            case FoundPdf():
                self.counts.found += 1
                await self._ingest_pdf(one)
        self._on_progress(self.counts)

    async def _ingest_pdf(self, pdf: FoundPdf) -> None:
        try:
            async with _on_this_machine(pdf, self._options.scratch) as near:
                await self._settle_twice(near)
            self._unreachable = 0
        except Misconfigured:
            raise
        except Retry as error:
            self._unreachable += 1
            if self._unreachable >= _UNREACHABLE:
                raise
            self._fail(RefusedFile(path=pdf.relative, code=error.code, reason=str(error)))
        except QuireError as error:
            self._fail(RefusedFile(path=pdf.relative, code=error.code, reason=str(error)))
        except OSError as error:
            reason = f"it cannot be read ({error.strerror or error})"
            self._fail(RefusedFile(path=pdf.relative, code="unreadable", reason=reason))

    async def _settle_twice(self, pdf: FoundPdf) -> None:
        try:
            await self._settle(pdf, reread=False)
        except Stale:
            if pdf.pointer is not None:
                raise
            await self._settle(pdf, reread=True)  # changed since its checksum was taken: once more

    async def _settle(self, pdf: FoundPdf, *, reread: bool) -> None:
        ident, size = await self._identify(pdf, reread=reread)
        while (busy := self._busy.get(ident)) is not None:
            await busy.wait()
        done = self._busy[ident] = asyncio.Event()
        try:
            await self._store_and_queue(pdf, ident)
        finally:
            del self._busy[ident]
            done.set()
        self._settled.add(ident)
        await self._add_entry(pdf, ident, size)

    async def _identify(self, pdf: FoundPdf, *, reread: bool) -> tuple[str, int]:
        if pdf.pointer is not None:
            return pdf.pointer.oid, pdf.pointer.size or 0
        async with self._hashing:
            found = await asyncio.to_thread(self._checksums.sum, pdf.path, reread=reread, below=pdf.below)
        return found.digest, found.size

    async def _store_and_queue(self, pdf: FoundPdf, ident: str) -> None:
        if ident in self._settled:
            self.counts.duplicates += 1
            self.counts.skipped += 1
            return
        status = await self._statuses.status(ident)
        if status not in {JobStatus.RAW, JobStatus.UNKNOWN}:
            self.counts.standings[status.value] += 1
            self.counts.skipped += 1
            return
        if status is JobStatus.UNKNOWN:
            await self._upload(pdf, ident)
        await self._queue(ident)

    async def _upload(self, pdf: FoundPdf, ident: str) -> None:
        if self._options.dry_run:
            self.counts.uploaded += 1
            return
        with ExitStack() as stack:
            opened = upload.open_content(pdf, self._options.environment, self._options.scratch)
            path = await asyncio.to_thread(stack.enter_context, opened)
            async with self._large if pdf.size > upload.SMALL_BYTES else _NoLimit():
                size = await upload.upload(self._context.blobs, ident, pdf, path)
        if size is not None:
            self.counts.uploaded += 1
            self.counts.uploaded_bytes += size

    async def _queue(self, ident: str) -> None:
        """Write an empty todo marker, as published tools do; an existing one is left alone."""
        if not self._options.dry_run:
            key = layout.todo(self._options.tier, ident)
            try:
                await self._context.blobs.put(
                    key, b"", content_type=metadata.CONTENT_TYPE, condition=IfAbsent()
                )
            except Stale:
                self.counts.standings[JobStatus.QUEUED.value] += 1
                self.counts.skipped += 1
                return
        self.counts.queued += 1

    async def _add_entry(self, pdf: FoundPdf, ident: str, size: int) -> None:
        """Add the document to the manifest, if its path or anything else about it is new there."""
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
        self.counts.indexed += waiting is None
        self._pending[ident] = both
        if len(self._pending) >= INDEXED_AT_ONCE:
            await self._write_entries()

    async def _write_entries(self) -> None:
        async with self._writing:
            batch, self._pending = self._pending, {}
            if not batch or self._options.dry_run:
                return
            try:
                await self._manifest.add(batch)
            except QuireError as error:
                await self._save_entries(batch, error)
            else:
                for ident, entry in batch.items():
                    self._view.entries[ident] = entries.encode_entry(entry)

    async def _save_entries(self, batch: Mapping[str, ManifestEntry], error: QuireError) -> None:
        what = f"{len(batch)} entries could not be written to the manifest ({error})"
        folder = self._options.recovery
        if folder is None:
            self.counts.problems.append(f"{what}; ingest the same files again to complete it.")
            return
        now = format_time(self._context.clock.now())
        try:
            path = await asyncio.to_thread(recovery.save, folder, batch, self._context.ids, now)
        except OSError as second:
            self.counts.problems.append(
                f"{what}, nor saved in {folder} ({second}); ingest the same files again."
            )
        else:
            self.counts.problems.append(f"{what}; they are saved in {path} and written by the next ingest.")

    async def _recover(self, folder: Path) -> None:
        try:
            await recovery.recover(self._manifest, folder)
        except (Retry, Reject, OSError) as error:
            self.counts.problems.append(f"Entries saved in {folder} could not be written yet: {error}")

    def _fail(self, failure: RefusedFile) -> None:
        self.counts.failed += 1
        if len(self.counts.failures) < _MAX_FAILURES:
            self.counts.failures.append(failure)


@asynccontextmanager
async def _on_this_machine(pdf: FoundPdf, scratch: Path | None) -> AsyncIterator[FoundPdf]:
    """A PDF of a network share is copied here first, by a process that may be left behind."""
    if pdf.pointer is not None or not this_machine().hold(pdf.path):
        yield pdf
        return
    with TemporaryDirectory(prefix="quire-share-", dir=scratch) as folder:
        copy = Path(folder, "copy")
        made = await asyncio.to_thread(this_machine().copy, pdf.path, copy, below=pdf.below)
        if not made.unchanged:
            raise Stale("the file changed while it was read; try again later", code="changed")
        yield structs.replace(pdf, path=copy, below=1)


def _open_checksum_store(options: IngestOptions) -> ChecksumStore | None:
    """In a dry run only an existing one: opening would create it."""
    if options.sums is None or (options.dry_run and not options.sums.exists()):
        return None
    return ChecksumStore(options.sums)


class _NoLimit:
    """In the place of a semaphore, without a limit."""

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *_: object) -> None: ...


def _read_first(found: Iterator[Finding]) -> tuple[list[Finding], int]:
    """Enough files to know whether there are many; other files are only counted."""
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
    """Read in a thread, some files at a time: reading may block."""
    while some := await asyncio.to_thread(lambda: list(islice(found, 64))):
        for one in some:
            yield one
