"""The scrub of the configured store: as a command, regularly in `quire serve`, and its record for the doctor.

Promise: of several members one scrubs; when it dies, another one continues at its position. Must not know:
how blobs are checked.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from quire.assembly.blobs import open_blobs, s3_access
from quire.assembly.components import Components
from quire.blobs.repairs import CopyRepairs
from quire.blobs.scrub import Scrub, ScrubOptions
from quire.blobs.scrub_record import DamagedEntry, FinishedScrub, ScrubCounts, ScrubRecord, ScrubStore
from quire.model.errors import Retry, Stale
from quire.settings import Settings
from quire.system import user_at_host
from quire.tools.file_search import find_by_digest

if TYPE_CHECKING:
    from quire.blobs.s3.checksums import S3Checksums

DAY_SECONDS = 86_400.0
LOOK_AGAIN_SECONDS = 60.0
TAKEN_OVER_AFTER_SECONDS = 90.0  # a scrub that saves nothing for so long is one of a dead process
USES_AT_ONCE = 10_000

_log = logging.getLogger("quire.scrub")


class ScrubResult(Struct, frozen=True, kw_only=True):
    """What a pass has found so far; `finished`: it came to its end."""

    finished: bool
    started_at: float
    counts: ScrubCounts
    damaged: tuple[DamagedEntry, ...]


class ScrubRequest(Struct, frozen=True, kw_only=True):
    """What the command asks for, beside the settings."""

    megabytes_per_second: float
    reads_all: bool = False
    from_start: bool = False
    originals: tuple[Path, ...] = ()


async def scrub_store(
    settings: Settings,
    components: Components,
    request: ScrubRequest,
    stop: asyncio.Event,
    *,
    progress: Callable[[ScrubRecord], None] = lambda _: None,
) -> ScrubResult:
    """Continue the pass under way, whoever began it, or begin one; until its end or `stop`. Raises Stale when
    another process has taken it over.
    """
    store = ScrubStore(components.blobs)
    record = await store.load()
    if request.from_start:
        record.position = None
    async with _open_scrub(settings, components, store, request, stop, progress) as scrub:
        ended = await scrub.run(record)
    if ended is not None:
        return ScrubResult(
            finished=True, started_at=ended.started_at, counts=ended.counts, damaged=ended.damaged
        )
    found = tuple(record.damaged.values())
    return ScrubResult(finished=False, started_at=record.started_at, counts=record.counts, damaged=found)


async def scrub_regularly(
    settings: Settings,
    components: Components,
    stop: asyncio.Event,
    *,
    look_again_seconds: float = LOOK_AGAIN_SECONDS,
    taken_over_after_seconds: float = TAKEN_OVER_AFTER_SECONDS,
) -> None:
    """Until `stop`: a pass every `scrub.every_days`, shared with the other members on this store."""
    if not settings.scrub.every_days:
        return
    store = ScrubStore(components.blobs)
    watch = _Watch(components, settings.scrub.every_days * DAY_SECONDS, taken_over_after_seconds)
    request = ScrubRequest(megabytes_per_second=settings.scrub.megabytes_per_second)
    while not stop.is_set():
        with suppress(Retry, Stale):  # the store is away, or another member was faster: look again later
            record = await store.load()
            if watch.is_due(record, store.version):
                async with _open_scrub(settings, components, store, request, stop) as scrub:
                    finished = await scrub.run(record)
                if finished is not None:
                    _log.info("scrub_finished: %s", describe(finished))
        await _pause(stop, look_again_seconds)


async def load_scrub(settings: Settings) -> ScrubRecord | None:
    """The record of the configured store; None where there is no store yet. Leaves no trace."""
    if settings.store == "local" and not (settings.home / "blobs").is_dir():
        return None
    blobs = open_blobs(settings)
    try:
        return await ScrubStore(blobs).load()
    finally:
        await blobs.close()


def describe(finished: FinishedScrub) -> str:
    counts = finished.counts
    return f"{counts.blobs} blobs, {counts.damaged} damaged, {counts.restored} of them restored"


class _Watch:
    """Decides whether this member scrubs now. Clocks of different machines are compared for days alone."""

    def __init__(self, components: Components, every_seconds: float, taken_over_after_seconds: float) -> None:
        self._clock = components.clock
        self._every_seconds = every_seconds
        self._taken_over_after_seconds = taken_over_after_seconds
        self._seen = ("", 0.0)  # a version of the record, and since when it has been that

    def is_due(self, record: ScrubRecord, version: str) -> bool:
        moment = self._clock.monotonic()
        if record.position is None:
            last = record.last
            return last is None or self._clock.now() - last.finished_at >= self._every_seconds
        if not record.owner:  # it was stopped, not killed
            return True
        if self._seen[0] != version:
            self._seen = (version, moment)
        return moment - self._seen[1] >= self._taken_over_after_seconds


@asynccontextmanager
async def _open_scrub(
    settings: Settings,
    components: Components,
    store: ScrubStore,
    request: ScrubRequest,
    stop: asyncio.Event,
    progress: Callable[[ScrubRecord], None] = lambda _: None,
) -> AsyncIterator[Scrub]:
    checksums = _open_checksums(settings, components)
    find_uses = partial(components.records.find_uses, limit=USES_AT_ONCE)
    originals = partial(find_by_digest, request.originals) if request.originals else None
    try:
        yield Scrub(
            components.blobs,
            store,
            CopyRepairs(components.blobs, find_uses, originals),
            ScrubOptions(
                owner=user_at_host(),
                bytes_per_second=request.megabytes_per_second * 1e6,
                reads_all=request.reads_all or settings.scrub.reads_all,
            ),
            clock=components.clock,
            pause=partial(_pause, stop),
            is_stopped=stop.is_set,
            checksums=checksums,
            progress=progress,
        )
    finally:
        if checksums is not None:
            await checksums.close()


def _open_checksums(settings: Settings, components: Components) -> "S3Checksums | None":
    access = s3_access(settings)
    if access is None:
        return None
    from quire.blobs.s3.checksums import S3Checksums

    return S3Checksums(
        clock=components.clock,
        bucket=access.bucket,
        endpoint=access.endpoint,
        region=access.region,
        access_key_id=access.access_key_id,
        secret_access_key=access.secret_access_key,
        prefix=access.prefix,
    )


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
