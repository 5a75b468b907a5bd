"""Callbacks: a remote worker reports the end of its attempt by one request to a URL that only it was given.

Promises: a callback is settled by the same rules as any other report, once; the outputs that it names were
verified in the store, and its picture is registered before. A repeated or late callback is answered as such
and changes nothing. Must not know: HTTP, and how the worker was started.
"""

import logging
import re
from asyncio import Semaphore, gather
from collections.abc import Mapping
from decimal import Decimal

import msgspec
from msgspec import structs

from quire.batches.remote.attempts import (
    AttemptAddress,
    CallbackAnswer,
    FoundAttempt,
    RemoteStep,
    find_attempt,
    settle,
)
from quire.batches.remote.context import RemoteContext
from quire.batches.remote.page_count import has_several_pages
from quire.batches.remote.products import VERIFIED_AT_ONCE, verify_product
from quire.batches.remote.step_cache import find_cache_key
from quire.batches.remote.step_results import keep_step_result
from quire.compute.assets import register_asset
from quire.compute.remote.asset_claims import check_copies, draft_asset
from quire.compute.remote.callback_body import (
    CLAIM_READERS,
    MAX_BODY_BYTES,
    Callback,
    CallbackExtension,
    bad_callback,
    strip_bucket_prefix,
)
from quire.engine.retry import RetryPolicy
from quire.model.batch import TaskState
from quire.model.cost import NO_COST, Cost
from quire.model.errors import Reject
from quire.model.files import Product
from quire.model.work import ExternalRequest, Outcome, Report, StepResult, add_price

MAX_ERROR_CHARACTERS = 2000
WORKER = "callback"
_log = logging.getLogger("quire.compute")
_DEFAULT_POLICY = RetryPolicy()
_NO_PRICES: Mapping[str, float] = {}
_CLASS = re.compile(r"[a-z][a-z0-9_]{0,39}")


_decoder = msgspec.json.Decoder(Callback)


async def settle_callback(
    context: RemoteContext,
    address: AttemptAddress,
    body: bytes,
    *,
    policy: RetryPolicy = _DEFAULT_POLICY,
    prices: Mapping[str, float] = _NO_PRICES,
    prefix: str = "",
) -> CallbackAnswer:
    """Settle the attempt; `address` comes from a URL that `verify` accepted. May be repeated. `prices` are
    per second, by compute; `prefix` is that of the blob store in the bucket, for workers that use its keys.

    Raises Reject for an invalid body or one about another attempt, Missing for an unknown batch, task or
    attempt, Retry when the store is unavailable.
    """
    callback = strip_bucket_prefix(_decode(body, address), prefix)
    found = await find_attempt(context, address)
    report = await _build_report(context, found, address.attempt, callback)
    report = _add_step_report(report, callback.quire)
    report = _add_machine_price(report, prices.get(found.step.compute, 0.0))
    is_own = found.step.step not in CLAIM_READERS
    cache_key = await find_cache_key(context, found, report) if is_own else None
    return await settle(context, found, report, policy, cache_key=cache_key)


def _decode(body: bytes, address: AttemptAddress) -> Callback:
    if len(body) > MAX_BODY_BYTES:
        raise Reject(f"a callback has {MAX_BODY_BYTES} bytes at most, not {len(body)}", code="too_large")
    try:
        callback = _decoder.decode(body)
    except (ValueError, RecursionError) as error:  # ValueError is msgspec's, and what is not UTF-8
        raise bad_callback(f"the body is not that of a callback: {error}") from error
    if (callback.batch_id, callback.task_id) != (address.batch_id, address.task_id):
        raise bad_callback("the body names another batch or task than the URL")
    return callback


async def _build_report(
    context: RemoteContext, found: FoundAttempt, attempt: int, callback: Callback
) -> Report:
    order, started_at = found.claim.order, found.claim.started_at
    names = (order.batch_no, order.task_no, attempt)
    elapsed = max(0.0, context.clock.now() - started_at)
    claimed_ms = (callback.performance or {}).get("total_time_ms")
    # No longer than since its start, whatever it claims: budgets count the seconds.
    seconds = elapsed if claimed_ms is None else min(elapsed, max(0.0, claimed_ms / 1000))
    spent = (started_at, seconds, WORKER)
    if callback.status == "error":
        error = (callback.error or "the worker gave no reason")[:MAX_ERROR_CHARACTERS]
        failed = Report(*names, Outcome.ERRED, *spent, error_class="worker_error", error=error)
        return _apply_error_class(failed, callback.quire)
    if attempt != order.attempt or found.task.state in {TaskState.DONE, TaskState.SUPERSEDED}:
        return Report(*names, Outcome.DONE, *spent)  # changes nothing: its outputs need not be verified
    try:
        await _check_pages(context, found.step, order.file.key, callback)
    except Reject as flaw:  # another try in the same way would lose the same pages
        return Report(*names, Outcome.REJECTED, *spent, error_class=flaw.code, error=str(flaw))
    try:
        result = await _verify_result(context, found, attempt, callback)
    except Reject as flaw:
        return Report(*names, Outcome.ERRED, *spent, error_class=flaw.code, error=str(flaw))
    size = sum(product.size for product in result.products)
    report = Report(*names, Outcome.DONE, *spent, result=result, cost=Cost(order.file.size, size))
    request = _read_request(callback)
    return report if request is None else structs.replace(report, outcome=Outcome.EXTERNAL, request=request)


def _read_request(callback: Callback) -> ExternalRequest | None:
    """What a step that people have written asks of somebody outside, who will complete its task."""
    claims = None if callback.quire is None else callback.quire.step
    return None if claims is None else claims.external


def _apply_error_class(report: Report, extension: CallbackExtension | None) -> Report:
    """A worker of Quire knows the outcome and the error class."""
    if extension is None or not _CLASS.fullmatch(extension.error_class):
        return report
    return structs.replace(
        report,
        outcome=Outcome(extension.outcome),
        error_class=extension.error_class,
        delay_seconds=extension.delay_seconds,
    )


def _add_step_report(report: Report, extension: CallbackExtension | None) -> Report:
    """The report with what a step that people have written has spent, and what they should know."""
    if extension is None:
        return report
    if extension.warning:
        warning = extension.warning[:MAX_ERROR_CHARACTERS]
        _log.warning("step_warning attempt=%s: %s", report.attempt_key, warning)
        report = structs.replace(report, warning=warning)
    spent = NO_COST if extension.cost is None else extension.cost.to_cost()
    return structs.replace(report, cost=report.cost + spent)


def _add_machine_price(report: Report, price: float) -> Report:
    """The report with the price of the machine."""
    return add_price(report, Decimal(str(price))) if price else report


async def _check_pages(context: RemoteContext, step: RemoteStep, key: str, callback: Callback) -> None:
    """Raises Reject when pages would be lost: workers of the published contract convert only the first."""
    if step.step != "tiff_to_jpeg" or callback.quire is not None or not wants_all_pages(step):
        return
    if await has_several_pages(context.blobs, key):
        raise Reject(
            "the TIFF has several pages, and its worker converts only the first; use a worker of Quire, "
            "set compute.tiff to local, or set preprocess.all_pages to false",
            code="many_pages",
        )


def wants_all_pages(step: RemoteStep) -> bool:
    return bool(step.options.get("all_pages", True))


async def _verify_result(
    context: RemoteContext, found: FoundAttempt, attempt: int, callback: Callback
) -> StepResult:
    claims = None if callback.quire is None else callback.quire.step
    if found.step.step not in CLAIM_READERS and claims is not None:
        return await keep_step_result(context, found, attempt, claims)
    read_claims = CLAIM_READERS.get(found.step.step)
    if read_claims is None:
        raise bad_callback(f"a success of the step {found.step.step} names its result in quire.step")
    claimed, facts = read_claims(callback, attempt)
    limit = Semaphore(VERIFIED_AT_ONCE)

    async def verify_one(product: Product, size: int | None) -> Product:
        async with limit:
            return await verify_product(context, found.batch, product, size)

    products = tuple(await gather(*(verify_one(*one) for one in claimed)))
    await _register_picture(context, found, callback, products)
    return StepResult(products=products, facts=facts)


async def _register_picture(
    context: RemoteContext, found: FoundAttempt, callback: Callback, products: tuple[Product, ...]
) -> None:
    """Before the callback is settled, as workers of a pool do it before their report. Raises Reject."""
    picture = found.claim.order.file
    draft = draft_asset(callback, picture, found.step.options)
    if draft is not None:
        check_copies(products)
        await register_asset(context.blobs, draft, picture, products)
