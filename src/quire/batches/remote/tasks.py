"""Remote tasks, seen from the server: the environment of their workers, and results without a callback.

Promises: a worker can read the input and write the outputs of one attempt, by URLs that expire, and gets no
key of the store except one created for workers. No two attempts write to the same key, and none to that of a
file of the batch. A result whose callback was lost is settled as if the callback had come. Must not know:
where workers run.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress

import msgspec
from msgspec import Struct

from quire.batches.remote import callbacks, step_tasks
from quire.batches.remote.attempts import AttemptAddress, RemoteStep, build_registry_url, build_url, find_task
from quire.batches.remote.context import RemoteContext
from quire.batches.remote.output_places import SPARE_SECONDS
from quire.batches.remote.page_count import count_pages, has_several_pages
from quire.blobs import checked_reads
from quire.blobs.presigned_uploads import PresignedUploads
from quire.compute.remote.callback_body import MAX_BODY_BYTES, Reference
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
from quire.ledger.port import BatchFilter
from quire.model import ids
from quire.model.batch import AT_WORK, Batch, TaskState
from quire.model.errors import Missing, Reject
from quire.model.files import fold, stem_and_extension
from quire.model.plan import PlanStep
from quire.model.work import AttemptKey, Order, StepCall

SKEW_SECONDS = 60.0  # by which the clocks of store and server may differ
_TIFF_EXTENSIONS = (".tif", ".tiff")
_NO_POLICY = RetryPolicy()


MOST_PAGES = 10_000  # counted for a time limit


class RemoteTaskOptions(Struct, frozen=True, kw_only=True):
    """`base_url` is where workers reach this server; `registry_url` is the asset registry, or empty. `access`
    is for workers that do not use URLs; `prefix` is that of the blob store in the bucket.
    """

    base_url: str
    secret: bytes
    start_seconds: float = 30.0
    registry_url: str = ""
    policy: RetryPolicy = _NO_POLICY
    prices: Mapping[str, float] = {}  # per second, by compute
    access: BucketAccess | None = None
    prefix: str = ""


class RemoteAttempt(Struct, frozen=True):
    """One attempt, and the key under which its worker finds the input."""

    batch: Batch
    step: RemoteStep
    address: AttemptAddress
    input_key: str


class LedgerRemoteTasks:
    def __init__(
        self, context: RemoteContext, presigned: PresignedUploads, options: RemoteTaskOptions
    ) -> None:
        self._context = context
        self._presigned = presigned
        self._options = options
        self._batches: dict[int, Batch] = {}

    async def find_limit_seconds(self, call: StepCall, order: Order) -> float:
        """By the pages of a TIFF, as far as they can be counted; otherwise by the size of the file."""
        longest = call.longest_seconds(order.file.size)
        if call.step not in ROLES or longest == call.limit_seconds(1):
            return longest
        try:
            return call.limit_seconds(await count_pages(self._context.blobs, order.file.key, most=MOST_PAGES))
        except Reject as flaw:
            # A damaged one is refused by the step, at once.
            return longest if flaw.code == "many_pages" else call.limit_seconds(1)

    async def build_environment(
        self, call: StepCall, order: Order, limit_seconds: float = 0.0
    ) -> dict[str, str]:
        """The worker's environment. Raises a QuireError."""
        remote = await self._find(order)
        address, file = remote.address, order.file
        limit = limit_seconds or call.timeout_seconds
        seconds = int(limit + self._options.start_seconds) + SPARE_SECONDS
        base = self._options.base_url
        if call.step not in ROLES:
            return await self._build_step_environment(remote, call, order, seconds)
        environment = {
            "TASK_ID": address.task_id,
            "BATCH_ID": address.batch_id,
            "INPUT_R2_KEY": self._options.prefix + remote.input_key,
            "INPUT_FILE_NAME": file.name,
            "INPUT_CONTENT_TYPE": file.content_type,
            "INPUT_FILE_SIZE": str(file.size),
            "INPUT_URL": await self._presigned.sign_get(
                file.key, seconds=seconds, base_url=base, name="input"
            ),
            "CALLBACK_URL": build_url(base, self._options.secret, address),
            "MORE_OUTPUTS_URL": build_url(base, self._options.secret, address, "/outputs"),
            "QUIRE_INPUT_KEY": self._options.prefix + file.key,
            "QUIRE_STEP": call.step,
            "QUIRE_OPTIONS": json.dumps(call.options),
            "QUIRE_MEMORY_MB": str(call.memory_mb),
        }
        if digest := checked_reads.find_digest(file.key, file.digest):
            environment["QUIRE_INPUT_SHA256"] = digest
        if file.cid is not None:
            environment["INPUT_CID"] = file.cid
        if call.step == "image_variants":
            environment |= self._build_registry(call, address)
        outputs = {role: output_key(remote.input_key, role) for role in ROLES[call.step]}
        outputs[RESULT] = _result_key(address)
        for role, key in outputs.items():
            environment[url_variable(role)] = await self._presigned.sign_put(
                key, seconds=seconds, base_url=base, announced=False
            )
        if self._options.access is not None:
            await self._copy_input(remote, order)
            environment |= self._options.access.variables(call.step)
        return environment

    def _build_registry(self, call: StepCall, address: AttemptAddress) -> dict[str, str]:
        """Where links begin, as on every compute, and where to register. Our own workers leave that to this
        server, which does it when it settles their callback; others get an address for their attempt.
        """
        options = self._options
        environment = {"CDN_PUBLIC_URL": str(call.options.get("public_url", ""))}
        if options.registry_url:
            environment["CDN_API_URL"] = options.registry_url
        elif options.access is not None:
            environment["CDN_API_URL"] = build_registry_url(options.base_url, options.secret, address)
            environment["QUIRE_REGISTERS"] = "true"
        return environment

    async def _build_step_environment(
        self, remote: RemoteAttempt, call: StepCall, order: Order, seconds: int
    ) -> dict[str, str]:
        base, secret, address = self._options.base_url, self._options.secret, remote.address
        task = await step_tasks.build_step_task(
            self._context,
            self._presigned,
            remote.batch,
            address,
            call,
            order,
            seconds=seconds,
            base_url=base,
            callback_url=build_url(base, secret, address),
            more_url=build_url(base, secret, address, "/outputs"),
        )
        return task.to_environment()

    async def find_finished(self, attempts: Collection[AttemptKey]) -> set[AttemptKey]:
        positions = await self._context.batches.get_positions({batch_no for batch_no, _, _ in attempts})
        working = {no for no, position in positions.items() if position.stage in AT_WORK}
        return {one for one in attempts if one[0] not in working or not await self._is_running(one)}

    async def settle_stored_result(self, order: Order) -> bool:
        """Raises Retry when the store is unavailable."""
        remote = await self._find(order)
        if remote.step.step in ROLES:
            body = await self._read(_result_key(remote.address))
            body = body or await self._rebuild_callback(remote, order)
        else:
            body = await self._read(step_tasks.result_key(remote.address))
        if body is None:
            return False
        options = self._options
        try:
            await callbacks.settle_callback(
                self._context,
                remote.address,
                body,
                policy=options.policy,
                prices=options.prices,
                prefix=options.prefix,
            )
        except Reject:  # it is no valid result
            return False
        return True

    async def _is_running(self, key: AttemptKey) -> bool:
        batch_no, task_no, attempt = key
        try:
            task = await self._context.tasks.get_task(batch_no, task_no)
        except Missing:
            return False
        return task.state is TaskState.RUNNING and task.claim.order.attempt == attempt

    async def _find(self, order: Order) -> RemoteAttempt:
        batch = await self._batch(order.batch_no)
        step = (await find_task(self._context, batch, order.task_no)).step
        if step.step not in ROLES and not isinstance(step.rules, PlanStep):
            raise Reject(f"the step {step.step} cannot run on a remote worker", code="not_elsewhere")
        address = AttemptAddress(
            batch_id=batch.id,
            task_id=ids.task_id(step.task_prefix, batch.id, order.file.key),
            task_no=order.task_no,
            attempt=order.attempt,
        )
        if step.step not in ROLES:
            return RemoteAttempt(batch, step, address, order.file.key)
        return RemoteAttempt(batch, step, address, await self._choose_input_key(batch, step, address, order))

    async def _batch(self, number: int) -> Batch:
        """Cached: nothing that is used here changes while a batch has running tasks."""
        known = self._batches.get(number)
        if known is None:
            found = await self._context.records.list_batches(BatchFilter(before=number + 1, limit=1))
            known = next((batch for batch in found if batch.no == number), None)
            if known is None:
                raise Missing(f"there is no batch {number}", code="unknown_batch")
            if len(self._batches) > 1000:
                self._batches.clear()
            self._batches[number] = known
        return known

    async def _choose_input_key(
        self, batch: Batch, step: RemoteStep, address: AttemptAddress, order: Order
    ) -> str:
        """Workers derive the keys of outputs from it. The file's own key where that is safe; otherwise a key
        of the attempt, so that a worker that timed out cannot overwrite the outputs of a later one.
        """
        own = order.file.key
        inside = own.startswith(f"staging/{batch.id}/") and has_valid_output_keys(own, step.step)
        if order.attempt == 1 and inside and await self._has_free_keys(batch, step, order):
            return own
        ending = ".tif" if step.step == "tiff_to_jpeg" else stem_and_extension(order.file.name)[1]
        if not ending.isascii() or not ending[1:].isalnum() or len(ending) > 10:
            ending = ".bin"
        return work_key(batch.id, address.task_id, order.attempt, ending)

    async def _copy_input(self, remote: RemoteAttempt, order: Order) -> None:
        """Copy the input for workers that read it by the key of the attempt. The copy is removed with the
        staging folder of the batch. Raises Reject when a file of the batch has that key.
        """
        alias, file, blobs = remote.input_key, order.file, self._context.blobs
        if alias == file.key:
            return
        path = fold(alias.removeprefix(f"staging/{remote.batch.id}"))
        if await self._count_paths(remote.batch.no, {path, path.removeprefix("/")}):
            raise Reject(f"a file of the batch has the key {alias!r} of a copy for a worker", code="bad_key")
        with suppress(Missing):
            if (await blobs.head(alias)).size == file.size:
                return
        checked = checked_reads.stream(blobs, file.key, file.digest)
        await blobs.put(alias, checked, content_type=file.content_type)

    async def _has_free_keys(self, batch: Batch, step: RemoteStep, order: Order) -> bool:
        """Are the keys of these outputs used by no other file of the batch, and by no output of one?"""
        file = order.file
        own = fold(file.path)
        if step.step == "tiff_to_jpeg":
            stem, extension = stem_and_extension(file.path)
            if extension.lower() not in _TIFF_EXTENSIONS:
                return False  # its extension may be that of the output
            rivals = {fold(stem + other) for other in ("", ".jpg", *_TIFF_EXTENSIONS)} - {own}
        else:
            rivals = {fold(output_key(file.path, role)) for role in ROLES[step.step]}
        taken = await self._count_paths(batch.no, rivals | {own})
        return taken.pop(own, 1) == 1 and not taken

    async def _count_paths(self, batch_no: int, paths: set[str]) -> Counter[str]:
        """How many files of the batch, and folders of its inputs, have each of these folded paths."""
        found = await self._context.flow.find_listed(batch_no, paths | {f"{path}/" for path in paths})
        counted: Counter[str] = Counter()
        for path, there in found.items():
            counted[path.removesuffix("/")] += len(there)
        return counted

    async def _read(self, key: str, limit: int = MAX_BODY_BYTES) -> bytes | None:
        try:
            if (await self._context.blobs.head(key)).size > limit:
                return None
            return await self._context.blobs.get(key)
        except Missing:
            return None

    async def _rebuild_callback(self, remote: RemoteAttempt, order: Order) -> bytes | None:
        """The callback of a worker that stores no result, from its output, which it stores last."""
        address = remote.address
        callback: dict[str, object] = {
            "task_id": address.task_id,
            "batch_id": address.batch_id,
            "status": "success",
        }
        role = JPEG if remote.step.step == "tiff_to_jpeg" else REFERENCE
        key = output_key(remote.input_key, role)
        try:
            stored = await self._context.blobs.head(key)
        except Missing:
            return None
        task = await self._context.tasks.get_task(order.batch_no, order.task_no)
        if stored.size == 0 or stored.modified_at < task.claim.started_at - SKEW_SECONDS:
            return None
        if role == JPEG:
            if callbacks.wants_all_pages(remote.step) and await has_several_pages(
                self._context.blobs, order.file.key
            ):
                return None  # the other pages may be missing
            named = {"output_r2_key": key, "output_file_name": key.rpartition("/")[2]}
            return msgspec.json.encode(callback | named | {"output_file_size": stored.size})
        try:
            reference = msgspec.json.decode(await self._read(key) or b"", type=Reference)
        except (msgspec.MsgspecError, UnicodeError):
            return None
        return msgspec.json.encode(callback | {"ref_json_r2_key": key, "ref_data": reference})


def _result_key(address: AttemptAddress) -> str:
    return work_key(address.batch_id, address.task_id, address.attempt, ".result.json")
