"""Where bytes live. One Protocol; `local` and `s3` keep the same promises, shown by one suite.

Keys are validated by `quire.blobs.keys`: relative, `/`-separated, no empty, `.` or `..` segment, no
control characters or backslash, at most 1024 bytes and 255 per segment, the first one not `.tmp`, `.meta`,
`.locks` or `.parts`. A key never is also the folder of another key
(`X` beside `X/Y`): file systems cannot hold that and some servers list it wrongly.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from msgspec import Struct, field

Metadata = Mapping[str, str]


class BlobInfo(Struct, frozen=True, kw_only=True):
    """What the store knows about a blob. `version` is opaque and changes with every write of other bytes.

    `modified_at` is 0.0 in the result of a put where the store does not return it (S3); `head` and `list` do.
    """

    key: str
    size: int
    version: str
    modified_at: float
    content_type: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)


class IfAbsent(Struct, frozen=True):
    """Write only when the key does not exist."""


class IfVersion(Struct, frozen=True):
    """Write only when the key exists with exactly this version (compare and swap)."""

    version: str


Condition = IfAbsent | IfVersion


class Blobs(Protocol):
    async def put(
        self,
        key: str,
        data: bytes | Path | AsyncIterator[bytes],
        *,
        content_type: str | None = None,
        metadata: Metadata | None = None,
        condition: Condition | None = None,
    ) -> BlobInfo:
        """Store bytes, a local file or a stream. On return the blob is durable and visible whole; before that
        no part of it is visible. A `Path` is read, never moved or linked.

        Raises Stale when the condition does not hold (nothing is written), Reject for a bad key, Retry for a
        passing fault. Unconditional writes may be repeated; a conditional one whose answer was lost
        recognises its own success and does not report Stale.
        Conditional streams are held in memory by some stores: send large ones without a condition.
        """
        ...

    async def get(self, key: str) -> bytes:
        """The whole blob; for small ones. Raises Missing."""
        ...

    def stream(self, key: str, *, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        """The blob in pieces of about a megabyte, never all at once; from byte `start` to before `stop`, both
        within its size. Raises Missing at the first piece.
        """
        ...

    async def head(self, key: str) -> BlobInfo:
        """Information about the blob, without its bytes. Raises Missing."""
        ...

    def list(self, prefix: str = "", *, after: str = "") -> AsyncIterator[BlobInfo]:
        """All blobs whose key begins with the folder `prefix` ("" or whole segments), in order of their
        UTF-8 bytes, those greater than `after` only. Metadata and content type may be missing here.
        Blobs written meanwhile may or may not appear.
        """
        ...

    async def delete(self, key: str) -> None:
        """Delete the blob. A blob that does not exist is no error."""
        ...

    def local_path(self, key: str) -> Path | None:
        """The file on this machine that holds the blob, to be read in place and never written to; None where
        there is none.
        """
        ...

    async def close(self) -> None:
        """Release connections and files. May be repeated."""
        ...


class SourceFile(Protocol):
    """A file to store that is not opened by its path alone: what lies there may be something else by now."""

    @property
    def name(self) -> str:
        """For messages."""
        ...

    def open_descriptor(self) -> int:
        """At its beginning, for the caller to close. Raises OSError. May be repeated."""
        ...


@runtime_checkable
class SupportsFiles(Protocol):
    """A store that stores whole files under the keys of their content faster than `put` does."""

    async def store_files(self, paths: Sequence[Path | SourceFile], *, owned: bool) -> list[tuple[str, int]]:
        """Store files under the keys of their content unless they are stored already; return SHA-256 and size
        of each. `owned` files may be moved into the store instead of copied. Raises as `Blobs.put` does, and
        Missing when a file does not exist; the others may be stored then.
        """
        ...
