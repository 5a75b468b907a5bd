"""The embedded house: everything `quire run` works with, under one home folder."""

import fcntl
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec

from quire.assembly.stores import Greeting, S3Access, open_store
from quire.assembly.worker import WORKER_COMMAND
from quire.blobs.local import LocalBlobs
from quire.blobs.port import Blobs
from quire.blobs.probe import probe
from quire.compute.local import LocalCompute
from quire.database.sqlite import SqliteDatabase
from quire.engine.conductor import Conductor
from quire.engine.mail import Mail
from quire.engine.retry import RetryPolicy
from quire.ledger.sqlite import SqliteLedger
from quire.model.errors import Misconfigured
from quire.model.pipeline import Pipeline
from quire.pipelines.preprocess import preprocess
from quire.queues.sqlite import SqliteQueues
from quire.service.house import House
from quire.settings import S3, Settings, worker_environment
from quire.system import LoopSignal, SystemClock, SystemIds
from quire.tools.vips import WORKER_ENVIRONMENT

STEP_MODULES = ("quire.steps.registry",)
LEFTOVERS_AFTER_SECONDS = 3600.0


@asynccontextmanager
async def open_house(
    settings: Settings,
    *,
    pipelines: Mapping[str, Pipeline] | None = None,
    step_modules: tuple[str, ...] = STEP_MODULES,
) -> AsyncIterator[House]:
    """The embedded house: SQLite and local files (or S3) under one home folder, held by one process tree."""
    home = settings.home
    clock, ids = SystemClock(), SystemIds()
    with _only_one(home), _scratch(home) as scratch:
        blobs = open_blobs(settings)
        # Every start: the folder may lie on a network file system whose locks and links do not hold.
        await probe(blobs, ids)
        if isinstance(blobs, LocalBlobs):
            await blobs.sweep(LEFTOVERS_AFTER_SECONDS, clock.now())
        database = SqliteDatabase(home / "quire.db")
        await database.open()
        try:
            ledger, queues = SqliteLedger(database), SqliteQueues(database, ids)
            await ledger.prepare()
            await queues.prepare()
            known = pipelines if pipelines is not None else build_pipelines(settings)
            signal = LoopSignal()
            greeting = Greeting(
                blobs_root=str(_blobs_root(settings)),
                s3=_access(settings.s3) if settings.store == "s3" else None,
                step_modules=step_modules,
                scratch=str(scratch),
            )

            @asynccontextmanager
            async def conducting() -> AsyncIterator[Conductor]:
                compute = LocalCompute(
                    command=WORKER_COMMAND,
                    environment=worker_environment() | WORKER_ENVIRONMENT,
                    greeting=msgspec.json.encode(greeting),
                    workers=settings.worker_count,
                    clock=clock,
                    signal=signal,
                )
                compute.start()
                try:
                    yield Conductor(
                        ledger=ledger,
                        blobs=blobs,
                        mail=Mail(ledger, queues, blobs, clock),
                        compute=compute,
                        pipelines=known,
                        clock=clock,
                        ids=ids,
                        signal=signal,
                        policy=retry_policy(settings),
                    )
                finally:
                    await compute.stop(0)

            yield House(
                ledger=ledger, blobs=blobs, clock=clock, ids=ids, pipelines=known, conducting=conducting
            )
        finally:
            await database.close()
            await blobs.close()


def open_blobs(settings: Settings) -> Blobs:
    return open_store(_blobs_root(settings), _access(settings.s3) if settings.store == "s3" else None)


async def probe_store(settings: Settings) -> list[str]:
    """The promises the configured store keeps; raises Misconfigured naming the one it breaks."""
    folders = (*reversed(settings.home.parents), settings.home)
    first_made = next((folder for folder in folders if not folder.exists()), None)
    blobs = open_blobs(settings)
    try:
        return await probe(blobs, SystemIds())
    finally:
        await blobs.close()
        if first_made is not None:
            # Looking must leave no trace: the home is made, for its owner alone, by the first run.
            shutil.rmtree(first_made, ignore_errors=True)


def build_pipelines(settings: Settings) -> dict[str, Pipeline]:
    chosen = settings.preprocess
    return {
        "preprocess": preprocess(
            public_url=chosen.public_url,
            tiff_quality=chosen.tiff_quality,
            variant_quality=chosen.variant_quality,
            all_pages=chosen.all_pages,
            max_pixels=chosen.max_megapixels * 1_000_000,
            tiff_timeout_seconds=chosen.tiff_timeout_seconds,
            image_timeout_seconds=chosen.image_timeout_seconds,
            memory_mb=chosen.memory_mb,
            max_attempts=chosen.max_attempts,
        )
    }


def retry_policy(settings: Settings) -> RetryPolicy:
    return RetryPolicy(
        max_interruptions=settings.retry.max_interruptions,
        first_delay_seconds=settings.retry.first_delay_seconds,
        longest_delay_seconds=settings.retry.longest_delay_seconds,
    )


def _access(chosen: S3) -> S3Access:
    return S3Access(
        bucket=chosen.bucket,
        endpoint=chosen.endpoint,
        region=chosen.region,
        access_key_id=chosen.access_key_id.reveal(),
        secret_access_key=chosen.secret_access_key.reveal(),
        prefix=chosen.prefix,
        allow_http=chosen.allow_http,
    )


def _blobs_root(settings: Settings) -> Path:
    return settings.home / "blobs"


@contextmanager
def _only_one(home: Path) -> Iterator[None]:
    """One process tree per home. The lock goes with the process, however it ends."""
    try:
        # Other people's documents lie here: for nobody else's eyes.
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(home / "quire.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Misconfigured(
            f"the home folder {home} cannot be used: {error.strerror}; "
            "choose another with --home or QUIRE_HOME"
        ) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
            raise Misconfigured(
                f"another quire (process {holder}) is working in {home}; wait or choose another --home",
                code="home_busy",
            ) from error
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(lock)


@contextmanager
def _scratch(home: Path) -> Iterator[Path]:
    """A fresh folder for what workers are making; what a killed run left there is removed first."""
    folder = home / "scratch"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
