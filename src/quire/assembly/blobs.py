"""The blob store and its other ports, from settings: the only place that chooses between a folder and S3.

Worker processes know no settings: they import `worker_blobs` alone and are sent a `WorkerConfiguration`.
"""

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from quire.assembly.worker_blobs import S3Access, WorkerConfiguration, open_store
from quire.assembly.worker_steps import WorkerPipeline
from quire.blobs.objects import BlobObjects
from quire.blobs.port import Blobs
from quire.blobs.probe import probe
from quire.model.clock import Clock
from quire.model.ids import Ids
from quire.model.objects import Objects
from quire.model.probe import Probe
from quire.settings import Settings
from quire.system import SystemIds


def open_blobs(settings: Settings) -> Blobs:
    return open_store(settings.home / "blobs", s3_access(settings))


def open_objects(blobs: Blobs, s3: S3Access | None, clock: Clock, ids: Ids) -> Objects:
    """State in the store of `blobs`, which is S3 when access to it is given."""
    if s3 is None:
        return BlobObjects(blobs, ids)
    from quire.blobs.s3.objects import S3Objects

    return S3Objects(clock=clock, ids=ids, **s3.address())


def encode_worker_configuration(
    settings: Settings,
    step_modules: tuple[str, ...],
    scratch: Path,
    pipelines: tuple[WorkerPipeline, ...] = (),
) -> bytes:
    configuration = WorkerConfiguration(
        blobs_root=str(settings.home / "blobs"),
        s3=s3_access(settings),
        step_modules=step_modules,
        scratch=str(scratch),
        pipelines=pipelines,
        sandbox=settings.sandbox,
        private=(str(settings.home),),
    )
    return msgspec.json.encode(configuration)


def s3_access(settings: Settings) -> S3Access | None:
    """None: the store is a folder."""
    if settings.store != "s3":
        return None
    chosen = settings.s3
    return S3Access(
        bucket=chosen.bucket,
        endpoint=chosen.endpoint,
        region=chosen.region,
        access_key_id=chosen.access_key_id.reveal(),
        secret_access_key=chosen.secret_access_key.reveal(),
        prefix=chosen.prefix,
        allow_http=chosen.allow_http,
        checksums=chosen.checksums,
    )


async def probe_store(settings: Settings) -> list[Probe]:
    """The promises that the configured store keeps. Raises Misconfigured naming those it breaks."""
    folders = (*reversed(settings.home.parents), settings.home)
    first_made = next((folder for folder in folders if not folder.exists()), None)
    blobs = open_blobs(settings)
    try:
        return await probe(blobs, SystemIds())
    finally:
        await blobs.close()
        if first_made is not None:
            # A check must leave no trace: the first run creates the home, for its owner alone.
            _remove_empty(first_made)


def _remove_empty(folder: Path) -> None:
    """Remove the folder and its subfolders unless they hold files: another process may have started there."""
    for inner, _, _ in os.walk(folder, topdown=False):
        with suppress(OSError):
            Path(inner).rmdir()
