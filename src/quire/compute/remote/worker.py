"""A worker that runs elsewhere: fetches one input, runs the step, stores the outputs, and calls back.

Promises: outputs are stored before the call, and so is what the call says, so that a lost call loses nothing;
whatever goes wrong becomes a call that says so. Runs as a process of its own, for one attempt.
"""

from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from quire.compute import failures
from quire.compute.failures import Failure
from quire.compute.pool import memory
from quire.compute.pool.memory_budget import UNLIMITED_MB
from quire.compute.remote.callback_body import Own, OwnProduct
from quire.compute.remote.environment import RemoteTask
from quire.compute.remote.output_keys import (
    MAX_PAGES,
    REFERENCE,
    RESULT,
    output_key,
    page_role,
)
from quire.compute.remote.output_request import (
    AT_ONCE,
    MoreOutputs,
    OutputPlace,
    OutputPlaces,
)
from quire.compute.remote.transfer import ErrandLine
from quire.model.clock import Clock
from quire.model.errors import QuireError, Reject
from quire.model.files import File, stem_and_extension
from quire.model.step import Made, Step, StepInput, StepOutput
from quire.model.work import StepCall

T = TypeVar("T")


class Carrier(Protocol):
    """Brings the input and takes the outputs away."""

    async def fetch(self, target: Path) -> None:
        """Raises a QuireError."""
        ...

    async def put(self, role: str, key: str, source: Path, content_type: str, url: str = "") -> bool:
        """Store an output; `url` is for one that was asked for. False: there is no place for this role."""
        ...

    async def archive(self, key: str, source: Path, content_type: str, labels: Mapping[str, str]) -> bool:
        """Keep the original for good. False: there is no archive."""
        ...


class Kit(Struct, frozen=True, kw_only=True):
    carrier: Carrier
    line: ErrandLine
    steps: Mapping[str, Step]
    clock: Clock
    folder: Path


class Watch:
    """How long each part took, in the words of a callback."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = self._last = clock.monotonic()
        self.parts: dict[str, int] = {}

    def lap(self, part: str) -> None:
        now = self._clock.monotonic()
        self.parts[part] = round((now - self._last) * 1000)
        self._last = now

    def told(self) -> dict[str, int]:
        return {"total_time_ms": round((self._clock.monotonic() - self._began) * 1000), **self.parts}


async def run(errand: RemoteTask, kit: Kit) -> bool:
    """True when the task is done and was told, or is not to be done any more: then nothing is stored and
    nothing is told. Raises a QuireError when nobody could be told.
    """
    if await _is_over(errand, kit):
        return True
    watch = Watch(kit.clock)
    said: dict[str, Any] = {"task_id": errand.task_id, "batch_id": errand.batch_id}
    try:
        said |= {"status": "success", **await _done(errand, kit, watch), "performance": watch.told()}
    except Exception as error:  # noqa: BLE001 - whatever it is becomes the callback
        said |= _failed(errand, error)
    body = msgspec.json.encode(said)
    await _keep(errand, kit, body)
    await kit.line.post(errand.callback_url, body, "the callback")
    return "error" not in said


async def _done(errand: RemoteTask, kit: Kit, watch: Watch) -> dict[str, Any]:
    source = kit.folder / "input"
    await _store(kit.carrier.fetch(source))
    watch.lap("download_time_ms")
    step = kit.steps[errand.step]
    folder = kit.folder / "made"
    folder.mkdir()
    given = StepInput(file=_file(errand, source), source=source, folder=folder, options=errand.options)
    memory.needed_mb(step, given, _call(errand))  # what cannot fit is refused in words, before it is begun
    output = step.run(given)
    if errand.step == "tiff_to_jpeg":
        return await _converted(errand, kit, output, watch)
    return await _referred(errand, kit, output, source, watch)


async def _converted(errand: RemoteTask, kit: Kit, output: StepOutput, watch: Watch) -> dict[str, Any]:
    watch.lap("conversion_time_ms")
    first, *others = output.made
    later = await _later_pages(errand, kit, others)
    product = await _carried(errand, kit, first)  # last: who finds it finds the others
    watch.lap("upload_time_ms")
    return {
        "output_r2_key": product.key,
        "output_file_name": product.key.rpartition("/")[2],
        "output_file_size": product.size,
        **_own(errand, Own(facts=output.facts, products=(product, *later))),
    }


async def _later_pages(errand: RemoteTask, kit: Kit, pages: list[Made]) -> list[OwnProduct]:
    """A callback of the contract names one output, so that only a house of ours can be told of them."""
    if not pages:
        return []
    count = len(pages) + 1
    if not errand.ours or not errand.more_url or count > MAX_PAGES:
        most = MAX_PAGES if errand.ours and errand.more_url else 1
        raise Reject(
            f"the TIFF has {count} pages, and workers elsewhere give back {most} at most; set compute.tiff "
            "to local, or preprocess.all_pages to false",
            code="many_pages",
        )
    stored = []
    for start in range(0, len(pages), AT_ONCE):
        some = pages[start : start + AT_ONCE]
        roles = [page_role(start + number) for number in range(2, len(some) + 2)]
        places = await _places(errand, kit, roles)
        for made, role in zip(some, roles, strict=True):
            stored.append(await _put(kit, made, role, places[role].key, places[role].url))
    return stored


async def _places(errand: RemoteTask, kit: Kit, roles: list[str]) -> dict[str, OutputPlace]:
    answer = await _store(_asked(errand, kit, roles))
    found = {one.role: one for one in answer.places}
    if not all(role in found for role in roles):
        raise Reject("there is no place for the pages: the attempt is over", code="bad_task")
    return found


async def _asked(errand: RemoteTask, kit: Kit, roles: list[str], *, once: bool = False) -> OutputPlaces:
    """Raises a QuireError."""
    body = msgspec.json.encode(MoreOutputs(roles=tuple(roles)))
    answer = await kit.line.ask(errand.more_url, body, "the question for places", once=once)
    try:
        return msgspec.json.decode(answer, type=OutputPlaces)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Reject("the question for places was answered with something else", code="bad_task") from error


async def _is_over(errand: RemoteTask, kit: Kit) -> bool:
    """Has the attempt ended before its work began? Where that cannot be told, the work is done."""
    if not errand.more_url:
        return False
    try:
        return not (await _asked(errand, kit, [], once=True)).current
    except QuireError:
        return False


async def _referred(
    errand: RemoteTask, kit: Kit, output: StepOutput, source: Path, watch: Watch
) -> dict[str, Any]:
    watch.lap("resize_time_ms")
    reference = next(made for made in output.made if made.role == REFERENCE)
    copies = [await _carried(errand, kit, made) for made in output.made if made is not reference]
    await _register(errand, kit, output.facts, copies, source)
    watch.lap("cdn_upload_time_ms")
    archived = await _archived(errand, kit, output.facts, source)
    watch.lap("archive_time_ms")
    stored = await _carried(errand, kit, reference)  # last: who finds it finds the others
    return {
        "ref_json_r2_key": stored.key,
        "ref_data": msgspec.json.decode(reference.path.read_bytes()),
        **archived,
        **_own(errand, Own(facts=output.facts, products=(*copies, stored))),
    }


async def _carried(errand: RemoteTask, kit: Kit, made: Made) -> OwnProduct:
    return await _put(kit, made, made.role, output_key(errand.input_key, made.role))


async def _put(kit: Kit, made: Made, role: str, key: str, url: str = "") -> OwnProduct:
    if not await _store(kit.carrier.put(role, key, made.path, made.content_type, url)):
        raise Reject(f"there is no place for the output {role!r}", code="bad_task")
    size = made.path.stat().st_size
    return OwnProduct(role=made.role, key=key, size=size, content_type=made.content_type, facts=made.facts)


async def _register(
    errand: RemoteTask, kit: Kit, facts: Mapping[str, Any], copies: list[OwnProduct], source: Path
) -> None:
    """Tell the asset registry of the picture and its copies. Raises a QuireError."""
    if not errand.registry_url:
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
    original = {"r2_key": errand.original_key, "width": width, "height": height}
    variants["original"] = {**original, "size_bytes": _file(errand, source).size}
    asset = {
        "is_image": True,
        "content_type": facts["content_type"],
        "original_width": width,
        "original_height": height,
        "default_variant": "medium" if "medium" in variants else "original",
        "variants": variants,
    }
    url = f"{errand.registry_url}/asset/{facts['asset_id']}"
    await kit.line.post(url, msgspec.json.encode(asset), "the asset registry")


async def _archived(errand: RemoteTask, kit: Kit, facts: Mapping[str, Any], source: Path) -> dict[str, str]:
    ending = stem_and_extension(errand.name)[1].lower() or ".bin"
    key = f"archive/{errand.batch_id}/{facts['asset_id']}/original{ending}"
    labels = {
        "original-r2-key": quote(errand.original_key),
        "batch-id": errand.batch_id,
        "task-id": errand.task_id,
        "ipfs-cid": facts["cid"],
    }
    there = await _store(kit.carrier.archive(key, source, facts["content_type"], labels))
    return {"archive_r2_key": key} if there else {}


async def _keep(errand: RemoteTask, kit: Kit, body: bytes) -> None:
    """What will be said, beside the outputs; where that cannot be, the call itself must do."""
    if RESULT not in errand.output_urls:
        return
    path = kit.folder / "result.json"
    path.write_bytes(body)
    try:
        await kit.carrier.put(RESULT, "", path, "application/json")
    except QuireError:
        return


class _StoreError(Exception):
    """Bytes could not be brought or taken away."""


async def _store(work: Awaitable[T]) -> T:
    try:
        return await work
    except QuireError as error:
        raise _StoreError from error


def _failed(errand: RemoteTask, error: Exception) -> dict[str, Any]:
    call = _call(errand)
    failure: Failure
    if isinstance(error, _StoreError) and error.__cause__ is not None:
        failure = failures.of_store(error.__cause__, call)
    else:
        failure = failures.of_error(error, call)
    own = Own(outcome=failure.outcome.value, error_class=failure.error_class)  # type: ignore[arg-type]
    return {"status": "error", "error": failure.error, **_own(errand, own)}


def _call(errand: RemoteTask) -> StepCall:
    memory_mb = errand.memory_mb or UNLIMITED_MB
    return StepCall(step=errand.step, version=0, options=errand.options, memory_mb=memory_mb)


def _own(errand: RemoteTask, own: Own) -> dict[str, Own]:
    """An orchestrator that is not ours gets what the contract says, and nothing else."""
    return {"quire": own} if errand.ours else {}


def _file(errand: RemoteTask, source: Path) -> File:
    return File(
        key=errand.input_key,
        path=f"/{errand.name}",
        name=errand.name,
        size=source.stat().st_size,
        content_type=errand.content_type,
        cid=errand.cid,
    )
