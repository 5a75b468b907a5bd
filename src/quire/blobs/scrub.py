"""The scrub: reads the whole store at a bounded rate and compares every blob with its digest.

Promise: each blob that was there from the beginning to the end is looked at once in a pass, which continues
at its position in whatever process; a damaged one is set aside, and restored where a right copy is found. A
right blob is never touched. Must not know: batches; it asks `Copies` for other places of the same bytes.
"""

import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from quire.blobs import checked_reads, fixity, keys
from quire.blobs.fixity import StoredChecksums
from quire.blobs.port import BlobInfo, Blobs
from quire.blobs.scrub_record import FinishedScrub, ScrubRecord, ScrubStore
from quire.model.clock import Clock
from quire.model.errors import Missing

SAVED_EVERY_SECONDS = 5.0
SAVED_EVERY_BLOBS = 2000
REPAIRED_AT_ONCE = 100
MOST_REFUSALS = 50  # then the store is not asked for checksums any more
MOST_BEHIND_SECONDS = 1.0
LEAST_BYTES = 16 << 10  # what a small blob counts for in the rate: opening it costs as well
_LABELLED = ("staging/", "archive/")  # blobs with other keys whose labels may say their SHA-256
_OWN = (keys.SCRUB.partition("/")[0] + "/", "probe/", keys.CLOCKS + "/")

_log = logging.getLogger("quire.scrub")

Pause = Callable[[float], Awaitable[None]]


class FoundDamage(Struct, frozen=True, kw_only=True):
    """`info` is of the blob as it was found; of one that was set aside earlier, of the copy that was kept."""

    key: str
    digest: str
    info: BlobInfo


class Repairs(Protocol):
    async def repair(self, found: Sequence[FoundDamage], record: ScrubRecord) -> None:
        """Restore what can be restored, and add an entry for each to the record."""
        ...


class ScrubOptions(Struct, frozen=True, kw_only=True):
    """`bytes_per_second` 0: as fast as it goes. `reads_all`: also what the store has a usable checksum of."""

    owner: str
    bytes_per_second: float = 0.0
    reads_all: bool = False


class Scrub:
    """One process's part of a pass. `pause` sleeps for so many seconds, and returns early on a stop."""

    def __init__(
        self,
        blobs: Blobs,
        store: ScrubStore,
        repairs: Repairs,
        options: ScrubOptions,
        *,
        clock: Clock,
        pause: Pause,
        is_stopped: Callable[[], bool],
        checksums: StoredChecksums | None = None,
        progress: Callable[[ScrubRecord], None] = lambda _: None,
    ) -> None:
        self._blobs = blobs
        self._store = store
        self._repairs = repairs
        self._options = options
        self._clock = clock
        self._pause = pause
        self._is_stopped = is_stopped
        self._checksums = checksums
        self._progress = progress
        self._found: list[FoundDamage] = []
        self._refusals = 0  # objects in a row of which the store had no checksum
        self._began = clock.monotonic()
        self._paced_bytes = 0

    async def run(self, record: ScrubRecord) -> FinishedScrub | None:
        """Continue the pass of the record, or begin one. None when it was stopped before the end: the
        position is saved. Raises Stale when another process has taken the scrub over, and what the store
        raises.
        """
        if record.position is None:
            record.begin(self._clock.now())
        record.owner = self._options.owner
        await self._save(record)
        self._progress(record)
        self._began = saved_at = self._clock.monotonic()
        unsaved = 0
        async for info in self._blobs.list(after=record.position or ""):
            if self._is_stopped():
                break
            if not await self._look_at(info, record):
                break
            record.position = info.key
            unsaved += 1
            now = self._clock.monotonic()
            if unsaved >= SAVED_EVERY_BLOBS or now - saved_at >= SAVED_EVERY_SECONDS:
                await self._save(record)
                self._progress(record)
                unsaved, saved_at = 0, now
            elif len(self._found) >= REPAIRED_AT_ONCE:
                await self._repair(record)
        else:
            await self._repair(record)
            finished = record.finish(self._clock.now())
            await self._save(record)
            return finished
        record.owner = ""
        await self._save(record)
        return None

    async def _save(self, record: ScrubRecord) -> None:
        await self._repair(record)  # first: what lies before the position is not looked at again
        record.saved_at = self._clock.now()
        await self._store.save(record)

    async def _repair(self, record: ScrubRecord) -> None:
        if self._found:
            found, self._found = self._found, []
            await self._repairs.repair(found, record)

    async def _look_at(self, info: BlobInfo, record: ScrubRecord) -> bool:
        """False when it was stopped within the blob, which is read again then."""
        if info.key.startswith(_OWN):
            return True
        if info.key.startswith(keys.DAMAGED_COPIES):
            await self._look_at_kept(info)
            return True
        try:
            digest = await self._find_digest(info)
            if not digest:
                record.counts.unchecked += 1
                return True
            is_right = await self._is_right(info, digest, record)
        except Missing:  # deleted meanwhile
            return True
        if is_right is None:
            return False
        record.counts.blobs += 1
        record.counts.bytes += info.size
        if not is_right and await self._is_damaged(info, digest):
            _log.error("damaged_blob: the stored bytes of %r no longer have their digest", info.key)
            self._found.append(FoundDamage(key=info.key, digest=digest, info=info))
        return True

    async def _find_digest(self, info: BlobInfo) -> str:
        if info.key.startswith(_LABELLED):
            labels: Mapping[str, str] = (await self._blobs.head(info.key)).metadata
            return checked_reads.find_digest(info.key, labels.get("sha256", ""))
        return checked_reads.find_digest(info.key)

    async def _is_right(self, info: BlobInfo, digest: str, record: ScrubRecord) -> bool | None:
        """By the store's checksum where that may be used, otherwise by reading. None: stopped meanwhile."""
        if self._checksums is not None and not self._options.reads_all and self._refusals < MOST_REFUSALS:
            stored = await self._checksums.find_sha256(info.key)
            await self._keep_pace(LEAST_BYTES)
            if stored is not None:
                self._refusals = 0
                record.counts.by_checksum += 1
                return stored == digest
            self._refusals += 1
        return await self._read(info, digest)

    async def _read(self, info: BlobInfo, digest: str) -> bool | None:
        hashed = hashlib.sha256()
        await self._keep_pace(max(0, LEAST_BYTES - info.size))
        async for piece in self._blobs.stream(info.key):
            hashed.update(piece)
            await self._keep_pace(len(piece))
            if self._is_stopped():
                return None
        return hashed.hexdigest() == digest

    async def _is_damaged(self, info: BlobInfo, digest: str) -> bool:
        """Whether it is wrong indeed, and not replaced meanwhile. One with the key of its content is set
        aside; an empty one in its place was set aside earlier.
        """
        if info.key != keys.content(digest):
            try:
                return (await self._blobs.head(info.key)).version == info.version
            except Missing:
                return False
        if await fixity.set_aside(self._blobs, info.key, digest):
            return True
        try:
            return await self._read(info, digest) is False
        except Missing:  # set aside by a reader: it is found again among the kept copies
            return False

    async def _look_at_kept(self, info: BlobInfo) -> None:
        """A copy that was set aside, by a scrub or by a reader: are there right bytes in its place?"""
        digest = checked_reads.find_digest("", info.key.rpartition("/")[2])
        if not digest or info.key != keys.damaged(digest):
            return
        try:
            await self._blobs.head(keys.content(digest))
        except Missing:
            self._found.append(FoundDamage(key=keys.content(digest), digest=digest, info=info))

    async def _keep_pace(self, size: int) -> None:
        rate = self._options.bytes_per_second
        if not rate:
            return
        self._paced_bytes += size
        ahead = self._began + self._paced_bytes / rate - self._clock.monotonic()
        if ahead > 0:
            await self._pause(ahead)
        else:  # time in which the store was slow is not caught up with
            self._began -= min(0.0, ahead + MOST_BEHIND_SECONDS)
