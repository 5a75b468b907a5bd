"""Presigned uploads into the local store: Quire signs the URLs, and its own routes receive the bodies.

Promise: everything in `blobs.presigned_uploads`, and the SHA-256 of each blob in its metadata (`sha256`), so
that it need not be read again. Nothing is kept in memory alone: uploads and URLs outlive the process. The
blocking work is in `files` and `parts`. Must not know: HTTP, settings.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

from quire.blobs import keys
from quire.blobs.labels import Labels, check_labels
from quire.blobs.local.arrivals import Arrivals, Meter
from quire.blobs.local.files import BlobFiles
from quire.blobs.local.parts import DIGEST_LABEL, PartFiles, etag_of
from quire.blobs.local.spool import PIECE_BYTES, Spool
from quire.blobs.local.tokens import Grant, Tokens
from quire.blobs.local.tree import translate_errors
from quire.blobs.port import BlobInfo
from quire.blobs.presigned_rules import check_count, check_seconds
from quire.blobs.presigned_uploads import CompletedPart, StoredPart, UploadGuard
from quire.model.clock import Clock
from quire.model.errors import Reject

ROUTE = "blobs"
OUTPUT = "output"  # the name in a grant for a worker's output

_JoinRequest = tuple[str, str, tuple[CompletedPart, ...]]


class LocalPresignedUploads:
    def __init__(
        self, root: Path, *, secret: bytes, clock: Clock, max_blob_bytes: int, max_part_bytes: int
    ) -> None:
        """`root` is the existing folder of a `LocalBlobs`. `secret` signs the URLs: at least 32 bytes, the
        same in all processes. Raises Misconfigured.
        """
        self._tokens = Tokens(secret, clock)
        self._clock = clock
        self._max_blob_bytes = max_blob_bytes
        self._max_part_bytes = max_part_bytes
        with translate_errors("open", str(root)):
            self._files = BlobFiles(root.resolve(strict=True))
        self._parts = PartFiles(self._files)
        self._arrivals = Arrivals()
        self._joining: dict[_JoinRequest, asyncio.Task[BlobInfo]] = {}

    def __repr__(self) -> str:
        return f"LocalPresignedUploads({str(self._files.tree.root)!r})"

    async def sign_put(
        self, key: str, *, seconds: int, base_url: str, announced: bool = True, size: int | None = None
    ) -> str:
        until, name, most = self._expires_at(seconds), "" if announced else OUTPUT, _to_grant(size)
        return self._url(base_url, Grant("PUT", keys.check(key), until, name=name, size=most))

    async def sign_get(self, key: str, *, seconds: int, base_url: str, name: str) -> str:
        return self._url(base_url, Grant("GET", keys.check(key), self._expires_at(seconds), name=name))

    async def begin(self, key: str, *, content_type: str, size: int | None = None) -> str:
        labels = check_labels(content_type, None)
        return await asyncio.to_thread(self._parts.begin, keys.check(key), labels.content_type, size)

    async def sign_parts(
        self, key: str, upload_id: str, *, parts: int, seconds: int, base_url: str, size: int | None = None
    ) -> list[str]:
        keys.check(key)
        until, most = self._expires_at(seconds), _to_grant(size)
        return [
            self._url(base_url, Grant("PUT", key, until, upload_id, number, size=most))
            for number in range(1, check_count(parts) + 1)
        ]

    async def list_parts(self, key: str, upload_id: str) -> list[StoredPart]:
        return await asyncio.to_thread(self._parts.list_parts, keys.check(key), upload_id)

    async def join(self, key: str, upload_id: str, parts: Sequence[CompletedPart]) -> BlobInfo:
        """Equal requests share one join. It continues when the caller is cancelled: joining a large upload
        takes longer than some clients wait, and they ask again.
        """
        request = (keys.check(key), upload_id, tuple(parts))
        task = self._joining.get(request)
        if task is None:
            joining = asyncio.to_thread(self._parts.join, *request, max_bytes=self._max_blob_bytes)
            task = self._joining[request] = asyncio.create_task(joining)
            task.add_done_callback(lambda done: self._finish_join(request, done))
        return await asyncio.shield(task)

    def _finish_join(self, request: _JoinRequest, done: asyncio.Task[BlobInfo]) -> None:
        del self._joining[request]
        if not done.cancelled():
            done.exception()  # retrieved, so that asyncio does not warn when no caller waits any more

    async def abort(self, key: str, upload_id: str) -> None:
        await asyncio.to_thread(self._parts.drop, keys.check(key), upload_id)

    async def receive(
        self, token: str, body: AsyncIterator[bytes], *, length: int | None, guard: UploadGuard | None = None
    ) -> str:
        grant = self._tokens.read(token, method="PUT")
        # The output of a worker was not announced.
        guard = _admit if guard is None or grant.name == OUTPUT else guard
        async with guard(grant.key, grant.upload_id) as announced:
            pass  # refuse an unwanted body before all of it is sent
        if not grant.part:
            meter = Meter(self._limit(grant, announced))
            return await self._receive(grant, body, length, guard, meter)
        size, stored = await asyncio.to_thread(self._parts.measure, grant.key, grant.upload_id)
        limit = self._limit(grant, announced, size)
        whole = self._arrivals.join_upload(grant.upload_id, limit, stored)
        with whole.receiving(grant.part, min(limit, self._max_part_bytes)) as meter:
            # From here on a part is accepted as long as its upload exists.
            return await self._receive(grant, body, length, _admit, meter)

    async def _receive(
        self, grant: Grant, body: AsyncIterator[bytes], length: int | None, guard: UploadGuard, meter: Meter
    ) -> str:
        if length is not None:
            meter.expect(length)
        if length is not None and length <= PIECE_BYTES:
            whole = await _read_small(body, length, meter)
            async with guard(grant.key, grant.upload_id):
                return etag_of(await asyncio.to_thread(self._store_small, grant, whole))
        with self._arrivals.one_more(grant.key, grant.upload_id, grant.part):
            return await self._receive_large(grant, body, length, guard, meter)

    async def _receive_large(
        self, grant: Grant, body: AsyncIterator[bytes], length: int | None, guard: UploadGuard, meter: Meter
    ) -> str:
        # Opened here and not in a thread: cancelling the thread call would leave its descriptors open.
        spool = self._files.spool(grant.key)
        try:
            digest = await self._gather(spool, grant.key, body, length=length, meter=meter)
            async with guard(grant.key, grant.upload_id):
                await asyncio.to_thread(self._store, spool, grant, digest)
        except BaseException:
            await asyncio.to_thread(spool.discard)  # in a thread, because it may have to wait for another
            raise
        return etag_of(digest)

    def _limit(self, grant: Grant, *announced: int | None) -> int:
        """The most bytes of the blob: the least of the limits that are known."""
        said = grant.size if grant.size >= 0 else None
        return min(limit for limit in (self._max_blob_bytes, said, *announced) if limit is not None)

    def read_download(self, token: str) -> tuple[str, str]:
        grant = self._tokens.read(token, method="GET")
        return grant.key, grant.name

    async def close(self) -> None:
        """Wait for running joins. May be repeated."""
        await asyncio.gather(*self._joining.values(), return_exceptions=True)

    async def _gather(
        self, spool: Spool, key: str, body: AsyncIterator[bytes], *, length: int | None, meter: Meter
    ) -> str:
        """Write the body to the spool; return its SHA-256."""
        hashed, waiting = hashlib.sha256(), bytearray()

        def fill(data: bytearray) -> None:
            hashed.update(data)
            self._files.fill(spool, key, data)

        async for piece in body:
            meter.count(len(piece))
            waiting += piece
            if len(waiting) >= PIECE_BYTES:
                await asyncio.to_thread(fill, waiting)
                waiting = bytearray()
        if length is not None and meter.size != length:
            raise _incomplete(meter.size, length)
        await asyncio.to_thread(fill, waiting)
        return hashed.hexdigest()

    def _store_small(self, grant: Grant, whole: bytes) -> str:
        """Store a small body in one thread call, which cannot be cancelled half-way: most files are small."""
        digest = hashlib.sha256(whole).hexdigest()
        spool = self._files.spool(grant.key)
        try:
            self._files.fill(spool, grant.key, bytearray(whole))
            self._store(spool, grant, digest)
        except BaseException:
            spool.discard()
            raise
        return digest

    def _store(self, spool: Spool, grant: Grant, digest: str) -> None:
        if grant.part:
            self._parts.add(spool, grant.key, grant.upload_id, grant.part, etag_of(digest))
        else:
            self._files.commit(spool, grant.key, Labels(metadata={DIGEST_LABEL: digest}), None)

    def _expires_at(self, seconds: int) -> int:
        return int(self._clock.now()) + check_seconds(seconds)

    def _url(self, base_url: str, grant: Grant) -> str:
        return f"{base_url.rstrip('/')}/{ROUTE}/{self._tokens.sign(grant)}"


def _admit(key: str, upload_id: str) -> AbstractAsyncContextManager[None]:  # noqa: ARG001
    return nullcontext()


def _to_grant(size: int | None) -> int:
    return -1 if size is None else size


async def _read_small(body: AsyncIterator[bytes], length: int, meter: Meter) -> bytes:
    whole = bytearray()
    async for piece in body:
        meter.count(len(piece))
        whole += piece
        if len(whole) > length:
            break
    if len(whole) != length:
        raise _incomplete(len(whole), length)
    return bytes(whole)


def _incomplete(size: int, length: int) -> Reject:
    return Reject(
        f"{size} bytes arrived, but {length} were announced: the upload was interrupted. Send it again.",
        code="incomplete_body",
    )
