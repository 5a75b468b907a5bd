"""Where bytes live. One Protocol; `local` and `s3` keep the same promises, shown by one suite.

Keys are validated by `quire.blobs.keys`: relative, `/`-separated, no empty, `.` or `..` segment, no
control characters or backslash, at most 1024 bytes and 255 to a segment, the first one not `.tmp`, `.meta`,
`.locks` or `.parts`. A key never is also the folder of another key
(`X` beside `X/Y`): file systems cannot hold that and some servers list it wrongly.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from msgspec import Struct, field

Metadata = Mapping[str, str]


class Stored(Struct, frozen=True, kw_only=True):
    """What the store knows of a blob. `version` is opaque and changes with every write of other bytes.

    `modified_at` is 0.0 in the answer to a put where the store does not tell (S3); `head` and `list` know.
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
    ) -> Stored:
        """Store bytes, a local file or a stream. When it returns, the blob is durable and visible whole;
        until then nobody sees any of it. A `Path` is read, never moved or linked.

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

    async def head(self, key: str) -> Stored:
        """What is known of it, without its bytes. Raises Missing."""
        ...

    def list(self, prefix: str = "", *, after: str = "") -> AsyncIterator[Stored]:
        """All blobs whose key begins with the folder `prefix` ("" or whole segments), in order of their
        UTF-8 bytes, those greater than `after` only. Metadata and content type may be missing here.
        Blobs written meanwhile may or may not appear.
        """
        ...

    async def delete(self, key: str) -> None:
        """Gone when it returns; deleting what is not there is no error."""
        ...

    def local_path(self, key: str) -> Path | None:
        """The file on this machine that holds the blob, to be read in place; None where there is no such
        file. Must not be written to.
        """
        ...

    async def signed_url(self, key: str, *, method: str, seconds: int) -> str | None:
        """A URL that allows one method (GET or PUT) on one key for a while; None where the store cannot."""
        ...

    async def close(self) -> None:
        """Release connections and files. May be repeated."""
        ...


@runtime_checkable
class TakesFiles(Protocol):
    """A store that can do better with whole files than being told their keys first."""

    async def take(self, paths: Sequence[Path], *, owned: bool) -> list[tuple[str, int]]:
        """Store files under the keys of their content, where those are not there yet; SHA-256 and size of
        each. What is `owned` may be moved into the store instead of copied. Raises as `Blobs.put` does, and
        Missing when there is no such file; others of them may be stored then.
        """
        ...
