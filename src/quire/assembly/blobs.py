"""The store out of settings, and what worker processes of this machine are greeted with.

Apart from `stores`, which those processes import: they know no settings.
"""

from pathlib import Path

import msgspec

from quire.assembly.worker_blobs import Greeting, S3Access, open_store
from quire.blobs.port import Blobs
from quire.settings import S3, Settings


def open_blobs(settings: Settings) -> Blobs:
    return open_store(settings.home / "blobs", _access(settings.s3) if settings.store == "s3" else None)


def greeting(settings: Settings, step_modules: tuple[str, ...], scratch: Path) -> bytes:
    said = Greeting(
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
