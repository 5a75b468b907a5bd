"""A machine's worker for a step that people have written: fetches the input, runs the step in this process,
stores what it returned and calls back.

Promises: the step runs alone, in the main thread, plain or as a coroutine; outputs and the body of the
callback are stored before the callback, so that a lost callback loses nothing; every failure, also one to
load the pipeline, becomes a callback with its reason.
"""

import asyncio
import hashlib
import re
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from quire.compute import failures
from quire.compute.failures import AttemptFailure
from quire.compute.pool import memory
from quire.compute.pool.meter import MeterChannel, Nowhere, OrderMeter
from quire.compute.pool.results import check_output
from quire.compute.pool.values import INLINE_BYTES, encode_value
from quire.compute.pool.worker import call_step
from quire.compute.remote.callback_body import LONGEST_DELAY_SECONDS, MAX_BODY_BYTES, CallbackExtension
from quire.compute.remote.output_request import AT_ONCE, OutputPlace
from quire.compute.remote.place_requests import StoreError, get_places, is_over, mark_store_errors
from quire.compute.remote.step_claims import (
    MAX_OUTPUTS,
    MAX_TOTAL_BYTES,
    VALUE,
    ClaimedCost,
    ClaimedProduct,
    ClaimedValue,
    StepClaims,
    output_role,
    too_much,
)
from quire.compute.remote.step_inputs import StepInputs
from quire.compute.remote.step_task import StepTask
from quire.compute.remote.transfer import TransferClient
from quire.model.clock import Clock
from quire.model.errors import QuireError, Reject
from quire.model.files import Change
from quire.model.step import OutputFile, Step, StepOutput
from quire.model.work import Outcome, StepCall

_PIECE_BYTES = 1 << 20
_JSON = "application/json"
_CLASS = re.compile(r"[a-z][a-z0-9_]{0,39}")


class LoadedStep(Struct, frozen=True):
    """The step of this machine's own pipeline, and what its author should know."""

    step: Step
    warning: str = ""


class StepWorkerContext(Struct, frozen=True, kw_only=True):
    """`load` finds the step in the settings of this machine, or raises Misconfigured."""

    open_client: Callable[[], TransferClient]
    load: Callable[[StepTask], LoadedStep]
    clock: Clock
    folder: Path


class StepTaskRun:
    """One attempt in this process."""

    def __init__(self, task: StepTask, context: StepWorkerContext) -> None:
        self.call = StepCall(step=task.step, version=task.step_version, memory_mb=task.memory_mb)
        self.folder = context.folder / "outputs"
        self.meter = OrderMeter(MeterChannel(Nowhere(), context.clock), context.clock.monotonic())
        self.warning = ""
        self._task = task
        self._context = context
        self._inputs = StepInputs(task, context.open_client, context.folder, self.folder)
        self._began = context.clock.monotonic()

    def is_input_file(self, path: Path) -> bool:
        return self._inputs.is_input_file(path)

    def run(self) -> bool:
        """True when the step succeeded and the callback was sent, or when the attempt is over: then nothing
        is stored or sent. Raises a QuireError when the callback could not be sent.
        """
        if asyncio.run(self._is_over()):
            return True
        fields = self._run_step()
        body = self._encode(fields)
        asyncio.run(self._report(body))
        return bool(fields["status"] == "success")

    def _run_step(self) -> dict[str, Any]:
        try:
            self.folder.mkdir()
            found = self._context.load(self._task)
            self.warning = found.warning
            step_input = asyncio.run(self._inputs.load(found.step, self.meter))
            memory.estimate_mb(found.step, step_input, self.call)  # raises Reject before the step starts
            output = check_output(call_step(found.step, step_input), self)
            value = encode_value(output.value, self.call)
            self.meter.close()
            _check_possible(output, self.call)
            claims = asyncio.run(self._store(output, value))
        except BaseException as error:  # noqa: BLE001 - any error of a step becomes the callback
            self.meter.close()
            return self._describe_failure(error)
        extension = CallbackExtension(step=claims, cost=self._cost(), warning=self.warning)
        return {"status": "success", "performance": self._performance(), "quire": extension}

    async def _is_over(self) -> bool:
        async with self._context.open_client() as client:
            return await is_over(client, self._task.more_url)

    async def _store(self, output: StepOutput, value: bytes) -> StepClaims:
        async with self._context.open_client() as client:
            places: dict[str, OutputPlace] = {}
            roles = [output_role(number) for number in range(1, len(output.files) + 1)]
            roles += [VALUE] if len(value) > INLINE_BYTES else []
            for start in range(0, len(roles), AT_ONCE):
                places |= await get_places(client, self._task.more_url, roles[start : start + AT_ONCE])
            products = [
                await _store_output(client, one, places[output_role(number)])
                for number, one in enumerate(output.files, 1)
            ]
            claimed = await self._store_value(client, value, places.get(VALUE))
        return StepClaims(
            products=tuple(products),
            value=claimed,
            tags=output.tags,
            facts=output.facts,
            external=output.external,
            asset=output.asset,
        )

    async def _store_value(
        self, client: TransferClient, value: bytes, place: OutputPlace | None
    ) -> ClaimedValue | None:
        if place is None:
            return ClaimedValue(data=msgspec.json.decode(value)) if value else None
        path = self._context.folder / "value.json"
        path.write_bytes(value)
        await mark_store_errors(client.put(place.url, path, _JSON))
        return ClaimedValue(key=place.key, size=len(value), digest=hashlib.sha256(value).hexdigest())

    async def _report(self, body: bytes) -> None:
        path = self._context.folder / "result.json"
        path.write_bytes(body)
        async with self._context.open_client() as client:
            with suppress(QuireError):  # then only the callback has it
                await client.put(self._task.result_url, path, _JSON)
            await client.post(self._task.callback_url, body, "the callback")

    def _encode(self, fields: dict[str, Any]) -> bytes:
        names = {"task_id": self._task.task_id, "batch_id": self._task.batch_id}
        body = msgspec.json.encode(names | fields)
        if len(body) <= MAX_BODY_BYTES:
            return body
        error = Reject(
            f"the step {self.call.step} returned facts of {len(body)} bytes with its outputs, and "
            f"{MAX_BODY_BYTES} is the limit on process and fly; write them into a file",
            code="output_too_large",
        )
        fields.update(self._describe_failure(error))
        return msgspec.json.encode(names | fields)

    def _describe_failure(self, error: BaseException) -> dict[str, Any]:
        failure: AttemptFailure
        if isinstance(error, StoreError) and error.__cause__ is not None:
            failure = failures.of_store(error.__cause__, self.call)
        else:
            if not isinstance(error, MemoryError | QuireError):
                traceback.print_exception(error)  # to the standard error, for logs
            failure = failures.of_error(error, self.call)
        extension = CallbackExtension(
            outcome=failure.outcome.value,  # type: ignore[arg-type]
            error_class=_choose_class(failure),
            delay_seconds=min(failure.delay_seconds, LONGEST_DELAY_SECONDS),
            cost=self._cost(),
            warning=self.warning,
        )
        said = {"status": "error", "error": failure.error, "quire": extension}
        return said | {"performance": self._performance()}

    def _cost(self) -> ClaimedCost:
        spent = self.meter.cost()
        return ClaimedCost(
            tokens_in=spent.tokens_in, tokens_out=spent.tokens_out, money_micros=spent.money_micros
        )

    def _performance(self) -> dict[str, int]:
        return {"total_time_ms": round((self._context.clock.monotonic() - self._began) * 1000)}


def _check_possible(output: StepOutput, call: StepCall) -> None:
    """Raises Reject for what a machine of one task cannot give back."""
    if len(output.files) > MAX_OUTPUTS:
        raise Reject(
            f"the step {call.step} returned {len(output.files)} outputs, and {MAX_OUTPUTS} is the limit on "
            "process and fly; let it run on local, queue or ray",
            code="output_too_large",
        )
    total = sum(one.path.stat().st_size for one in output.files)
    if total > MAX_TOTAL_BYTES:
        raise too_much(call.step, total)


def _choose_class(failure: AttemptFailure) -> str:
    """The class of the error, or a plain one where people wrote none that a callback can have."""
    if _CLASS.fullmatch(failure.error_class):
        return failure.error_class
    return "rejected" if failure.outcome is Outcome.REJECTED else "step_error"


async def _store_output(client: TransferClient, file: OutputFile, place: OutputPlace) -> ClaimedProduct:
    digest = _digest_of(file.path)
    await mark_store_errors(client.put(place.url, file.path, file.content_type))
    return ClaimedProduct(
        role=file.role,
        key=place.key,
        size=file.path.stat().st_size,
        digest=digest,
        content_type=file.content_type,
        facts=file.facts,
        name=file.name,
        preferred=file.preferred,
        change=Change(file.change).value,
        tags=file.tags,
    )


def _digest_of(path: Path) -> str:
    hashed = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            hashed.update(piece)
    return hashed.hexdigest()
