"""Stores the files of a folder for a batch, and compares a folder with what a batch has recorded of it.

A file that changes or vanishes while it is read is refused with that reason.
"""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from quire.blobs import content
from quire.blobs.port import Blobs
from quire.ledger.port import Upload, UploadStore
from quire.model.batch import Batch
from quire.model.errors import Misconfigured, Missing, QuireError, Retry
from quire.tools.folder_scan import ScannedFile, changed_at_ns, stamp
from quire.tools.input_open import NotRegularError, open_regular
from quire.tools.shares import this_machine
from quire.tools.sniff import content_type

SETTLED_SECONDS = 2.0
HEAD_BYTES = 512
_CHANGED = ("changed", "it was written to while quire was reading it; run again when it is at rest")


async def is_unchanged(batch_no: int, found: Sequence[ScannedFile], *, uploads: UploadStore) -> bool:
    """Whether the folder holds the same files as when they were uploaded into this batch."""
    recorded = await load_uploads(uploads, batch_no)
    return len(recorded) == len(found) and all(is_same(recorded.get(one.path), one) for one in found)


async def load_uploads(uploads: UploadStore, batch_no: int) -> dict[str, Upload]:
    recorded: dict[str, Upload] = {}
    after = ""
    while page := await uploads.list_uploads(batch_no, after=after, limit=5000):
        recorded.update((upload.path, upload) for upload in page)
        after = page[-1].path
    return recorded


def is_same(upload: Upload | None, found: ScannedFile) -> bool:
    if upload is None:
        return False
    if found.state != "found":
        return upload.state == found.state and upload.error_class == found.error_class
    return upload.stamp == found.stamp


async def load_trusted(uploads: UploadStore, earlier: Batch | None) -> dict[str, Upload]:
    """Uploads of an earlier batch whose files had not been written to shortly before it: a file written
    within the same tick of the clock would look unchanged.
    """
    if earlier is None:
        return {}
    settled = (earlier.created_at - SETTLED_SECONDS) * 1e9
    recorded = await load_uploads(uploads, earlier.no)
    return {
        path: upload
        for path, upload in recorded.items()
        if upload.state == "taken" and changed_at_ns(upload.stamp) < settled
    }


class FileReader:
    """Stores files of a folder. Those that have not changed since an earlier batch are not read again."""

    def __init__(self, blobs: Blobs, trusted: dict[str, Upload]) -> None:
        self._blobs = blobs
        self._trusted = trusted

    async def read(self, found: ScannedFile) -> Upload:
        """Never waits for a network share for longer than a limit."""
        if found.state != "found":
            return refuse(found)
        known = self._trusted.get(found.path)
        if known is not None and known.stamp == found.stamp and await self._is_stored(known):
            return known
        try:
            if this_machine().hold(found.source):
                return await _store_from_share(found, self._blobs)
            return (await _store_files([found], self._blobs))[0]
        except (QuireError, OSError) as error:
            return _record_refusal(found, "failed", *_explain_failure(error))

    async def read_several(self, found: Sequence[ScannedFile]) -> list[Upload]:
        """Small files together: a hop for each would cost as much as reading it."""
        plain = not any(one.path in self._trusted or this_machine().hold(one.source) for one in found)
        if len(found) > 1 and plain:
            # What is wrong with one of them is found out when they are read one by one.
            with suppress(QuireError, OSError):
                return await _store_files(found, self._blobs)
        return [await self.read(one) for one in found]

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
        case NotRegularError():
            return "changed", f"{error.strerror} while quire was reading the folder; run again"
        case Missing() | FileNotFoundError():
            return "vanished", "it was removed while quire was reading the folder"
        case PermissionError():
            return "unreadable", "permission denied; make it readable for the user who runs quire"
        case OSError():
            return "unreadable", f"it cannot be read: {error.strerror or error}"
        case QuireError():
            return error.code, str(error)


class _FoundFile(NamedTuple):
    """A file of a folder, as `content.put_files` takes it."""

    found: ScannedFile

    @property
    def name(self) -> str:
        return self.found.source.name

    def open_descriptor(self) -> int:
        try:
            return open_regular(self.found.source, below=self.found.below)
        except NotRegularError as error:
            raise Retry(f"{self.name!r} is no regular file any more", code="source_changed") from error


async def _store_from_share(found: ScannedFile, blobs: Blobs) -> Upload:
    """By way of a copy on this machine, which another process makes."""
    with TemporaryDirectory(prefix="quire-share-") as folder:
        copy = Path(folder, "copy")
        made = await asyncio.to_thread(this_machine().copy, found.source, copy, below=found.below)
        (head,) = await asyncio.to_thread(_read_heads, [ScannedFile(path=found.path, source=copy)])
        (stored,) = await content.put_files(blobs, [copy], owned=True)
    stamp_now = stamp(made.facts) if made.unchanged else ""
    return _build_upload(found, head, stored, stamp_now)


async def _store_files(found: Sequence[ScannedFile], blobs: Blobs) -> list[Upload]:
    heads = await asyncio.to_thread(_read_heads, found)
    stored = await content.put_files(blobs, [_FoundFile(one) for one in found])
    stamps = await asyncio.to_thread(_read_stamps, found)
    return [_build_upload(*one) for one in zip(found, heads, stored, stamps, strict=True)]


def _build_upload(found: ScannedFile, head: bytes, stored: content.Content, stamp_now: str) -> Upload:
    if stamp_now != found.stamp or stored.size != found.size:
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


def _read_heads(found: Sequence[ScannedFile]) -> list[bytes]:
    heads = []
    for one in found:
        descriptor = open_regular(one.source, below=one.below)
        try:
            heads.append(os.read(descriptor, HEAD_BYTES))
        finally:
            os.close(descriptor)
    return heads


def _read_stamps(found: Sequence[ScannedFile]) -> list[str]:
    stamps = []
    for one in found:
        descriptor = open_regular(one.source, below=one.below)
        try:
            stamps.append(stamp(os.fstat(descriptor)))
        finally:
            os.close(descriptor)
    return stamps


def refuse(found: ScannedFile) -> Upload:
    """The record of a file that a scan did not accept."""
    return _record_refusal(found, found.state, found.error_class, found.reason)


def _record_refusal(found: ScannedFile, state: str, error_class: str, reason: str) -> Upload:
    return Upload(
        path=found.path,
        state=state,
        size=found.size,
        stamp=found.stamp,
        error_class=error_class,
        reason=reason,
    )
