"""What the machine of a step that people have written is given: where its input and its details are, and
which pipeline it must find in its own settings.

Promise: no code, and no reference to any, goes to the machine. Must not know: where machines run.
"""

import msgspec

from quire.batches.remote.attempts import AttemptAddress
from quire.batches.remote.context import RemoteContext
from quire.blobs import keys
from quire.blobs.presigned_uploads import PresignedUploads
from quire.compute.remote.step_claims import step_key
from quire.compute.remote.step_task import MAX_INPUT_BYTES, GivenValue, StepTask, StepTaskDetails
from quire.model.batch import Batch
from quire.model.errors import Reject
from quire.model.pipelines import stored_plan
from quire.model.plan import digest_of
from quire.model.work import Order, StepCall, Value

_JSON = "application/json"


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
    if plan is None or call.unit != "file":
        raise Reject(
            f"the step {call.step} works on a folder or a batch, or by an earlier form of pipelines; it "
            "cannot run on a machine of its own",
            code="not_elsewhere",
        )

    async def sign_get(key: str, name: str) -> str:
        return await presigned.sign_get(key, seconds=seconds, base_url=base_url, name=name)

    async def give(value: Value) -> GivenValue:
        if not value.digest:
            return GivenValue(data=value.data)
        url = await sign_get(keys.content(value.digest), "value.json")
        return GivenValue(url=url, size=value.size, digest=value.digest)

    values = {name: await give(value) for name, value in order.values.items()}
    details = msgspec.json.encode(StepTaskDetails(file=order.file, options=call.options, values=values))
    if len(details) > MAX_INPUT_BYTES:
        raise Reject(
            f"the values and options of the step {call.step} have {len(details)} bytes, and "
            f"{MAX_INPUT_BYTES} is the limit on process and fly",
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


def result_key(address: AttemptAddress) -> str:
    """Where the machine stores the body of its callback."""
    return step_key(address.batch_id, address.task_no, address.attempt, ".result.json")
