"""Brings the files of a folder into a batch that is flowing already: while later folders are scanned and
stored, the documents of earlier ones are worked on.

A folder's names are listed before any of its files gets a task, and the intake is a source of tasks: killed
at any moment, the same command goes on where it was, and the batch does not end before all files are in it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct

from quire.batches.context import RunContext
from quire.batches.submission import build_file, close_intake
from quire.batches.uploads import FileReader, is_same, load_uploads, refuse
from quire.engine.flow import follow
from quire.ledger.intake import FolderNames, ListedName, TakenFile
from quire.ledger.port import Upload
from quire.model.backoff import backoff_seconds
from quire.model.batch import Batch
from quire.model.errors import Unavailable
from quire.model.files import fold
from quire.model.plan import Plan
from quire.tools.folder_scan import FolderListing, ScannedFile

READERS = 8
FIRST_FILES = 4  # stored and recorded before any other is read: the first result must not wait for many
CHUNK_FILES = 8  # few enough for one thread: the readers are as many threads as the disk can use
CHUNK_BYTES = 4 << 20
WAITING_CHUNKS = 64
RECORDED_AT_ONCE = 500
NAMES_AT_ONCE = 5000
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0

T = TypeVar("T")
Takes = Callable[[ScannedFile], bool]
_Numbered = tuple[int, ScannedFile]


class IntakeProgress(Struct):
    """What the scan has found so far. `whole`: it has come to its end."""

    files: int = 0
    total_bytes: int = 0
    passed_over: int = 0
    whole: bool = False


class Intake:
    """Brings files into one batch. `changed` is called when there are new tasks, `scanned` when the scan has
    come further, `stored` with the number of files that were stored since.
    """

    def __init__(
        self,
        batch: Batch,
        plan: Plan,
        context: RunContext,
        reader: FileReader,
        *,
        changed: Callable[[], None],
        scanned: Callable[[IntakeProgress], None],
        stored: Callable[[int], None],
        stop: asyncio.Event,
    ) -> None:
        self._batch = batch
        self._plan = plan
        self._context = context
        self._reader = reader
        self._changed = changed
        self._scanned = scanned
        self._stored = stored
        self._stop = stop
        self._progress = IntakeProgress()
        self._next_chunk_files = FIRST_FILES
        self._to_read: asyncio.Queue[Sequence[_Numbered] | None] = asyncio.Queue(WAITING_CHUNKS)
        self._to_record: asyncio.Queue[Sequence[TakenFile] | None] = asyncio.Queue(WAITING_CHUNKS)

    async def run(self, listings: Iterator[FolderListing], takes: Takes = lambda _: True) -> bool:
        """List, store and record; then write the manifest and close the intake. Of the files that are not
        taken only the names are listed. False when it was stopped before the end. Raises Stale when the batch
        has ended meanwhile.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._list_folders(listings, takes))
                tasks.create_task(self._read_all())
                tasks.create_task(self._record_all())
        except* Exception as group:  # noqa: BLE001 - raised again
            raise _first(group) from None
        if self._stop.is_set():
            return False
        context = self._context
        await self._until_answered(
            lambda: close_intake(
                self._batch,
                uploads=context.uploads,
                intake=context.intake,
                blobs=context.blobs,
                clock=context.clock,
            )
        )
        self._changed()
        return True

    async def _list_folders(self, listings: Iterator[FolderListing], takes: Takes) -> None:
        while not self._stop.is_set():
            listing = await asyncio.to_thread(next, listings, None)
            if listing is None:
                break
            await self._list_folder(listing, takes)
        self._progress.whole = not self._stop.is_set()
        self._scanned(self._progress)
        await self._to_read.put(None)

    async def _list_folder(self, listing: FolderListing, takes: Takes) -> None:
        found = [one for one in listing.files if one.state == "found"]
        taken = {one.path: one for one in found if takes(one)}
        refused = [one for one in listing.files if one.state != "found" and takes(one)]
        names = FolderNames(
            awaited=list(taken),
            names=[one.path for one in found if one.path not in taken]
            + [f"{one}/" for one in listing.folders],
            refusals=[refuse(one) for one in refused],
        )
        listed = await self._until_answered(
            lambda: self._context.intake.list_folder(self._batch.no, names, now=self._context.clock.now())
        )
        self._count(taken.values(), refused)
        waiting = [(one.no, taken[one.path]) for one in listed if one.path in taken and one.role != "input"]
        self._stored(len(taken) - len(waiting) + len(refused))
        for chunk in _chunk(waiting, self._next_chunk_files):
            self._next_chunk_files = CHUNK_FILES
            await self._to_read.put(chunk)

    def _count(self, taken: Iterable[ScannedFile], refused: Sequence[ScannedFile]) -> None:
        sizes = [one.size for one in taken]
        self._progress.files += len(sizes) + len(refused)
        self._progress.total_bytes += sum(sizes)
        self._progress.passed_over += len(refused)
        self._scanned(self._progress)

    async def _read_all(self) -> None:
        first = await self._to_read.get()
        if first is not None and not self._stop.is_set():
            await self._record(await self._read_chunk(first))
        if first is None:
            await self._to_read.put(None)
        async with asyncio.TaskGroup() as readers:
            for _ in range(READERS):
                readers.create_task(self._read_chunks())
        await self._to_record.put(None)

    async def _read_chunks(self) -> None:
        while (chunk := await self._to_read.get()) is not None:
            if not self._stop.is_set():
                await self._to_record.put(await self._read_chunk(chunk))
        await self._to_read.put(None)  # for the next reader

    async def _read_chunk(self, chunk: Sequence[_Numbered]) -> list[TakenFile]:
        uploads = await self._reader.read_several([one for _, one in chunk])
        return [self._take(no, upload) for (no, _), upload in zip(chunk, uploads, strict=True)]

    def _take(self, no: int, upload: Upload) -> TakenFile:
        if upload.state != "taken":
            return TakenFile(no, upload, None)
        file = build_file(upload)
        return TakenFile(no, upload, file, follow(self._plan, file, no, 0))

    async def _record_all(self) -> None:
        """As many at once as have been stored since the last transaction."""
        async for files in _gather(self._to_record):
            await self._record(files)

    async def _record(self, files: Sequence[TakenFile]) -> None:
        await self._until_answered(
            lambda: self._context.intake.take_files(self._batch.no, files, now=self._context.clock.now())
        )
        self._stored(len(files))
        self._changed()

    async def _until_answered(self, work: Callable[[], Awaitable[T]]) -> T:
        """Repeat while the ledger is away, with growing pauses, as the engine does."""
        failures = 0
        while True:
            try:
                return await work()
            except Unavailable:
                failures += 1
                if self._stop.is_set():
                    raise
            await asyncio.sleep(
                backoff_seconds(failures, first=FIRST_PAUSE_SECONDS, longest=LONGEST_PAUSE_SECONDS)
            )


async def can_continue(batch: Batch, listings: Sequence[FolderListing], context: RunContext) -> bool:
    """Whether the folder is as it was while its files were being brought in: the folders that were listed
    have the same names, and the files that were taken have not changed.
    """
    found = {one.path: one for listing in listings for one in listing.files}
    recorded = await load_uploads(context.uploads, batch.no)
    for path, upload in recorded.items():
        was_read = path in found and found[path].state == "found" and upload.state == "failed"
        if not was_read and (path not in found or not is_same(upload, found[path])):
            return False
    names = {path for path, one in found.items() if one.state == "found"}
    names |= {f"{path}/" for listing in listings for path in listing.folders}
    listed = {one.path async for one in _list_names(batch, context)}
    folders = {_folder_of(path) for path in listed}
    return listed == {path for path in names if _folder_of(path) in folders}


async def _list_names(batch: Batch, context: RunContext) -> AsyncIterator[ListedName]:
    after = 0
    while page := await context.intake.list_names(batch.no, after=after, limit=NAMES_AT_ONCE):
        after = page[-1].no
        for one in page:
            yield one


def _folder_of(path: str) -> str:
    return fold(path.removesuffix("/").rpartition("/")[0])


def _chunk(files: Sequence[_Numbered], first: int) -> Iterator[Sequence[_Numbered]]:
    """Chunks of files that are read together; `first` is the most that the first one may have."""
    chunk: list[_Numbered] = []
    size, most = 0, first
    for one in files:
        if chunk and (len(chunk) >= most or size + one[1].size > CHUNK_BYTES):
            yield chunk
            chunk, size, most = [], 0, CHUNK_FILES
        chunk.append(one)
        size += one[1].size
    if chunk:
        yield chunk


async def _gather(queue: "asyncio.Queue[Sequence[TakenFile] | None]") -> AsyncIterator[list[TakenFile]]:
    """What waits in the queue, together; ends with None."""
    ended = False
    while not ended:
        chunk = await queue.get()
        gathered: list[TakenFile] = []
        while chunk is not None:
            gathered += chunk
            if queue.empty() or len(gathered) >= RECORDED_AT_ONCE:
                break
            chunk = queue.get_nowait()
        ended = chunk is None
        if gathered:
            yield gathered


def _first(group: BaseExceptionGroup) -> BaseException:
    """Of several tasks that failed together, the reason of the first."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
