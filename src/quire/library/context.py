"""What every use case of the library works with: the bucket, its rules, a clock and an id source.

`objects` holds the small objects that decide (states, markers), `blobs` the large ones (sources and
results). Both see the same bucket, below the library's prefix.
"""

from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from quire.blobs.port import Blobs
from quire.library.protocol.lifecycle import JobActor
from quire.library.protocol.requests import Operation, StoreAccess, perform
from quire.model.clock import Clock
from quire.model.ids import Ids
from quire.model.objects import Objects

T = TypeVar("T")


class LibraryRules(Struct, frozen=True, kw_only=True):
    """`max_retries` come on top of the first attempt. A job whose state was not written for `stale_seconds`
    is taken from its worker.
    """

    max_retries: int = 3
    heartbeat_seconds: float = 60.0
    stale_seconds: float = 900.0
    conversion_seconds: float = 3600.0
    seconds_per_page: float = 60.0  # a longer limit than `conversion_seconds` for documents with many pages

    @property
    def attempts(self) -> int:
        return self.max_retries + 1


class LibraryContext(Struct, frozen=True, kw_only=True):
    objects: Objects
    blobs: Blobs
    clock: Clock
    ids: Ids
    rules: LibraryRules = LibraryRules()

    def actor(self, worker: str) -> JobActor:
        return JobActor(worker=worker, limit=self.rules.attempts, nonce=self.ids.ulid, now=self.clock.now)

    async def perform(self, operation: Operation[T], *, result: Path | None = None) -> T:
        """Raises Retry when the store cannot be reached: see `quire.library.protocol.requests.perform`."""
        access = StoreAccess(objects=self.objects, stale_seconds=self.rules.stale_seconds, result=result)
        return await perform(operation, access)
