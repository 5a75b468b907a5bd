"""Presigned uploads: URLs that allow one upload each, in one piece or in parts.

One Protocol; with `s3.presigned` clients send to the store, with `local.presigned` to Quire's own routes.
Both keep the same promises, shown by one suite:
- a URL allows one method on one key (and one part) until it expires; an altered one is refused;
- PUT answers exactly 200 with an ETag, whatever the size of a part and whatever the Content-Type;
- a blob is visible whole or not at all; parts are invisible until they are joined;
- a PUT of a whole blob whose size was announced, or of its only part, does not store more bytes than that.
URLs are secrets until they expire: never log them.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from msgspec import Struct

from quire.blobs.port import BlobInfo


class CompletedPart(Struct, frozen=True):
    """A part as the client reports it; the ETag with or without quotes."""

    number: int
    etag: str


class StoredPart(Struct, frozen=True):
    """A part in the store; the ETag without quotes."""

    number: int
    etag: str
    size: int


class PresignedUploads(Protocol):
    async def sign_put(
        self, key: str, *, seconds: int, base_url: str, announced: bool = True, size: int | None = None
    ) -> str:
        """A URL for one PUT of the whole blob. `base_url` is the address at which the client reached Quire;
        stores with an address of their own ignore it. `announced` False is for the output of a worker: no
        upload was announced under this key. More bytes than `size` are refused; some stores demand exactly
        as many.
        """
        ...

    async def sign_get(self, key: str, *, seconds: int, base_url: str, name: str) -> str:
        """A URL for GET; browsers save the response as a file of this name."""
        ...

    async def begin(self, key: str, *, content_type: str, size: int | None = None) -> str:
        """Start a multipart upload; return its id, an opaque text. A store that counts them refuses parts
        that have more bytes together than `size`; others do not, so compare the size after `join`.
        """
        ...

    async def sign_parts(
        self, key: str, upload_id: str, *, parts: int, seconds: int, base_url: str, size: int | None = None
    ) -> list[str]:
        """One URL for each part, numbered from 1. The only part of an upload has `size` bytes."""
        ...

    async def list_parts(self, key: str, upload_id: str) -> list[StoredPart]:
        """The parts received so far, in order of number, one of each. A part that was sent twice may be left
        out where the store cannot tell which came later. Raises Missing when there is no such upload of this
        key. May be repeated.
        """
        ...

    async def join(self, key: str, upload_id: str, parts: Sequence[CompletedPart]) -> BlobInfo:
        """Make one blob of the parts, in order of their numbers. Raises Missing when there is no such upload
        (joined already, aborted, never begun), Reject `bad_parts` when a part is missing or has another
        ETag.
        """
        ...

    async def abort(self, key: str, upload_id: str) -> None:
        """Remove an upload and its parts. An upload that does not exist is no error."""
        ...

    async def close(self) -> None:
        """Wait for running operations and release connections. May be repeated."""
        ...


# Key and id of the multipart upload ("": none) → a context that surrounds the storing of bytes; entering it
# may refuse them, and gives the most bytes of the whole blob (None: no such limit).
UploadGuard = Callable[[str, str], AbstractAsyncContextManager[int | None]]


@runtime_checkable
class UploadReceiver(Protocol):
    """Presigned uploads whose URLs lead to Quire's own routes."""

    async def receive(
        self, token: str, body: AsyncIterator[bytes], *, length: int | None, guard: UploadGuard | None = None
    ) -> str:
        """Store the body of a PUT; `token` is the end of its URL. Returns the ETag. Raises Reject:
        `bad_signature`, `url_expired` (403), `too_large` (413: at the first byte too many, nothing of it is
        kept), `incomplete_body` (400: fewer bytes than `length`), Retry `rate_limited` (429), Missing for
        a part of an upload that has ended. `guard` is entered again after the last
        byte: a body may take hours, and its upload may have ended by then.
        """
        ...

    def read_download(self, token: str) -> tuple[str, str]:
        """Key and file name that the token of a GET URL allows. Raises Reject as `receive` does."""
        ...
