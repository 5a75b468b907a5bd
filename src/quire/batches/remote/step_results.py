"""Results that the machine of a step has stored in the places of its attempt.

Promise: what a result names is in the store as content, with the digest of its own bytes, as if the step had
run here; a claim that does not fit its place is refused. Must not know: how the result arrived.
"""

import hashlib
from asyncio import Semaphore, gather

import msgspec

from quire.batches.remote.attempts import FoundAttempt
from quire.batches.remote.context import RemoteContext
from quire.batches.remote.products import VERIFIED_AT_ONCE
from quire.blobs import content
from quire.compute.assets import register_asset
from quire.compute.pool.values import encode_value, store_value
from quire.compute.remote.asset_claims import check_draft
from quire.compute.remote.step_claims import ClaimedProduct, ClaimedValue, StepClaims, check_claims
from quire.model.errors import Reject
from quire.model.files import Change, Product
from quire.model.plan import PlanStep
from quire.model.work import StepCall, StepResult, Value


async def keep_step_result(
    context: RemoteContext, found: FoundAttempt, attempt: int, claims: StepClaims
) -> StepResult:
    """The result, with everything it names kept as content. May be repeated. Raises Reject."""
    check_claims(claims, found.step.step, found.batch.id, found.claim.order.task_no, attempt)
    rules = found.step.rules
    if claims.external is not None and not (isinstance(rules, PlanStep) and rules.external):
        raise Reject(
            f"the step {rules.step} leaves its task to somebody outside, and its plan does not say so",
            code="bad_callback",
        )
    limit = Semaphore(VERIFIED_AT_ONCE)

    async def keep(claimed: ClaimedProduct) -> Product:
        async with limit:
            return await _keep_product(context, claimed)

    products = tuple(await gather(*map(keep, claims.products)))
    value = None if claims.value is None else await _keep_value(context, found, claims.value)
    if claims.asset is not None:
        check_draft(claims.asset, products)
        await register_asset(context.blobs, claims.asset, found.claim.order.file, products)
    return StepResult(products=products, facts=claims.facts, value=value, tags=claims.tags)


async def _keep_product(context: RemoteContext, claimed: ClaimedProduct) -> Product:
    await _check_size(context, claimed.key, claimed.size)
    kept = await content.keep_blob(context.blobs, claimed.key, claimed.digest, claimed.size)
    return Product(
        role=claimed.role,
        key=kept.key,
        size=kept.size,
        content_type=claimed.content_type,
        digest=kept.digest,
        facts=claimed.facts,
        name=claimed.name,
        preferred=claimed.preferred,
        change=Change(claimed.change),
        tags=claimed.tags,
    )


async def _keep_value(context: RemoteContext, found: FoundAttempt, claimed: ClaimedValue) -> Value | None:
    if not claimed.digest:
        call = StepCall(step=found.step.step, version=0)
        return await store_value(context.blobs, encode_value(claimed.data, call))
    await _check_size(context, claimed.key, claimed.size)
    data = await context.blobs.get(claimed.key)
    if hashlib.sha256(data).hexdigest() != claimed.digest:
        raise content.other_bytes(claimed.key)
    try:
        msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Reject(f"the value of the step is not JSON: {error}", code="bad_value") from error
    return await store_value(context.blobs, data)


async def _check_size(context: RemoteContext, key: str, size: int) -> None:
    stored = (await context.blobs.head(key)).size
    if stored <= 0 or stored != size:
        raise Reject(
            f"the output {key!r} has {stored} bytes in the store, the worker says {size}",
            code="size_mismatch",
        )
