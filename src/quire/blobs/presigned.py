"""Where bytes of strangers land: URLs that allow one upload each, in one piece or in parts.

One Protocol; `s3_landing` lets the store sign and receive, `local_landing` signs for Quire's own routes. Both
keep the same promises, shown by one suite:
- a URL allows one method on one key (and one part) until it runs out; an altered one is refused;
- PUT answers exactly 200 with an ETag, whatever the size of a part and whatever the Content-Type;
- a blob is visible whole or not at all; parts are seen by nobody before they are joined.
URLs are secrets while they live: never log them.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from msgspec import Struct

from quire.blobs.port import Stored


class Part(Struct, frozen=True):
    """ETags with or without the quotes."""

    number: int
    etag: str


class StoredPart(Struct, frozen=True):
    """A part that lies in the store; the ETag without quotes."""

    number: int
    etag: str
    size: int


class PresignedUploads(Protocol):
    async def put_url(self, key: str, *, seconds: int, base_url: str, awaited: bool = True) -> str:
        """A URL for one PUT of the whole blob. `base_url` is where the asker reached Quire; stores with an
        address of their own do not look at it. Not `awaited`: it is for a worker of ours, and no upload was
        announced under this key.
        """
        ...

    async def get_url(self, key: str, *, seconds: int, base_url: str, name: str) -> str:
        """A URL for GET; browsers save what it gives as a file of this name."""
        ...

    async def begin(self, key: str, *, content_type: str) -> str:
        """Open an upload in parts; its id is an opaque text."""
        ...

    async def part_urls(
        self, key: str, upload_id: str, *, parts: int, seconds: int, base_url: str
    ) -> list[str]:
        """One URL for each part, numbered from 1."""
        ...

    async def parts(self, key: str, upload_id: str) -> list[StoredPart]:
        """What has arrived of an upload, in order of number, one of each. A part that was sent twice may be
        left out, where the store cannot tell which came later. Raises Missing when there is no such upload of
        this key. May be repeated.
        """
        ...

    async def join(self, key: str, upload_id: str, parts: Sequence[Part]) -> Stored:
        """Make one blob of the parts, in order of their numbers. Raises Missing when there is no such upload
        (joined already, given up, never begun), Reject `bad_parts` when a part is missing or has another
        ETag.
        """
        ...

    async def give_up(self, key: str, upload_id: str) -> None:
        """Drop an upload and its parts; one that is not there is no error."""
        ...

    async def close(self) -> None:
        """Wait for what is under way and release what is held. May be repeated."""
        ...


# Key → what is entered when its bytes have come and left when they are stored; entering it may refuse them.
Awaited = Callable[[str], AbstractAsyncContextManager[None]]


@runtime_checkable
class Receives(Protocol):
    """A landing whose URLs lead to Quire's own routes."""

    async def receive(
        self, token: str, body: AsyncIterator[bytes], *, length: int | None, awaited: Awaited | None = None
    ) -> str:
        """Take the body of a PUT on a URL of ours; `token` is its part after the route. The ETag. Raises
        Reject: `bad_signature`, `url_expired` (403), `too_large` (413), `incomplete_body` (400: fewer bytes
        than `length`), Missing for a part of an upload that is over. `awaited` is asked once more when all
        has come: a body may take hours, and what it was sent for may be over by then.
        """
        ...

    def opened(self, token: str) -> tuple[str, str]:
        """Key and file name that a GET URL of ours allows. Raises Reject as `receive` does."""
        ...
