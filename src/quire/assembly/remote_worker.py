"""The entrance of a worker that runs elsewhere: its few components, from its environment alone."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import structs

from quire.assembly.machine import memory_mb
from quire.assembly.worker_blobs import S3Access, open_store
from quire.blobs.port import Blobs
from quire.compute.remote.environment import BucketAccess, RemoteTask, read_task
from quire.compute.remote.transfer import TransferClient
from quire.compute.remote.worker import RemoteWorkerContext, run_task
from quire.settings import task_environment
from quire.steps.registry import STEPS
from quire.system import SystemClock, SystemIds


class PresignedTaskFiles:
    """By presigned URLs: needs no key of the store."""

    def __init__(self, errand: RemoteTask, line: TransferClient) -> None:
        self._errand = errand
        self._line = line

    async def fetch(self, target: Path) -> None:
        await self._line.fetch(self._errand.input_url, target)

    async def put(self, role: str, key: str, source: Path, content_type: str, url: str = "") -> bool:  # noqa: ARG002
        url = url or self._errand.output_urls.get(role, "")
        if not url:
            return False
        await self._line.put(url, source, content_type)
        return True

    async def archive(self, key: str, source: Path, content_type: str, labels: Mapping[str, str]) -> bool:  # noqa: ARG002
        return False


class BlobTaskFiles:
    """By keys of the store, as the published workers do."""

    def __init__(self, errand: RemoteTask, blobs: Blobs, archive: Blobs | None) -> None:
        self._errand = errand
        self._blobs = blobs
        self._archive = archive

    async def fetch(self, target: Path) -> None:
        with target.open("wb") as file:
            async for piece in self._blobs.stream(self._errand.input_key):
                file.write(piece)

    async def put(self, role: str, key: str, source: Path, content_type: str, url: str = "") -> bool:  # noqa: ARG002
        await self._blobs.put(key, source, content_type=content_type)
        return True

    async def archive(self, key: str, source: Path, content_type: str, labels: Mapping[str, str]) -> bool:
        if self._archive is None:
            return False
        await self._archive.put(key, source, content_type=content_type, metadata=labels)
        return True


async def run_remote_task() -> bool:
    """One task, as this process's environment says. True: done, and told. Raises a QuireError."""
    errand = read_task(task_environment())
    there = memory_mb()  # a machine may be smaller than the house thinks
    errand = structs.replace(errand, memory_mb=min(errand.memory_mb or there, there))
    with TemporaryDirectory(prefix="quire-task-") as folder:
        async with TransferClient(sleep=asyncio.sleep, fraction=SystemIds().fraction) as line:
            opened = [] if errand.input_url or errand.access is None else _stores(errand.access)
            carrier = (
                BlobTaskFiles(errand, opened[0], opened[1] if len(opened) > 1 else None)
                if opened
                else PresignedTaskFiles(errand, line)
            )
            kit = RemoteWorkerContext(
                carrier=carrier, line=line, steps=STEPS, clock=SystemClock(), folder=Path(folder)
            )
            try:
                return await run_task(errand, kit)
            finally:
                for blobs in opened:
                    await blobs.close()


def _stores(access: BucketAccess) -> list[Blobs]:
    """The bucket of the inputs, and that of the archive where there is one."""
    buckets = [access.bucket, access.archive_bucket] if access.archive_bucket else [access.bucket]
    return [open_store(Path(), _access(access, bucket)) for bucket in buckets]


def _access(access: BucketAccess, bucket: str) -> S3Access:
    return S3Access(
        bucket=bucket,
        endpoint=access.endpoint,
        region="auto",
        access_key_id=access.access_key_id,
        secret_access_key=access.secret_access_key,
        prefix="",
        allow_http=access.endpoint.startswith("http://"),
    )
