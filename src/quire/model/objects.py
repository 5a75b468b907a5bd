"""The port for state in an object store: small objects, conditional writes, listings, the store's clock.

Apart from the port of the blobs, because here every request counts and versions decide.
"""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct


class ObjectBody(Struct, frozen=True):
    """The bytes of an object. `version` is opaque; equal bytes may have equal versions."""

    body: bytes
    version: str


class ObjectInfo(Struct, frozen=True):
    """An object as a listing shows it. `modified_at` is by the store's clock."""

    key: str
    size: int
    version: str
    modified_at: float


class Objects(Protocol):
    """Every method raises Retry for a passing fault, Misconfigured where a person must do something."""

    async def read(self, key: str) -> ObjectBody | None:
        """A whole small object; None when it does not exist."""
        ...

    async def head(self, key: str) -> ObjectInfo | None:
        """The object without its bytes; None when it does not exist."""
        ...

    async def create(self, key: str, body: bytes) -> str | None:
        """Create an object; return its version, or None when it exists already."""
        ...

    async def create_file(self, key: str, source: Path, *, content_type: str) -> bool:
        """Create an object from a file, whole or not at all; False when it exists already."""
        ...

    async def swap(self, key: str, body: bytes, version: str) -> str | None:
        """Replace an object of this version; return the new version, or None when it has another."""
        ...

    async def put(self, key: str, body: bytes) -> str:
        """Create or replace an object; return its version."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete objects in as few requests as the store allows; not atomic. Missing ones are no error."""
        ...

    def pages(self, folder: str, *, after: str = "") -> AsyncIterator[list[ObjectInfo]]:
        """All objects below `folder` with a key greater than `after` (a key directly in `folder`, or the
        beginning of one), a thousand per page; a page is requested when it is needed. In order of keys unless
        a folder holds both folders and objects.
        """
        ...

    async def now(self) -> float:
        """The time by the store's clock: ages must not be compared by the clocks of machines."""
        ...
