"""Tasks that are done elsewhere, seen from the house: what their workers are told, and what becomes of them.

Promises: a worker is given one attempt's input to read and one attempt's outputs to write, by URLs that run
out, and no key of the store but one that was made for workers. No two attempts write to the same place, and
none to that of a file of the batch. A result whose callback was lost is folded as if it had come. Must not
know: where workers run.
"""

import json
from collections.abc import Collection, Mapping
from contextlib import suppress

import msgspec
from msgspec import Struct

from quire.batches.remote import callbacks
from quire.batches.remote.callbacks import MAX_BODY_BYTES, AttemptAddress
from quire.batches.remote.context import RemoteContext
from quire.batches.remote.output_places import SPARE_SECONDS
from quire.batches.remote.page_count import has_several_pages
from quire.blobs.presigned import PresignedUploads
from quire.compute.remote.callback_body import Reference
from quire.compute.remote.environment import BucketAccess
from quire.compute.remote.output_keys import (
    JPEG,
    REFERENCE,
    RESULT,
    ROLES,
    has_valid_output_keys,
    output_key,
    url_variable,
    work_key,
)
from quire.engine.retry import RetryPolicy
from quire.engine.scheduler import pipeline_of
from quire.ledger.port import BatchFilter
from quire.model import ids
from quire.model.batch import Batch, Stage, TaskState
from quire.model.errors import Missing, Reject
from quire.model.files import stem_and_extension
from quire.model.pipeline import Phase
from quire.model.work import Order, StepCall
from quire.pipelines import naming

Name = tuple[int, int, int]
SKEW_SECONDS = 60.0  # that the clocks of store and house may differ
_NO_POLICY = RetryPolicy()


class RemoteTaskOptions(Struct, frozen=True, kw_only=True):
    """`base_url` is where workers reach this server; `registry_url` where they tell of assets, or empty.
    `access` is what workers get that know no URLs; keys begin with `prefix` in the bucket.
    """

    base_url: str
    secret: bytes
    start_seconds: float = 30.0
    public_url: str = ""
    registry_url: str = ""
    policy: RetryPolicy = _NO_POLICY
    prices: Mapping[str, float] = {}  # by compute, of a second
    access: BucketAccess | None = None
    prefix: str = ""


class RemoteAttempt(Struct, frozen=True):
    """One attempt, and the key that its worker takes for that of the input."""

    batch: Batch
    phase: Phase
    about: AttemptAddress
    input_key: str


class LedgerRemoteTasks:
    def __init__(self, office: RemoteContext, presigned: PresignedUploads, terms: RemoteTaskOptions) -> None:
        self._office = office
        self._landing = presigned
        self._terms = terms
        self._batches: dict[int, Batch] = {}

    async def pack(self, call: StepCall, order: Order) -> dict[str, str]:
        """The worker's environment. Raises a QuireError."""
        place = await self._place(order)
        about, file = place.about, order.file
        seconds = int(call.timeout_seconds + self._terms.start_seconds) + SPARE_SECONDS
        base = self._terms.base_url
        environment = {
            "TASK_ID": about.task_id,
            "BATCH_ID": about.batch_id,
            "INPUT_R2_KEY": self._terms.prefix + place.input_key,
            "INPUT_FILE_NAME": file.name,
            "INPUT_CONTENT_TYPE": file.content_type,
            "INPUT_FILE_SIZE": str(file.size),
            "INPUT_URL": await self._landing.sign_get(file.key, seconds=seconds, base_url=base, name="input"),
            "CALLBACK_URL": callbacks.build_url(base, self._terms.secret, about),
            "MORE_OUTPUTS_URL": callbacks.build_url(base, self._terms.secret, about, "/outputs"),
            "QUIRE_INPUT_KEY": self._terms.prefix + file.key,
            "QUIRE_STEP": call.step,
            "QUIRE_OPTIONS": json.dumps(call.options),
            "QUIRE_MEMORY_MB": str(call.memory_mb),
        }
        if file.cid is not None:
            environment["INPUT_CID"] = file.cid
        if call.step == "image_variants":
            environment["CDN_PUBLIC_URL"] = self._terms.public_url
            if self._terms.registry_url:
                environment["CDN_API_URL"] = self._terms.registry_url
        outputs = {role: output_key(place.input_key, role) for role in ROLES[call.step]}
        outputs[RESULT] = _result_key(about)
        for role, key in outputs.items():
            environment[url_variable(role)] = await self._landing.sign_put(
                key, seconds=seconds, base_url=base, announced=False
            )
        if self._terms.access is not None:
            await self._copied(place, order)
            environment |= self._terms.access.variables(call.step)
        return environment

    async def over(self, names: Collection[Name]) -> set[Name]:
        standing = await self._office.batches.get_positions({name[0] for name in names})
        working = {no for no, position in standing.items() if position.stage is Stage.WORKING}
        return {name for name in names if name[0] not in working or not await self._runs(name)}

    async def found(self, order: Order) -> bool:
        """Raises Retry when the store cannot be asked."""
        place = await self._place(order)
        body = await self._kept(_result_key(place.about)) or await self._guessed(place, order)
        if body is None:
            return False
        terms = self._terms
        try:
            await callbacks.settle_callback(
                self._office,
                place.about,
                body,
                policy=terms.policy,
                prices=terms.prices,
                prefix=terms.prefix,
            )
        except Reject:  # it was no result
            return False
        return True

    async def _runs(self, name: Name) -> bool:
        batch_no, task_no, attempt = name
        try:
            task = await self._office.tasks.get_task(batch_no, task_no)
        except Missing:
            return False
        return task.state is TaskState.RUNNING and task.claim.order.attempt == attempt

    async def _place(self, order: Order) -> RemoteAttempt:
        batch = await self._batch(order.batch_no)
        task = await self._office.tasks.get_task(order.batch_no, order.task_no)
        phase = pipeline_of(batch, self._office.pipelines).phases[task.phase - 1]
        if phase.step not in ROLES:
            raise Reject(f"the step {phase.step} cannot be done elsewhere", code="not_elsewhere")
        about = AttemptAddress(
            batch_id=batch.id,
            task_id=ids.task_id(phase.task_prefix, batch.id, order.file.key),
            task_no=order.task_no,
            attempt=order.attempt,
        )
        return RemoteAttempt(batch, phase, about, await self._input_key(batch, phase, about, order))

    async def _batch(self, number: int) -> Batch:
        """Of a batch that has tasks out nothing changes that is looked at here."""
        known = self._batches.get(number)
        if known is None:
            found = await self._office.records.list_batches(BatchFilter(before=number + 1, limit=1))
            known = next((batch for batch in found if batch.no == number), None)
            if known is None:
                raise Missing(f"there is no batch {number}", code="unknown_batch")
            if len(self._batches) > 1000:
                self._batches.clear()
            self._batches[number] = known
        return known

    async def _input_key(self, batch: Batch, phase: Phase, about: AttemptAddress, order: Order) -> str:
        """Workers name outputs after it. The file's own key where that is safe; otherwise one of the
        attempt's own, so that a worker that was given up cannot write over what a later one made.
        """
        own = order.file.key
        inside = own.startswith(f"staging/{batch.id}/") and has_valid_output_keys(own, phase.step)
        if order.attempt == 1 and inside and await self._free(batch, phase, order):
            return own
        ending = ".tif" if phase.step == "tiff_to_jpeg" else stem_and_extension(order.file.name)[1]
        if not ending.isascii() or not ending[1:].isalnum() or len(ending) > 10:
            ending = ".bin"
        return work_key(batch.id, about.task_id, order.attempt, ending)

    async def _copied(self, place: RemoteAttempt, order: Order) -> None:
        """Whoever reads the input by its key must find it under the one that it is told. The copy goes with
        all that is staged of the batch. Raises Reject when a file of the batch has that key.
        """
        alias, file, blobs = place.input_key, order.file, self._office.blobs
        if alias == file.key:
            return
        path = alias.removeprefix(f"staging/{place.batch.id}").casefold()
        if await self._office.files.count_paths(place.batch.no, {path, path.removeprefix("/")}):
            raise Reject(f"a file of the batch has the key {alias!r} of a copy for a worker", code="bad_key")
        with suppress(Missing):
            if (await blobs.head(alias)).size == file.size:
                return
        await blobs.put(alias, blobs.stream(file.key), content_type=file.content_type)

    async def _free(self, batch: Batch, phase: Phase, order: Order) -> bool:
        """Has no other file of the batch, and no output of one, the names of these outputs?"""
        file = order.file
        if phase.step == "tiff_to_jpeg":
            if not naming.is_tiff_name(file.name):
                return False  # its extension may be that of the output
            rivals = {path.casefold() for path in naming.jpeg_rivals(file, 1)}
        else:
            rivals = {output_key(file.path, role).casefold() for role in ROLES[phase.step]}
        own = file.path.casefold()
        taken = await self._office.files.count_paths(batch.no, rivals | {own})
        return taken.pop(own, 1) == 1 and not taken

    async def _kept(self, key: str, limit: int = MAX_BODY_BYTES) -> bytes | None:
        try:
            if (await self._office.blobs.head(key)).size > limit:
                return None
            return await self._office.blobs.get(key)
        except Missing:
            return None

    async def _guessed(self, place: RemoteAttempt, order: Order) -> bytes | None:
        """What a worker would have said that keeps no result, by the output it left: that is stored last."""
        about = place.about
        said: dict[str, object] = {"task_id": about.task_id, "batch_id": about.batch_id, "status": "success"}
        role = JPEG if place.phase.step == "tiff_to_jpeg" else REFERENCE
        key = output_key(place.input_key, role)
        try:
            stored = await self._office.blobs.head(key)
        except Missing:
            return None
        task = await self._office.tasks.get_task(order.batch_no, order.task_no)
        if stored.size == 0 or stored.modified_at < task.claim.started_at - SKEW_SECONDS:
            return None
        if role == JPEG:
            if callbacks.wants_all_pages(place.phase) and await has_several_pages(
                self._office.blobs, order.file.key
            ):
                return None  # the others may not have been stored
            named = {"output_r2_key": key, "output_file_name": key.rpartition("/")[2]}
            return msgspec.json.encode(said | named | {"output_file_size": stored.size})
        try:
            reference = msgspec.json.decode(await self._kept(key) or b"", type=Reference)
        except (msgspec.MsgspecError, UnicodeError):
            return None
        return msgspec.json.encode(said | {"ref_json_r2_key": key, "ref_data": reference})


def _result_key(about: AttemptAddress) -> str:
    return work_key(about.batch_id, about.task_id, about.attempt, ".result.json")
