"""Uploads one file to an ingest service: announces it, sends it in one piece or in parts, confirms it.

Parts that the server has from an earlier run are not sent again if they are cut at the same places. Promises:
no byte is sent to an address that is not one of the file's own key; a file that changes while it is read is
refused, not confirmed. Bytes are read from disk as they are sent, whatever the size of the file.
"""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from quire.client.answers import ConfirmedPart, PartAddress, StartedUpload
from quire.client.http import FileAnnouncement, IngestClient
from quire.client.plan import PlannedFile
from quire.client.upload_addresses import check_address, check_key
from quire.model.cid import cid_of
from quire.model.errors import Lost, Misconfigured, Missing, Reject
from quire.tools.folder_scan import stamp
from quire.tools.input_open import open_regular
from quire.tools.shares import this_machine
from quire.tools.sniff import HEAD_BYTES, content_type

PIECE_BYTES = 256 << 10

Progress = Callable[[int], None]  # bytes sent since the last call; below zero when they are sent again
T = TypeVar("T")


class FileSender:
    """Sends files of one batch; several may be sent at once."""

    def __init__(self, client: IngestClient, batch_id: str, *, parts_at_once: int, sent: Progress) -> None:
        self._client = client
        self._batch_id = batch_id
        self._parts_at_once = parts_at_once
        self._sent = sent

    async def send(self, file: PlannedFile, *, resume: bool = False) -> int:
        """The number of bytes that had to be sent: with `resume` the server may have some of them. Raises
        Reject for this file alone, Retry when the server cannot be reached, Lost when the batch is gone.
        """
        async with _open_file(file) as descriptor:
            head = await asyncio.to_thread(os.pread, descriptor, HEAD_BYTES, 0)
            kind = content_type(file.source.name, head)
            announced = FileAnnouncement(
                file_name=file.source.name,
                file_size=file.size,
                logical_path=file.logical_path,
                content_type=kind,
                processing_config=dict(file.config),
                cid=await asyncio.to_thread(_hash_file, descriptor, file.size),
                resume=resume,
            )
            try:
                started = await self._client.start(self._batch_id, announced)
            except Missing as error:
                message = f"{error}: the batch is gone; the same command again opens a new one"
                raise Lost(message, code="unknown_batch") from error
            if resume and started.completed:
                self._sent(file.size)
                return 0
            check_key(started.r2_key, self._batch_id, file.logical_path)
            if started.upload_type == "simple":
                return await self._send_whole(started, descriptor, file, kind)
            return await self._send_parts(started, descriptor, file)

    async def _send_whole(self, started: StartedUpload, descriptor: int, file: PlannedFile, kind: str) -> int:
        if not started.presigned_url:
            raise _protocol_error("no address")
        check_address(started.presigned_url, started.r2_key)
        window = _FileRange(descriptor, 0, file.size, self._sent)
        await self._client.put(started.presigned_url, window, file.size, kind)
        _check_unchanged(file)
        await self._client.complete(self._batch_id, started.r2_key)
        return file.size

    async def _send_parts(self, started: StartedUpload, descriptor: int, file: PlannedFile) -> int:
        size = started.part_size or 0
        numbers = sorted(address.part_number for address in started.presigned_urls)
        if not started.upload_id or size < 1 or numbers != list(range(1, -(-file.size // size) + 1)):
            raise _protocol_error("addresses that do not fit the size of the file")
        for address in started.presigned_urls:
            check_address(address.url, started.r2_key)
        limit = asyncio.Semaphore(self._parts_at_once)
        have = {part.part_number: part for part in started.parts if part.etag}
        there = 0

        async def one(address: PartAddress) -> ConfirmedPart:
            nonlocal there
            begin = (address.part_number - 1) * size
            length = min(size, file.size - begin)
            found = have.get(address.part_number)
            if found is not None and found.size == length:
                there += length
                self._sent(length)
                return ConfirmedPart(part_number=found.part_number, etag=found.etag)
            async with limit:
                window = _FileRange(descriptor, begin, length, self._sent)
                etag = await self._client.put(address.url, window, length)
            if not etag:
                raise Reject(
                    "the store gave no ETag for a part, so it cannot be confirmed", code="server_refused"
                )
            return ConfirmedPart(part_number=address.part_number, etag=etag)

        parts = await gather_all([one(address) for address in started.presigned_urls])
        _check_unchanged(file)
        await self._client.complete(self._batch_id, started.r2_key, started.upload_id, parts)
        return file.size - there


async def gather_all(coroutines: Sequence[Awaitable[T]]) -> list[T]:
    """All results; the first error cancels the others and is raised alone."""
    tasks: list[asyncio.Future[T]] = [asyncio.ensure_future(one) for one in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def compute_cid(file: PlannedFile) -> str:
    """Raises Reject when it is no longer the file that was planned."""
    async with _open_file(file) as descriptor:
        return await asyncio.to_thread(_hash_file, descriptor, file.size)


class _FileRange:
    """A range of a file, read from its beginning as often as it must be sent."""

    def __init__(self, descriptor: int, begin: int, length: int, sent: Progress) -> None:
        self._descriptor = descriptor
        self._begin = begin
        self._end = begin + length
        self._sent = sent
        self._reported = 0

    def __call__(self) -> AsyncIterator[bytes]:
        self._report(-self._reported)
        return self._pieces()

    async def _pieces(self) -> AsyncIterator[bytes]:
        at = self._begin
        while at < self._end:
            wanted = min(PIECE_BYTES, self._end - at)
            piece = await asyncio.to_thread(os.pread, self._descriptor, wanted, at)
            if not piece:
                raise _changed_error()
            at += len(piece)
            yield piece
            self._report(len(piece))

    def _report(self, count: int) -> None:
        self._reported += count
        if count:
            self._sent(count)


@asynccontextmanager
async def _open_file(file: PlannedFile) -> AsyncIterator[int]:
    """A file of a network share is copied to this machine first, by a process that may be left behind."""
    with ExitStack() as opened:
        if this_machine().hold(file.source):
            copy = Path(opened.enter_context(TemporaryDirectory(prefix="quire-share-")), "copy")
            made = await asyncio.to_thread(this_machine().copy, file.source, copy, below=file.below)
            stamp_now = stamp(made.facts) if made.unchanged else ""
            descriptor = os.open(copy, os.O_RDONLY | os.O_CLOEXEC)
            opened.callback(os.close, descriptor)
        else:
            descriptor = open_regular(file.source, below=file.below)
            opened.callback(os.close, descriptor)
            stamp_now = stamp(os.fstat(descriptor))
        if stamp_now != file.stamp:
            raise _changed_error()
        yield descriptor


def _check_unchanged(file: PlannedFile) -> None:
    """What was copied from a share cannot have changed."""
    if not this_machine().hold(file.source) and stamp(os.lstat(file.source)) != file.stamp:
        raise _changed_error()


def _hash_file(descriptor: int, size: int) -> str:
    digest, at = hashlib.sha256(), 0
    while piece := os.pread(descriptor, PIECE_BYTES * 4, at):
        digest.update(piece)
        at += len(piece)
    if at != size:
        raise _changed_error()
    return cid_of(digest.digest())


def _changed_error() -> Reject:
    return Reject(
        "it was written to while quire was sending it; run again when it is at rest", code="changed"
    )


def _protocol_error(what: str) -> Misconfigured:
    return Misconfigured(
        f"the server answered files/start with {what}; it does not keep to the protocol", code="wrong_server"
    )
