"""Sends the files of an upload with several senders at once, the smallest first.

Promise: a file that cannot be sent fails alone; an error that concerns all files, such as a server that does
not answer for several files in a row, ends the upload.
"""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Protocol

from quire.client.answers import StoredFile
from quire.client.file_upload import FileSender, compute_cid
from quire.client.plan import ExcludedFile, PlannedFile
from quire.model.errors import QuireError, Reject, Retry
from quire.tools.folder_scan import changed_at_ns

AWAY_AFTER_FILES = 3


class FileObserver(Protocol):
    """Called with the outcome of each file."""

    def settled(self, file: PlannedFile, *, there: bool, failure: ExcludedFile | None) -> None: ...


class SenderPool:
    """Each `work` sends one file after the other; several run at once."""

    def __init__(
        self,
        sender: FileSender,
        observer: FileObserver,
        stop: asyncio.Event,
        opened_at: float,
        stored: Mapping[str, StoredFile],
    ) -> None:
        self._sender = sender
        self._observer = observer
        self._stop = stop
        self._opened_at_ns = opened_at * 1e9
        self._stored = stored
        self._away = 0
        self.sent = 0
        self.sent_bytes = 0
        self.there = 0
        self.failures: list[ExcludedFile] = []

    async def work(self, waiting: Iterator[PlannedFile]) -> None:
        for file in waiting:
            if self._stop.is_set():
                return
            await self._settle(file)

    async def _settle(self, file: PlannedFile) -> None:
        there, failure, sent_bytes = False, None, 0
        try:
            there = await self._is_there(file)
            if not there:
                sent_bytes = await self._sender.send(file, resume=self._is_begun(file))
        except (QuireError, OSError) as error:
            failure = self._explain_failure(file, error)
            self.failures.append(failure)
        else:
            self._away = 0
            self.there += there
            self.sent += not there
            self.sent_bytes += sent_bytes
        self._observer.settled(file, there=there, failure=failure)

    async def _is_there(self, file: PlannedFile) -> bool:
        """Whether the server has the file. One written to since the batch was opened is compared by
        content.
        """
        stored = self._stored.get(file.logical_path)
        if stored is None or stored.status != "completed" or not is_same_size(file, stored):
            return False
        if changed_at_ns(file.stamp) < self._opened_at_ns:
            return True
        return stored.cid is not None and stored.cid == await compute_cid(file)

    def _is_begun(self, file: PlannedFile) -> bool:
        """Whether an earlier run announced the file: parts of it may be on the server."""
        stored = self._stored.get(file.logical_path)
        return stored is not None and stored.status != "completed" and is_same_size(file, stored)

    def _explain_failure(self, file: PlannedFile, error: QuireError | OSError) -> ExcludedFile:
        """Why this file failed. Raises the error when it concerns all files."""
        match error:
            case Retry():
                self._away += 1
                if self._away >= AWAY_AFTER_FILES:
                    raise error
                code, reason = error.code, str(error)
            case Reject():
                code, reason = error.code, str(error)
            case QuireError():
                raise error
            case FileNotFoundError():
                code, reason = "vanished", "it was removed while quire was at work"
            case OSError():
                code, reason = "unreadable", f"it cannot be read: {error.strerror or error}"
        return ExcludedFile(path=file.path, state="failed", error_class=code, reason=reason)


def is_same_size(file: PlannedFile, stored: StoredFile | None) -> bool:
    return stored is not None and stored.file_size == file.size
