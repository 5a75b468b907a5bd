"""What those need of an object store who keep state in it: small objects, conditions, listings, its clock.

A port of its own beside that of the blobs: here every request counts, and versions decide. Structural:
whoever has these methods will do.
"""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct


class ObjectBody(Struct, frozen=True):
    """An object with its bytes. `version` is opaque; equal bytes may have equal versions."""

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
        """A small object whole."""
        ...

    async def head(self, key: str) -> ObjectInfo | None:
        """Without its bytes."""
        ...

    async def create(self, key: str, body: bytes) -> str | None:
        """The version, when there was none; None when there was one."""
        ...

    async def create_file(self, key: str, source: Path, *, content_type: str) -> bool:
        """From a file, whole or not at all, when there was none; False when there was one."""
        ...

    async def swap(self, key: str, body: bytes, version: str) -> str | None:
        """The new version, when it was this version; None otherwise."""
        ...

    async def put(self, key: str, body: bytes) -> str:
        """The version, whatever was there."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """In as few requests as the store allows; not atomic. What is not there is no error."""
        ...

    def pages(self, folder: str, *, after: str = "") -> AsyncIterator[list[ObjectInfo]]:
        """All objects below `folder`, by the thousand, a page being asked for when it is wanted; those whose
        key is greater than `after`, which is a key right in `folder` or its beginning. In order of their keys
        as far as no folder has folders and objects side by side.
        """
        ...

    async def now(self) -> float:
        """The time by the store's clock: whoever compares ages must not trust the clocks of machines."""
        ...
