"""Uploads the files of a folder into an open batch: bytes into the blob store, a record into the ledger.

Several files are read at once; records are written many per transaction, and only after the bytes are stored.
A file that changes or vanishes while it is read is refused with that reason.
"""

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence

from quire.blobs import content
from quire.blobs.port import Blobs
from quire.ledger.port import Upload, UploadStore
from quire.model.batch import Batch
from quire.model.errors import Misconfigured, Missing, QuireError, Retry
from quire.tools.folder_scan import ScannedFile, changed_at_ns, stamp
from quire.tools.sniff import content_type

CONCURRENT_FILES = 8
GROUP_FILES = 256
GROUP_BYTES = 256 << 20
SETTLED_SECONDS = 2.0
HEAD_BYTES = 512
_CHANGED = ("changed", "it was written to while quire was reading it; run again when it is at rest")

Progress = Callable[[int], None]  # files uploaded since the last call


async def upload_files(
    batch_no: int,
    found: Sequence[ScannedFile],
    *,
    uploads: UploadStore,
    blobs: Blobs,
    progress: Progress,
    stop: asyncio.Event,
    earlier: Batch | None = None,
) -> bool:
    """Store and record every file that is not recorded yet; delete the records of files that are gone.

    False when it was stopped before the end; files recorded by then are not read again. Neither is a file
    that has not changed since an `earlier` batch.
    """
    reader = _Reader(blobs, await _load_trusted(uploads, earlier))
    recorded = await _load_uploads(uploads, batch_no)
    await uploads.forget_uploads(batch_no, recorded.keys() - {one.path for one in found})
    fresh = [one for one in found if not _is_uploaded(recorded.get(one.path), one)]
    progress(len(found) - len(fresh))
    for group in _group_files(fresh):
        if stop.is_set():
            return False
        limit = asyncio.Semaphore(CONCURRENT_FILES)
        records = await asyncio.gather(*(reader.read(one, limit) for one in group))
        await uploads.record_uploads(batch_no, records)
        progress(len(records))
    return True


async def is_unchanged(batch_no: int, found: Sequence[ScannedFile], *, uploads: UploadStore) -> bool:
    """Whether the folder holds the same files as when they were uploaded into this batch."""
    recorded = await _load_uploads(uploads, batch_no)
    return len(recorded) == len(found) and all(_is_same(recorded.get(one.path), one) for one in found)


async def _load_uploads(uploads: UploadStore, batch_no: int) -> dict[str, Upload]:
    recorded: dict[str, Upload] = {}
    after = ""
    while page := await uploads.list_uploads(batch_no, after=after, limit=5000):
        recorded.update((upload.path, upload) for upload in page)
        after = page[-1].path
    return recorded


def _is_same(upload: Upload | None, found: ScannedFile) -> bool:
    if upload is None:
        return False
    if found.state != "found":
        return upload.state == found.state and upload.error_class == found.error_class
    return upload.stamp == found.stamp


def _is_uploaded(upload: Upload | None, found: ScannedFile) -> bool:
    """Whether a file need not be read again. A file that could not be read is tried again."""
    return _is_same(upload, found) and (found.state != "found" or upload is None or upload.state == "taken")


def _group_files(found: Sequence[ScannedFile]) -> Iterator[Sequence[ScannedFile]]:
    """Groups bounded in files and in bytes: a run can be stopped between two of them."""
    group: list[ScannedFile] = []
    size = 0
    for one in found:
        if group and (len(group) >= GROUP_FILES or size + one.size > GROUP_BYTES):
            yield group
            group, size = [], 0
        group.append(one)
        size += one.size
    if group:
        yield group


async def _load_trusted(uploads: UploadStore, earlier: Batch | None) -> dict[str, Upload]:
    """Uploads of an earlier batch whose files had not been written to shortly before it: a file written
    within the same tick of the clock would look unchanged.
    """
    if earlier is None:
        return {}
    settled = (earlier.created_at - SETTLED_SECONDS) * 1e9
    recorded = await _load_uploads(uploads, earlier.no)
    return {
        path: upload
        for path, upload in recorded.items()
        if upload.state == "taken" and changed_at_ns(upload.stamp) < settled
    }


class _Reader:
    def __init__(self, blobs: Blobs, trusted: dict[str, Upload]) -> None:
        self._blobs = blobs
        self._trusted = trusted

    async def read(self, found: ScannedFile, limit: asyncio.Semaphore) -> Upload:
        if found.state != "found":
            return _record_refusal(found, found.state, found.error_class, found.reason)
        async with limit:
            known = self._trusted.get(found.path)
            if known is not None and known.stamp == found.stamp and await self._is_stored(known):
                return known
            try:
                return await _store_file(found, self._blobs)
            except (QuireError, OSError) as error:
                return _record_refusal(found, "failed", *_explain_failure(error))

    async def _is_stored(self, known: Upload) -> bool:
        try:
            return (await self._blobs.head(known.key)).size == known.size
        except Missing:
            return False


def _explain_failure(error: QuireError | OSError) -> tuple[str, str]:
    """Error class and reason of a file that could not be read. Raises what is the store's fault."""
    match error:
        case Retry(code="source_changed"):
            return _CHANGED
        case Retry() | Misconfigured():
            raise error
        case Missing() | FileNotFoundError():
            return "vanished", "it was removed while quire was reading the folder"
        case PermissionError():
            return "unreadable", "permission denied; make it readable for the user who runs quire"
        case OSError():
            return "unreadable", f"it cannot be read: {error.strerror or error}"
        case QuireError():
            return error.code, str(error)


async def _store_file(found: ScannedFile, blobs: Blobs) -> Upload:
    head = await asyncio.to_thread(_read_head, found)
    stored = await content.put_file(blobs, found.source)
    status = await asyncio.to_thread(os.stat, found.source)
    if stamp(status) != found.stamp or stored.size != found.size:
        return _record_refusal(found, "failed", *_CHANGED)
    return Upload(
        path=found.path,
        state="taken",
        size=stored.size,
        stamp=found.stamp,
        key=stored.key,
        digest=stored.digest,
        content_type=content_type(found.source.name, head),
    )


def _read_head(found: ScannedFile) -> bytes:
    with found.source.open("rb") as file:
        return file.read(HEAD_BYTES)


def _record_refusal(found: ScannedFile, state: str, error_class: str, reason: str) -> Upload:
    return Upload(
        path=found.path,
        state=state,
        size=found.size,
        stamp=found.stamp,
        error_class=error_class,
        reason=reason,
    )
