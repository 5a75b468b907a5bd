"""The entry point of a remote worker: its components, from its environment alone; steps that people have
written come from its own settings.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import structs

from quire.assembly.decoder import choose_decoding
from quire.assembly.machine import memory_mb
from quire.assembly.worker_blobs import S3Access, open_store
from quire.blobs import checked_reads
from quire.blobs.port import Blobs
from quire.compute.decoder.handle import Decoder
from quire.compute.remote.environment import BucketAccess, RemoteTask, read_task
from quire.compute.remote.step_task import StepTask, is_step_task, read_step_task
from quire.compute.remote.step_worker import StepTaskRun, StepWorkerContext
from quire.compute.remote.transfer import TransferClient
from quire.compute.remote.worker import RemoteWorkerContext, run_task
from quire.settings import read_sandbox_mode, task_environment
from quire.steps.registry import STEPS
from quire.system import SystemClock, SystemIds


class PresignedTaskFiles:
    """Files by presigned URLs; needs no keys of the store."""

    def __init__(self, task: RemoteTask, client: TransferClient) -> None:
        self._task = task
        self._client = client

    async def fetch(self, target: Path) -> None:
        await self._client.fetch(self._task.input_url, target, self._task.digest)

    async def put(self, role: str, key: str, source: Path, content_type: str, url: str = "") -> bool:  # noqa: ARG002
        url = url or self._task.output_urls.get(role, "")
        if not url:
            return False
        await self._client.put(url, source, content_type)
        return True

    async def archive(self, key: str, source: Path, content_type: str, labels: Mapping[str, str]) -> bool:  # noqa: ARG002
        return False


class BlobTaskFiles:
    """Files by keys of the store, as the published workers access them."""

    def __init__(self, task: RemoteTask, blobs: Blobs, archive: Blobs | None) -> None:
        self._task = task
        self._blobs = blobs
        self._archive = archive

    async def fetch(self, target: Path) -> None:
        with target.open("wb") as file:
            async for piece in checked_reads.stream(self._blobs, self._task.input_key, self._task.digest):
                file.write(piece)

    async def put(self, role: str, key: str, source: Path, content_type: str, url: str = "") -> bool:  # noqa: ARG002
        await self._blobs.put(key, source, content_type=content_type)
        return True

    async def archive(self, key: str, source: Path, content_type: str, labels: Mapping[str, str]) -> bool:
        if self._archive is None:
            return False
        await self._archive.put(key, source, content_type=content_type, metadata=labels)
        return True


def run_remote_task() -> bool:
    """Run the task of this process's environment. True when it succeeded. Raises a QuireError."""
    environment = task_environment()
    if is_step_task(environment):
        return _run_step_task(read_step_task(environment))
    return asyncio.run(_run_built_in(read_task(environment)))


def _run_step_task(task: StepTask) -> bool:
    """A step that people have written: of this machine's own pipelines."""
    from quire.assembly.task_pipelines import load_task_step

    ids = SystemIds()
    with TemporaryDirectory(prefix="quire-task-") as folder:
        context = StepWorkerContext(
            open_client=lambda: TransferClient(sleep=asyncio.sleep, fraction=ids.fraction),
            load=load_task_step,
            clock=SystemClock(),
            folder=Path(folder),
        )
        return StepTaskRun(task, context).run()


async def _run_built_in(task: RemoteTask) -> bool:
    available = memory_mb()  # a machine may be smaller than the server assumes
    task = structs.replace(task, memory_mb=min(task.memory_mb or available, available))
    setup = choose_decoding(read_sandbox_mode(), ("quire.steps.registry",))
    with TemporaryDirectory(prefix="quire-task-") as folder:
        decoder = None if setup is None else Decoder(setup, Path(folder))
        async with TransferClient(sleep=asyncio.sleep, fraction=SystemIds().fraction) as client:
            opened = [] if task.input_url or task.access is None else _open_stores(task.access)
            files = (
                BlobTaskFiles(task, opened[0], opened[1] if len(opened) > 1 else None)
                if opened
                else PresignedTaskFiles(task, client)
            )
            context = RemoteWorkerContext(
                files=files,
                client=client,
                steps=STEPS,
                clock=SystemClock(),
                folder=Path(folder),
                decoder=decoder,
            )
            try:
                return await run_task(task, context)
            finally:
                if decoder is not None:
                    decoder.close()
                for blobs in opened:
                    await blobs.close()


def _open_stores(access: BucketAccess) -> list[Blobs]:
    """The bucket of the inputs, and that of the archive if there is one."""
    buckets = [access.bucket, access.archive_bucket] if access.archive_bucket else [access.bucket]
    return [open_store(Path(), _build_access(access, bucket)) for bucket in buckets]


def _build_access(access: BucketAccess, bucket: str) -> S3Access:
    return S3Access(
        bucket=bucket,
        endpoint=access.endpoint,
        region="auto",
        access_key_id=access.access_key_id,
        secret_access_key=access.secret_access_key,
        prefix="",
        allow_http=access.endpoint.startswith("http://"),
    )
