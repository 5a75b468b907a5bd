"""Blob stores for processes that know no settings, and the configuration of worker processes."""

from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from quire.assembly.worker_steps import WorkerPipeline
from quire.blobs.local import LocalBlobs
from quire.blobs.port import Blobs
from quire.model.step import SandboxMode


class WorkerConfiguration(Struct, frozen=True, kw_only=True):
    """The configuration of a worker process; sent over its pipe, never in arguments or the environment."""

    blobs_root: str
    s3: "S3Access | None"
    step_modules: tuple[str, ...]
    scratch: str
    pipelines: tuple[WorkerPipeline, ...] = ()
    sandbox: SandboxMode = "auto"
    private: tuple[str, ...] = ()  # what no decoder may read: the home folder, the settings


class S3Access(Struct, frozen=True, kw_only=True):
    """The S3 settings with their secrets: only for the pipe to a worker."""

    bucket: str
    endpoint: str
    region: str
    access_key_id: str
    secret_access_key: str
    prefix: str
    allow_http: bool
    checksums: bool = False

    def address(self) -> dict[str, Any]:
        """All but what is for the blob store alone."""
        return {name: value for name, value in structs.asdict(self).items() if name != "checksums"}


def open_store(root: Path, s3: S3Access | None) -> Blobs:
    """The local store in `root`, or S3 when access to it is given."""
    if s3 is None:
        return LocalBlobs(root)
    from quire.blobs.s3 import S3Blobs

    return S3Blobs(**structs.asdict(s3))
