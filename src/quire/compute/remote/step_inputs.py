"""What a step is given on a machine of its own: fetched by the URLs of its task.

Promises: documents of a folder and large values are fetched when the step asks for them, once each, and
nothing else can be had; bytes of a value that do not match their digest are never decoded. Must not know: how
the step runs and what it returns.
"""

import asyncio
import hashlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from quire.blobs import keys
from quire.blobs.checked_reads import find_digest
from quire.compute.pool.members import read_members
from quire.compute.remote.place_requests import mark_store_errors
from quire.compute.remote.step_task import MAX_UNIT_BYTES, GivenValue, StepTask, StepTaskDetails
from quire.compute.remote.transfer import TransferClient, damaged
from quire.model.errors import Reject
from quire.model.files import File
from quire.model.step import Meter, Step, StepInput
from quire.model.work import MAX_VALUE_BYTES, Value

T = TypeVar("T")


class StepInputs:
    """The input of one task. `folder` is for files of its own, `outputs` for those of the step."""

    def __init__(
        self, task: StepTask, open_client: Callable[[], TransferClient], folder: Path, outputs: Path
    ) -> None:
        self._task = task
        self._open_client = open_client
        self._folder = folder
        self._outputs = outputs
        self._source = folder / "input"
        self._urls: dict[str, str] = {}
        self._fetched: dict[str, Path] = {}  # by key
        self._downloads = 0
        self._lock = threading.RLock()  # a step may ask from several threads

    def is_input_file(self, path: Path) -> bool:
        """Is this one of the input's files? A step must not return those."""
        return path == self._source or path in self._fetched.values()

    async def load(self, step: Step, meter: Meter) -> StepInput:
        """Raises StoreError, and Reject for a task that cannot be right."""
        async with self._open_client() as client:
            details = await self._load_details(client)
            has_source = step.needs_source or details.is_unit
            if has_source:
                await mark_store_errors(
                    client.fetch(self._task.input_url, self._source, _digest(details.file))
                )
            values = {name: await self._load_given(client, one) for name, one in details.values.items()}
        if has_source and not details.is_unit:
            self._fetched[details.file.key] = self._source
        self._urls = details.urls
        return StepInput(
            file=details.file,
            source=self._source if has_source else self._outputs,
            folder=self._outputs,
            options=details.options,
            members=read_members(self._source, details.file) if details.is_unit else (),
            earlier=details.earlier,
            values=values,
            fetch=self.fetch,
            resolve=self.resolve,
            meter=meter,
            task=details.task,
        )

    def fetch(self, file: File) -> Path:
        """See `StepInput.fetch`."""
        with self._lock:
            path = self._fetched.get(file.key)
            if path is None:
                path = self._folder / f"member-{len(self._fetched) + 1}"
                _run_in_thread(self._fetch_one(self._find_url(file.key, file.path), path, _digest(file)))
                self._fetched[file.key] = path
            return path

    def resolve(self, value: Value) -> Any:
        """See `StepInput.resolve`."""
        if not value.digest:
            return value.data
        url = self._find_url(keys.content(value.digest), "a value of an earlier step")
        return _run_in_thread(self._resolve(GivenValue(url=url, size=value.size, digest=value.digest)))

    def _find_url(self, key: str, name: str) -> str:
        url = self._urls.get(key)
        if url is None:
            raise Reject(f"{name!r} is not among what this task was given", code="not_elsewhere")
        return url

    async def _fetch_one(self, url: str, path: Path, digest: str) -> None:
        async with self._open_client() as client:
            await mark_store_errors(client.fetch(url, path, digest))

    async def _resolve(self, value: GivenValue) -> Any:
        async with self._open_client() as client:
            return await self._load_given(client, value)

    async def _load_details(self, client: TransferClient) -> StepTaskDetails:
        data = await self._download(client, self._task.details_url, MAX_UNIT_BYTES)
        try:
            return msgspec.json.decode(data, type=StepTaskDetails)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise Reject(f"the details of the task are invalid: {error}", code="bad_task") from error

    async def _load_given(self, client: TransferClient, value: GivenValue) -> Any:
        if not value.url:
            return value.data
        data = await self._download(client, value.url, MAX_VALUE_BYTES)
        if hashlib.sha256(data).hexdigest() != value.digest:
            raise damaged("value of an earlier step")
        return msgspec.json.decode(data)

    async def _download(self, client: TransferClient, url: str, limit: int) -> bytes:
        with self._lock:
            self._downloads += 1
            path = self._folder / f"download-{self._downloads}"
        await mark_store_errors(client.fetch(url, path))
        if path.stat().st_size > limit:
            raise Reject(f"the task has an input of more than {limit} bytes", code="bad_task")
        data = path.read_bytes()
        path.unlink()
        return data


def _digest(file: File) -> str:
    return find_digest(file.key, file.digest)


def _run_in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Wait for it in a thread with a loop of its own: a step may itself be a coroutine."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, work).result()
