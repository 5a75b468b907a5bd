"""Takes files in: bytes into the blob store by content, a note of each in the ledger.

Several files are read at once; notes are written many per transaction, and only after the bytes are safe.
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
from quire.tools.folder_scan import Found, changed_at_ns, stamp
from quire.tools.sniff import content_type

READING_AT_ONCE = 8
NOTES_AT_ONCE = 256
BYTES_AT_ONCE = 256 << 20
AT_REST_SECONDS = 2.0
HEAD_BYTES = 512
_CHANGED = ("changed", "it was written to while quire was reading it; run again when it is at rest")

Progress = Callable[[int], None]  # files taken in since the last call


async def take_in(
    batch_no: int,
    found: Sequence[Found],
    *,
    ledger: UploadStore,
    blobs: Blobs,
    progress: Progress,
    stop: asyncio.Event,
    earlier: Batch | None = None,
) -> bool:
    """Store and note every file that is not noted yet; forget notes of files that are no longer there.

    False when it was stopped before the end; what was noted by then need not be read again. A file that has
    not changed since an `earlier` batch took it in is not read again either.
    """
    reader = _Reader(blobs, await _trusted(ledger, earlier))
    noted = await _noted(ledger, batch_no)
    await ledger.forget_uploads(batch_no, noted.keys() - {one.path for one in found})
    fresh = [one for one in found if not _known(noted.get(one.path), one)]
    progress(len(found) - len(fresh))
    for group in _groups(fresh):
        if stop.is_set():
            return False
        limit = asyncio.Semaphore(READING_AT_ONCE)
        uploads = await asyncio.gather(*(reader.take(one, limit) for one in group))
        await ledger.record_uploads(batch_no, uploads)
        progress(len(uploads))
    return True


async def same_as_noted(batch_no: int, found: Sequence[Found], *, ledger: UploadStore) -> bool:
    """Is what lies in the folder now what this batch took in?"""
    noted = await _noted(ledger, batch_no)
    return len(noted) == len(found) and all(_unchanged(noted.get(one.path), one) for one in found)


async def _noted(ledger: UploadStore, batch_no: int) -> dict[str, Upload]:
    noted: dict[str, Upload] = {}
    after = ""
    while page := await ledger.list_uploads(batch_no, after=after, limit=5000):
        noted.update((upload.path, upload) for upload in page)
        after = page[-1].path
    return noted


def _unchanged(upload: Upload | None, found: Found) -> bool:
    if upload is None:
        return False
    if found.state != "found":
        return upload.state == found.state and upload.error_class == found.error_class
    return upload.stamp == found.stamp


def _known(upload: Upload | None, found: Found) -> bool:
    """Need not be read again; what could not be read gets another chance."""
    return _unchanged(upload, found) and (found.state != "found" or upload is None or upload.state == "taken")


def _groups(found: Sequence[Found]) -> Iterator[Sequence[Found]]:
    """Bounded in files and in bytes: between two groups one can stop."""
    group: list[Found] = []
    size = 0
    for one in found:
        if group and (len(group) >= NOTES_AT_ONCE or size + one.size > BYTES_AT_ONCE):
            yield group
            group, size = [], 0
        group.append(one)
        size += one.size
    if group:
        yield group


async def _trusted(ledger: UploadStore, earlier: Batch | None) -> dict[str, Upload]:
    """What an earlier batch took in, of files that had been at rest by then: a file written within the same
    tick of the clock would look unchanged.
    """
    if earlier is None:
        return {}
    at_rest = (earlier.created_at - AT_REST_SECONDS) * 1e9
    noted = await _noted(ledger, earlier.no)
    return {
        path: upload
        for path, upload in noted.items()
        if upload.state == "taken" and changed_at_ns(upload.stamp) < at_rest
    }


class _Reader:
    def __init__(self, blobs: Blobs, trusted: dict[str, Upload]) -> None:
        self._blobs = blobs
        self._trusted = trusted

    async def take(self, found: Found, limit: asyncio.Semaphore) -> Upload:
        if found.state != "found":
            return _noted_as(found, found.state, found.error_class, found.reason)
        async with limit:
            known = self._trusted.get(found.path)
            if known is not None and known.stamp == found.stamp and await self._is_stored(known):
                return known
            try:
                return await _read(found, self._blobs)
            except (QuireError, OSError) as error:
                return _noted_as(found, "failed", *_trouble(error))

    async def _is_stored(self, known: Upload) -> bool:
        try:
            return (await self._blobs.head(known.key)).size == known.size
        except Missing:
            return False


def _trouble(error: QuireError | OSError) -> tuple[str, str]:
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


async def _read(found: Found, blobs: Blobs) -> Upload:
    head = await asyncio.to_thread(_look, found)
    stored = await content.put_file(blobs, found.source)
    status = await asyncio.to_thread(os.stat, found.source)
    if stamp(status) != found.stamp or stored.size != found.size:
        return _noted_as(found, "failed", *_CHANGED)
    return Upload(
        path=found.path,
        state="taken",
        size=stored.size,
        stamp=found.stamp,
        key=stored.key,
        digest=stored.digest,
        content_type=content_type(found.source.name, head),
    )


def _look(found: Found) -> bytes:
    with found.source.open("rb") as file:
        return file.read(HEAD_BYTES)


def _noted_as(found: Found, state: str, error_class: str, reason: str) -> Upload:
    return Upload(
        path=found.path,
        state=state,
        size=found.size,
        stamp=found.stamp,
        error_class=error_class,
        reason=reason,
    )
