"""The store out of settings, and what worker processes of this machine are greeted with.

Apart from `stores`, which those processes import: they know no settings.
"""

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from quire.assembly.worker_blobs import S3Access, WorkerConfiguration, open_store
from quire.blobs.port import Blobs
from quire.blobs.probe import probe
from quire.settings import S3, Settings
from quire.system import SystemIds


def open_blobs(settings: Settings) -> Blobs:
    return open_store(settings.home / "blobs", _access(settings.s3) if settings.store == "s3" else None)


def encode_worker_configuration(settings: Settings, step_modules: tuple[str, ...], scratch: Path) -> bytes:
    said = WorkerConfiguration(
        blobs_root=str(settings.home / "blobs"),
        s3=_access(settings.s3) if settings.store == "s3" else None,
        step_modules=step_modules,
        scratch=str(scratch),
    )
    return msgspec.json.encode(said)


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
            _remove_empty(first_made)


def _remove_empty(folder: Path) -> None:
    """It and what is in it, as far as it is empty: somebody may have begun to work there meanwhile."""
    for inner, _, _ in os.walk(folder, topdown=False):
        with suppress(OSError):
            Path(inner).rmdir()
