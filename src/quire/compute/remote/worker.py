"""A remote worker: fetches one input, runs the step, stores the outputs, and calls back.

Promises: the outputs and the body of the callback are stored before the callback, so that a lost callback
loses nothing; every failure becomes a callback with the reason. Runs as a separate process, for one
attempt.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import msgspec
from msgspec import Struct

from quire.compute import failures
from quire.compute.decoder.handle import Decoder, DecodingError
from quire.compute.failures import AttemptFailure
from quire.compute.pool import memory
from quire.compute.pool.memory_budget import UNLIMITED_MB
from quire.compute.pool.meter import MeterChannel, Nowhere, OrderMeter
from quire.compute.remote.callback_body import CallbackExtension, CallbackProduct
from quire.compute.remote.environment import RemoteTask
from quire.compute.remote.output_keys import MAX_PAGES, REFERENCE, RESULT, output_key, page_role
from quire.compute.remote.output_request import AT_ONCE
from quire.compute.remote.place_requests import StoreError, get_places, is_over, mark_store_errors
from quire.compute.remote.transfer import TransferClient
from quire.model.clock import Clock
from quire.model.errors import Bug, QuireError, Reject
from quire.model.files import File, stem_and_extension
from quire.model.step import OutputFile, Step, StepInput, StepOutput
from quire.model.work import Order, StepCall, Value


class TaskFiles(Protocol):
    """Fetches the input and stores the outputs."""

    async def fetch(self, target: Path) -> None:
        """Raises a QuireError."""
        ...

    async def put(self, role: str, key: str, source: Path, content_type: str, url: str = "") -> bool:
        """Store an output; `url` is that of a requested place. False: there is no place for this role."""
        ...

    async def archive(self, key: str, source: Path, content_type: str, labels: Mapping[str, str]) -> bool:
        """Store the original in the archive. False: there is no archive."""
        ...


class RemoteWorkerContext(Struct, frozen=True, kw_only=True):
    files: TaskFiles
    client: TransferClient
    steps: Mapping[str, Step]
    clock: Clock
    folder: Path
    decoder: Decoder | None = None  # None: the step runs in this process


class Stopwatch:
    """How long each part took, as a callback reports it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = self._last = clock.monotonic()
        self.parts: dict[str, int] = {}

    def lap(self, part: str) -> None:
        now = self._clock.monotonic()
        self.parts[part] = round((now - self._last) * 1000)
        self._last = now

    def performance(self) -> dict[str, int]:
        return {"total_time_ms": round((self._clock.monotonic() - self._began) * 1000), **self.parts}


async def run_task(task: RemoteTask, context: RemoteWorkerContext) -> bool:
    """True when the task succeeded and the callback was sent, or when the attempt is over: then nothing is
    stored or sent. Raises a QuireError when the callback could not be sent.
    """
    if await is_over(context.client, task.more_url):
        return True
    watch = Stopwatch(context.clock)
    body_fields: dict[str, Any] = {"task_id": task.task_id, "batch_id": task.batch_id}
    try:
        body_fields |= {
            "status": "success",
            **await _run_step(task, context, watch),
            "performance": watch.performance(),
        }
    except Exception as error:  # noqa: BLE001 - any error becomes the callback
        body_fields |= _describe_failure(task, error)
    body = msgspec.json.encode(body_fields)
    await _store_callback(task, context, body)
    await context.client.post(task.callback_url, body, "the callback")
    return "error" not in body_fields


async def _run_step(task: RemoteTask, context: RemoteWorkerContext, watch: Stopwatch) -> dict[str, Any]:
    source = context.folder / "input"
    await mark_store_errors(context.files.fetch(source))
    watch.lap("download_time_ms")
    output, source = _compute(task, context, source)
    if task.step == "tiff_to_jpeg":
        return await _store_pages(task, context, output, watch)
    return await _store_variants(task, context, output, source, watch)


def _compute(task: RemoteTask, context: RemoteWorkerContext, source: Path) -> tuple[StepOutput, Path]:
    """The output of the step, and where its input is now. Raises DecodingError, or what the step raises."""
    step, file = context.steps[task.step], _build_file(task, source)
    call = _build_call(task, step.version)
    place = None if context.decoder is None else context.decoder.prepare(step, call)
    if context.decoder is None or place is None:
        folder = context.folder / "outputs"
        folder.mkdir()
        step_input = StepInput(file=file, source=source, folder=folder, options=task.options)
        memory.estimate_mb(step, step_input, call)  # raises Reject before the step starts
        return step.run(step_input), source
    source = source.rename(place.inputs / "input")
    step_input = StepInput(file=file, source=source, folder=place.outputs, options=task.options)
    run = ConfinedTask(call, step_input, OrderMeter(MeterChannel(Nowhere(), context.clock), 0.0))
    computed = context.decoder.compute(run, step_input, call.memory_mb, lambda _: True, Nowhere())
    if computed is None:
        raise Bug("a step that nobody made wait has waited")
    return computed.output, source


class ConfinedTask:
    """The task as its decoder asks for it: its input lies there already."""

    def __init__(self, call: StepCall, step_input: StepInput, meter: OrderMeter) -> None:
        self.call = call
        self.order = Order(0, 0, 0, step_input.file)
        self.folder = step_input.folder
        self.meter = meter
        self._source = step_input.source

    def is_input_file(self, path: Path) -> bool:
        return path == self._source

    def fetch(self, file: File) -> Path:  # noqa: ARG002 - there is one
        return self._source

    def resolve(self, value: Value) -> Any:
        return value.data


async def _store_pages(
    task: RemoteTask, context: RemoteWorkerContext, output: StepOutput, watch: Stopwatch
) -> dict[str, Any]:
    watch.lap("conversion_time_ms")
    first, *others = output.files
    later = await _store_later_pages(task, context, others)
    product = await _store_output(task, context, first)  # last: when it is there, the others are too
    watch.lap("upload_time_ms")
    return {
        "output_r2_key": product.key,
        "output_file_name": product.key.rpartition("/")[2],
        "output_file_size": product.size,
        **_extend(task, CallbackExtension(facts=output.facts, products=(product, *later))),
    }


async def _store_later_pages(
    task: RemoteTask, context: RemoteWorkerContext, pages: list[OutputFile]
) -> list[CallbackProduct]:
    """A published callback names one output, so only a server of Quire accepts the other pages."""
    if not pages:
        return []
    count = len(pages) + 1
    if not task.is_extended or not task.more_url or count > MAX_PAGES:
        most = MAX_PAGES if task.is_extended and task.more_url else 1
        raise Reject(
            f"the TIFF has {count} pages, and remote workers return {most} at most; set compute.tiff "
            "to local, or preprocess.all_pages to false",
            code="many_pages",
        )
    stored = []
    for start in range(0, len(pages), AT_ONCE):
        some = pages[start : start + AT_ONCE]
        roles = [page_role(start + number) for number in range(2, len(some) + 2)]
        places = await get_places(context.client, task.more_url, roles)
        for file, role in zip(some, roles, strict=True):
            stored.append(await _put(context, file, role, places[role].key, places[role].url))
    return stored


async def _store_variants(
    task: RemoteTask, context: RemoteWorkerContext, output: StepOutput, source: Path, watch: Stopwatch
) -> dict[str, Any]:
    watch.lap("resize_time_ms")
    reference = next(file for file in output.files if file.role == REFERENCE)
    copies = [await _store_output(task, context, file) for file in output.files if file is not reference]
    await _register(task, context, output.facts, copies, source)
    watch.lap("cdn_upload_time_ms")
    archived = await _archive_original(task, context, output.facts, source)
    watch.lap("archive_time_ms")
    stored = await _store_output(task, context, reference)  # last: when it is there, the others are too
    return {
        "ref_json_r2_key": stored.key,
        "ref_data": msgspec.json.decode(reference.path.read_bytes()),
        **archived,
        **_extend(task, CallbackExtension(facts=output.facts, products=(*copies, stored))),
    }


async def _store_output(task: RemoteTask, context: RemoteWorkerContext, file: OutputFile) -> CallbackProduct:
    return await _put(context, file, file.role, output_key(task.input_key, file.role))


async def _put(
    context: RemoteWorkerContext, file: OutputFile, role: str, key: str, url: str = ""
) -> CallbackProduct:
    if not await mark_store_errors(context.files.put(role, key, file.path, file.content_type, url)):
        raise Reject(f"there is no place for the output {role!r}", code="bad_task")
    size = file.path.stat().st_size
    return CallbackProduct(
        role=file.role, key=key, size=size, content_type=file.content_type, facts=file.facts
    )


async def _register(
    task: RemoteTask,
    context: RemoteWorkerContext,
    facts: Mapping[str, Any],
    copies: list[CallbackProduct],
    source: Path,
) -> None:
    """Register the picture and its copies as an asset. Raises a QuireError."""
    if not task.registry_url:
        return
    width, height = facts["width"], facts["height"]
    variants = {
        one.role: {
            "r2_key": one.key,
            "width": one.facts["width"],
            "height": one.facts["height"],
            "size_bytes": one.size,
        }
        for one in copies
    }
    original = {"r2_key": task.original_key, "width": width, "height": height}
    variants["original"] = {**original, "size_bytes": _build_file(task, source).size}
    asset = {
        "is_image": True,
        "content_type": facts["content_type"],
        "original_width": width,
        "original_height": height,
        "default_variant": "medium" if "medium" in variants else "original",
        "variants": variants,
    }
    url = f"{task.registry_url}/asset/{facts['asset_id']}"
    await context.client.post(url, msgspec.json.encode(asset), "the asset registry")


async def _archive_original(
    task: RemoteTask, context: RemoteWorkerContext, facts: Mapping[str, Any], source: Path
) -> dict[str, str]:
    ending = stem_and_extension(task.name)[1].lower() or ".bin"
    key = f"archive/{task.batch_id}/{facts['asset_id']}/original{ending}"
    labels = {
        "original-r2-key": quote(task.original_key),
        "batch-id": task.batch_id,
        "task-id": task.task_id,
        "ipfs-cid": facts["cid"],
    }
    there = await mark_store_errors(context.files.archive(key, source, facts["content_type"], labels))
    return {"archive_r2_key": key} if there else {}


async def _store_callback(task: RemoteTask, context: RemoteWorkerContext, body: bytes) -> None:
    """Store the body of the callback beside the outputs, if possible; otherwise only the callback has it."""
    if RESULT not in task.output_urls:
        return
    path = context.folder / "result.json"
    path.write_bytes(body)
    try:
        await context.files.put(RESULT, "", path, "application/json")
    except QuireError:
        return


def _describe_failure(task: RemoteTask, error: Exception) -> dict[str, Any]:
    call = _build_call(task)
    failure: AttemptFailure
    if isinstance(error, DecodingError):
        failure = error.failure
    elif isinstance(error, StoreError) and error.__cause__ is not None:
        failure = failures.of_store(error.__cause__, call)
    else:
        failure = failures.of_error(error, call)
    extension = CallbackExtension(outcome=failure.outcome.value, error_class=failure.error_class)  # type: ignore[arg-type]
    return {"status": "error", "error": failure.error, **_extend(task, extension)}


def _build_call(task: RemoteTask, version: int = 0) -> StepCall:
    memory_mb = task.memory_mb or UNLIMITED_MB
    return StepCall(step=task.step, version=version, options=task.options, memory_mb=memory_mb)


def _extend(task: RemoteTask, extension: CallbackExtension) -> dict[str, CallbackExtension]:
    """Only a server of Quire gets more than the published contract."""
    return {"quire": extension} if task.is_extended else {}


def _build_file(task: RemoteTask, source: Path) -> File:
    return File(
        key=task.input_key,
        path=f"/{task.name}",
        name=task.name,
        size=source.stat().st_size,
        content_type=task.content_type,
        cid=task.cid,
    )
