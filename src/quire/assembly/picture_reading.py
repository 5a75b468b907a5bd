"""What reads the pictures of the OCR service, from settings: where pictures come from, and worker processes
of this machine that read them.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from quire.assembly.machine import usable_memory_mb
from quire.assembly.ocr_reading import build_reading_options
from quire.assembly.worker import WORKER_COMMAND
from quire.assembly.worker_blobs import WorkerConfiguration
from quire.blobs.local import LocalBlobs
from quire.blobs.port import Blobs
from quire.compute.pool.local import LocalCompute
from quire.compute.pool.memory_budget import limit_workers
from quire.model.ids import Ids
from quire.model.page_text import PageText, Tier
from quire.ocr.image_jobs import ImageReading
from quire.ocr.image_refs import ImageSources
from quire.ocr.picture_reader import PoolPictureReader
from quire.ocr.port import PictureTextReader, PictureWish
from quire.ocr.stored_pictures import StoredPictures
from quire.settings import Settings, worker_environment
from quire.system import LoopSignal, SystemClock
from quire.tools.guarded_fetch import GuardedFetcher
from quire.tools.sandbox import check_mode
from quire.tools.vips import WORKER_ENVIRONMENT

STEP_MODULES = ("quire.steps.ocr.service_steps",)
# Pictures in memory for each that is being read: fetched while another one is read.
AHEAD = 2
MEGABYTE = 1_000_000


def picture_workers(settings: Settings) -> int:
    chosen = settings.ocr
    return limit_workers(
        chosen.workers or settings.worker_count, settings.local.memory_mb or usable_memory_mb()
    )


def build_sources(settings: Settings, stored: StoredPictures | None) -> ImageSources:
    chosen = settings.ocr
    setting = "ocr.allow_private"
    buckets = None
    if chosen.buckets:
        from quire.blobs.s3.foreign_buckets import ForeignBuckets

        access = {"region": chosen.s3_region}
        if chosen.s3_access_key_id:
            access["access_key_id"] = chosen.s3_access_key_id.reveal()
            access["secret_access_key"] = chosen.s3_secret_access_key.reveal()
        buckets = ForeignBuckets(
            chosen.buckets,
            endpoint=chosen.s3_endpoint,
            access=access,
            path_style=chosen.s3_path_style,
            allow_http=chosen.s3_allow_http,
            timeout_seconds=chosen.fetch_seconds,
        )
    fetcher = GuardedFetcher(allow_private=chosen.allow_private, setting=setting) if chosen.fetch else None
    return ImageSources(
        root=chosen.image_root,
        buckets=buckets,
        fetcher=fetcher,
        stored=stored,
        database_url=chosen.database_url,
        # The operator has chosen this address: it may be one of a closed network.
        database=GuardedFetcher(allow_private=True),
        max_bytes=chosen.max_image_megabytes * MEGABYTE,
        timeout_seconds=chosen.fetch_seconds,
    )


class OpenReader(Struct, frozen=True):
    """`running` ends only when no process can be started, with the reason."""

    reader: PoolPictureReader
    running: "asyncio.Task[None]"


@asynccontextmanager
async def open_reader(settings: Settings, scratch: Path) -> AsyncIterator[OpenReader]:
    """Start worker processes, which end with the context. Pictures are files in `scratch`."""
    check_mode(settings.sandbox)
    workers, chosen = picture_workers(settings), settings.ocr
    own = scratch / "reading"
    own.mkdir(mode=0o700, exist_ok=True)
    configuration = WorkerConfiguration(
        blobs_root=str(scratch),
        s3=None,
        step_modules=STEP_MODULES,
        scratch=str(own),
        sandbox=settings.sandbox,
        private=(str(settings.home),),
    )
    signal = LoopSignal()
    compute = LocalCompute(
        command=WORKER_COMMAND,
        environment={**worker_environment(), **WORKER_ENVIRONMENT, "OMP_THREAD_LIMIT": "1"},
        configuration=msgspec.json.encode(configuration),
        workers=workers,
        clock=SystemClock(),
        signal=signal,
        memory_mb=settings.local.memory_mb or usable_memory_mb(),
    )
    compute.start()
    reader = PoolPictureReader(
        compute,
        signal,
        LocalBlobs(scratch),
        reading=reading_options(settings),
        timeout_seconds=chosen.picture_seconds,
        memory_mb=chosen.memory_mb,
        at_once=workers,
    )
    running = asyncio.create_task(reader.run())
    try:
        yield OpenReader(reader, running)
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await running
        await compute.stop(0)


def reading_options(settings: Settings) -> dict[str, Any]:
    """How pictures are read, as the option of a step."""
    options: dict[str, Any] = msgspec.to_builtins(build_reading_options(settings.ocr))
    return options


class LateReader:
    """Opens a reader when the first picture comes: a server that reads none starts no processes for it. One
    that could start no process is opened anew for the next picture.
    """

    def __init__(self, settings: Settings, scratch: Path) -> None:
        self._settings = settings
        self._scratch = scratch
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._reader: PoolPictureReader | None = None

    async def read(self, path: Path, wish: PictureWish) -> PageText:
        async with self._opening:
            if self._reader is None or self._reader.is_broken:
                await self._stack.aclose()
                opened = await self._stack.enter_async_context(open_reader(self._settings, self._scratch))
                self._reader = opened.reader
            reader = self._reader
        return await reader.read(path, wish)

    async def close(self) -> None:
        await self._stack.aclose()


def build_reading(
    settings: Settings, reader: PictureTextReader, scratch: Path, blobs: Blobs, ids: Ids
) -> ImageReading:
    return ImageReading(
        sources=build_sources(settings, StoredPictures(blobs)),
        reader=reader,
        folder=scratch,
        ids=ids,
        places=asyncio.Semaphore(AHEAD * picture_workers(settings)),
        max_text_bytes=settings.ocr.max_text_bytes,
    )


def list_providers(settings: Settings) -> dict[str, bool]:
    """Every tier, and whether it is there and switched on."""
    from quire.steps.ocr import engines

    found = {state.tier: state for state in engines.probe_tiers(build_reading_options(settings.ocr))}
    return {tier.value: tier in found and found[tier].is_available for tier in Tier}
