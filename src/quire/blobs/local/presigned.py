"""Uploads into the local store by way of Quire's own routes: URLs signed by us, bodies received by us.

Promise: everything in `landing`, and the SHA-256 of what landed stands in its metadata (`sha256`), so that
nobody must read it again. Nothing is known in memory alone: uploads and URLs outlive the process. The
blocking work is in `local_vault` and `local_parts`. Must not know: HTTP, settings.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

from quire.blobs import keys
from quire.blobs.labels import Labels, labels
from quire.blobs.local.files import Vault
from quire.blobs.local.parts import (
    DIGEST_LABEL,
    PartFiles,
    etag_of,
    too_large,
)
from quire.blobs.local.spool import PIECE_BYTES, Spool
from quire.blobs.local.tokens import Grant, Tokens
from quire.blobs.local.tree import translated
from quire.blobs.port import Stored
from quire.blobs.presigned import Awaited, Part, StoredPart
from quire.blobs.presigned_rules import check_count, check_seconds
from quire.model.clock import Clock
from quire.model.errors import Reject

ROUTE = "blobs"
OUTPUT = "output"  # stands in a grant to write that is for a worker

_Asked = tuple[str, str, tuple[Part, ...]]


class LocalPresignedUploads:
    def __init__(
        self, root: Path, *, secret: bytes, clock: Clock, max_blob_bytes: int, max_part_bytes: int
    ) -> None:
        """`root` is the folder of a `LocalBlobs`, which must be there. `secret` signs the URLs: at least 32
        bytes, the same in all processes. Raises Misconfigured.
        """
        self._tokens = Tokens(secret, clock)
        self._clock = clock
        self._max_blob_bytes = max_blob_bytes
        self._max_part_bytes = max_part_bytes
        with translated("open", str(root)):
            self._vault = Vault(root.resolve(strict=True))
        self._parts = PartFiles(self._vault)
        self._joining: dict[_Asked, asyncio.Task[Stored]] = {}

    def __repr__(self) -> str:
        return f"LocalLanding({str(self._vault.tree.root)!r})"

    async def put_url(self, key: str, *, seconds: int, base_url: str, awaited: bool = True) -> str:
        name = "" if awaited else OUTPUT
        return self._url(base_url, Grant("PUT", keys.check(key), self._until(seconds), name=name))

    async def get_url(self, key: str, *, seconds: int, base_url: str, name: str) -> str:
        return self._url(base_url, Grant("GET", keys.check(key), self._until(seconds), name=name))

    async def begin(self, key: str, *, content_type: str) -> str:
        described = labels(content_type, None)
        return await asyncio.to_thread(self._parts.begin, keys.check(key), described.content_type)

    async def part_urls(
        self, key: str, upload_id: str, *, parts: int, seconds: int, base_url: str
    ) -> list[str]:
        keys.check(key)
        until = self._until(seconds)
        numbers = range(1, check_count(parts) + 1)
        return [self._url(base_url, Grant("PUT", key, until, upload_id, number)) for number in numbers]

    async def parts(self, key: str, upload_id: str) -> list[StoredPart]:
        return await asyncio.to_thread(self._parts.listed, keys.check(key), upload_id)

    async def join(self, key: str, upload_id: str, parts: Sequence[Part]) -> Stored:
        """Who asks for the same while it is being done gets the same answer. Goes on when the asker is gone:
        a large upload takes longer than some wait, and they come again.
        """
        asked = (keys.check(key), upload_id, tuple(parts))
        task = self._joining.get(asked)
        if task is None:
            joining = asyncio.to_thread(self._parts.join, *asked, max_bytes=self._max_blob_bytes)
            task = self._joining[asked] = asyncio.create_task(joining)
            task.add_done_callback(lambda done: self._joined(asked, done))
        return await asyncio.shield(task)

    def _joined(self, asked: _Asked, done: asyncio.Task[Stored]) -> None:
        del self._joining[asked]
        if not done.cancelled():
            done.exception()  # seen, so that asyncio does not complain when nobody waits any more

    async def give_up(self, key: str, upload_id: str) -> None:
        await asyncio.to_thread(self._parts.drop, keys.check(key), upload_id)

    async def receive(
        self, token: str, body: AsyncIterator[bytes], *, length: int | None, awaited: Awaited | None = None
    ) -> str:
        grant = self._tokens.read(token, method="PUT")
        max_bytes = self._max_part_bytes if grant.part else self._max_blob_bytes
        if length is not None and length > max_bytes:
            raise too_large(max_bytes)
        # What a worker of ours makes was not announced.
        awaited = _always if awaited is None or grant.name == OUTPUT else awaited
        if grant.part:
            async with awaited(grant.key):
                pass
            await asyncio.to_thread(self._parts.demand, grant.key, grant.upload_id)
            awaited = _always  # from here on: a part is taken only while its upload is there
        if length is not None and length <= PIECE_BYTES:
            whole = await _small(body, length)
            async with awaited(grant.key):
                return etag_of(await asyncio.to_thread(self._land_small, grant, whole))
        async with awaited(grant.key):
            pass  # what nobody wants need not be sent to its end
        # Made here and not in a thread: a cancelled hop would leave its descriptors open.
        spool = self._vault.spool(grant.key)
        try:
            digest = await self._gather(spool, grant.key, body, length=length, max_bytes=max_bytes)
            async with awaited(grant.key):
                await asyncio.to_thread(self._land, spool, grant, digest)
        except BaseException:
            await asyncio.to_thread(spool.discard)  # in a thread, for it may have to wait for one
            raise
        return etag_of(digest)

    def opened(self, token: str) -> tuple[str, str]:
        grant = self._tokens.read(token, method="GET")
        return grant.key, grant.name

    async def close(self) -> None:
        """Wait for what is being joined. May be repeated."""
        await asyncio.gather(*self._joining.values(), return_exceptions=True)

    async def _gather(
        self, spool: Spool, key: str, body: AsyncIterator[bytes], *, length: int | None, max_bytes: int
    ) -> str:
        """All of the body into the spool; its SHA-256."""
        hashed, size, waiting = hashlib.sha256(), 0, bytearray()

        def fill(data: bytearray) -> None:
            hashed.update(data)
            self._vault.fill(spool, key, data)

        async for piece in body:
            size += len(piece)
            if size > max_bytes:
                raise too_large(max_bytes)
            waiting += piece
            if len(waiting) >= PIECE_BYTES:
                await asyncio.to_thread(fill, waiting)
                waiting = bytearray()
        if length is not None and size != length:
            raise _broken_off(size, length)
        await asyncio.to_thread(fill, waiting)
        return hashed.hexdigest()

    def _land_small(self, grant: Grant, whole: bytes) -> str:
        """In one hop, which nobody can cancel half-way: most files are small."""
        digest = hashlib.sha256(whole).hexdigest()
        spool = self._vault.spool(grant.key)
        try:
            self._vault.fill(spool, grant.key, bytearray(whole))
            self._land(spool, grant, digest)
        except BaseException:
            spool.discard()
            raise
        return digest

    def _land(self, spool: Spool, grant: Grant, digest: str) -> None:
        if grant.part:
            self._parts.add(spool, grant.key, grant.upload_id, grant.part, etag_of(digest))
        else:
            self._vault.commit(spool, grant.key, Labels(metadata={DIGEST_LABEL: digest}), None)

    def _until(self, seconds: int) -> int:
        return int(self._clock.now()) + check_seconds(seconds)

    def _url(self, base_url: str, grant: Grant) -> str:
        return f"{base_url.rstrip('/')}/{ROUTE}/{self._tokens.sign(grant)}"


def _always(key: str) -> AbstractAsyncContextManager[None]:  # noqa: ARG001
    return nullcontext()


async def _small(body: AsyncIterator[bytes], length: int) -> bytes:
    whole = bytearray()
    async for piece in body:
        whole += piece
        if len(whole) > length:
            break
    if len(whole) != length:
        raise _broken_off(len(whole), length)
    return bytes(whole)


def _broken_off(size: int, length: int) -> Reject:
    return Reject(
        f"{size} bytes came where {length} were announced: the upload broke off. Send it again.",
        code="incomplete_body",
    )
