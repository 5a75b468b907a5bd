"""What the machine of a step that people have written is given: where its input and its details are, and
which pipeline it must find in its own settings.

Promise: no code, and no reference to any, goes to the machine. Must not know: where machines run.
"""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
from msgspec import structs

from quire.batches.remote.attempts import AttemptAddress
from quire.batches.remote.context import RemoteContext
from quire.blobs import checked_reads, keys
from quire.blobs.presigned_uploads import PresignedUploads
from quire.compute.pool.members import decode_members
from quire.compute.remote.step_claims import step_key
from quire.compute.remote.step_task import (
    MAX_INPUT_BYTES,
    MAX_UNIT_BYTES,
    GivenValue,
    StepTask,
    StepTaskDetails,
)
from quire.model.batch import Batch
from quire.model.errors import Reject
from quire.model.pipelines import stored_plan
from quire.model.plan import digest_of
from quire.model.work import EarlierResult, Order, StepCall, StepResult, Value

SIGNED_AT_ONCE = 200
_JSON = "application/json"
_SignGet = Callable[[str, str], Awaitable[str]]  # key, and name of the file → URL


async def build_step_task(
    context: RemoteContext,
    presigned: PresignedUploads,
    batch: Batch,
    address: AttemptAddress,
    call: StepCall,
    order: Order,
    *,
    seconds: int,
    base_url: str,
    callback_url: str,
    more_url: str,
) -> StepTask:
    """Store the details of the task. URLs are valid for `seconds`. Raises Reject, and as the store does."""
    plan = stored_plan(batch)
    if plan is None:
        raise Reject(
            f"the step {call.step} is that of an earlier form of pipelines; it cannot run on a machine of "
            "its own",
            code="not_elsewhere",
        )

    async def sign_get(key: str, name: str) -> str:
        return await presigned.sign_get(key, seconds=seconds, base_url=base_url, name=name)

    async def give(value: Value) -> GivenValue:
        if not value.digest:
            return GivenValue(data=value.data)
        url = await sign_get(keys.content(value.digest), "value.json")
        return GivenValue(url=url, size=value.size, digest=value.digest)

    given = StepTaskDetails(
        file=order.file,
        options=call.options,
        values={name: await give(value) for name, value in order.values.items()},
        unit=call.unit,
        # Steps are given the values of the folders below, and nothing else of their results.
        earlier=tuple(EarlierResult(one.path, _keep_value(one.result)) for one in order.earlier),
        task=order.task,
    )
    if given.is_unit:
        given = structs.replace(given, urls=await _sign_members(context, given, sign_get))
    details = msgspec.json.encode(given)
    limit = MAX_UNIT_BYTES if given.is_unit else MAX_INPUT_BYTES
    if len(details) > limit:
        raise Reject(
            f"what the step {call.step} is given has {len(details)} bytes beside its documents, and {limit} "
            "is the limit on process and fly; let it run on local, queue or ray",
            code="output_too_large",
        )
    details_key = step_key(batch.id, order.task_no, order.attempt, ".details.json")
    await context.blobs.put(details_key, details, content_type=_JSON)
    return StepTask(
        task_id=address.task_id,
        batch_id=batch.id,
        pipeline=plan.name,
        pipeline_version=plan.version,
        plan_digest=digest_of(plan),
        code_digest=plan.code_digest,
        step=call.step,
        step_version=call.version,
        details_url=await sign_get(details_key, "details.json"),
        input_url=await sign_get(order.file.key, "input"),
        callback_url=callback_url,
        more_url=more_url,
        result_url=await presigned.sign_put(
            result_key(address), seconds=seconds, base_url=base_url, announced=False
        ),
        memory_mb=call.memory_mb,
    )


async def _sign_members(context: RemoteContext, given: StepTaskDetails, sign_get: _SignGet) -> dict[str, str]:
    """URLs by key for the documents of a folder or batch, for their large values and those of the folders
    below. Raises Reject for a bad list, and as the store does.
    """
    members = decode_members(await checked_reads.read(context.blobs, given.file.key), given.file)
    values = [value for member in members for value in member.values.values()]
    values += [one.result.value for one in given.earlier if one.result.value is not None]
    wanted = {member.key: "input" for member in members}
    wanted |= {keys.content(value.digest): "value.json" for value in values if value.digest}
    urls: dict[str, str] = {}
    for key, name in wanted.items():
        urls[key] = await sign_get(key, name)
        if len(urls) % SIGNED_AT_ONCE == 0:
            await asyncio.sleep(0)  # signing is arithmetic: the server answers others meanwhile
    return urls


def _keep_value(result: StepResult) -> StepResult:
    return StepResult(value=result.value)


def result_key(address: AttemptAddress) -> str:
    """Where the machine stores the body of its callback."""
    return step_key(address.batch_id, address.task_no, address.attempt, ".result.json")
