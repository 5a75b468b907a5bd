"""What workers that run elsewhere tell at the end of an attempt: one call to a URL that only they were given.

Promises: a callback is folded by the same rules as any other report, once; what it claims to have stored was
looked at in the store. Whoever repeats one, or comes too late, is told so and changes nothing. Must not know:
HTTP, and how the attempt was sent out.
"""

import hashlib
import hmac
import re
from asyncio import Semaphore, gather
from collections.abc import Mapping
from decimal import Decimal
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct, structs

from quire.batches.remote.context import RemoteContext
from quire.batches.remote.page_count import has_several_pages
from quire.blobs import keys
from quire.compute.remote.callback_body import (
    CLAIM_READERS,
    Callback,
    CallbackExtension,
    bad_callback,
    strip_bucket_prefix,
)
from quire.engine.retry import RetryPolicy
from quire.engine.scheduler import pipeline_of
from quire.engine.settlement import decide_settlement, phase_retry_policy
from quire.ledger.port import TaskStanding
from quire.model import ids
from quire.model.batch import Batch, TaskState
from quire.model.cost import Cost
from quire.model.errors import Missing, Reject
from quire.model.files import Product
from quire.model.pipeline import Phase
from quire.model.work import Outcome, Report, StepResult, add_price

MAX_BODY_BYTES = 4 * 1024 * 1024  # with all that is told of every page of a long TIFF
MAX_ERROR_CHARACTERS = 2000
WORKER = "callback"
LOOKED_AT_ONCE = 16
_DEFAULT_POLICY = RetryPolicy()
_NO_PRICES: Mapping[str, float] = {}
_CLASS = re.compile(r"[a-z][a-z_]{0,39}")


class CallbackAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`duplicate`: the attempt had been settled already. `late`: a later attempt, phase or round has taken
    its place. Either way it is noted, and nothing changes.
    """

    ok: bool
    duplicate: bool = False
    late: bool = False


_decoder = msgspec.json.Decoder(Callback)


class AttemptAddress(Struct, frozen=True, kw_only=True):
    """Which attempt a callback is about, as its URL says. `task_no` is how the ledger finds the task."""

    batch_id: str
    task_id: str
    task_no: int
    attempt: int


def sign(secret: bytes, about: AttemptAddress) -> str:
    """Only who has the secret can make a URL that is accepted."""
    said = (about.batch_id, about.task_id, str(about.task_no), str(about.attempt))
    return hmac.new(secret, b"callback\0" + "\0".join(said).encode(), hashlib.sha256).hexdigest()


def verify(secret: bytes, about: AttemptAddress, signature: str) -> None:
    """In the same time whatever is wrong. Raises Reject with code `bad_signature`."""
    if not hmac.compare_digest(sign(secret, about).encode(), signature.encode(errors="replace")):
        raise Reject("this callback URL was not made here", code="bad_signature")


def build_url(base: str, secret: bytes, about: AttemptAddress, rest: str = "") -> str:
    """The CALLBACK_URL of an attempt, or what lies below it; opaque to workers."""
    query = urlencode({"attempt": about.attempt, "task": about.task_no, "sig": sign(secret, about)})
    return f"{base.rstrip('/')}/callback/{quote(about.batch_id)}/{quote(about.task_id)}{rest}?{query}"


async def settle_callback(
    office: RemoteContext,
    about: AttemptAddress,
    body: bytes,
    *,
    policy: RetryPolicy = _DEFAULT_POLICY,
    prices: Mapping[str, float] = _NO_PRICES,
    prefix: str = "",
) -> CallbackAnswer:
    """Fold the report; `about` comes from a URL that `verify` has let pass. May be repeated. `prices` are
    those of a second on each compute; `prefix` is how keys of the bucket begin, for workers that know those.

    Raises Reject for a body that is none or is about something else, Missing for a batch, task or attempt
    that never was, Retry when the store cannot be asked.
    """
    said = strip_bucket_prefix(_decoded(body, about), prefix)
    batch, task, phase = await find_attempt(office, about)
    report = await _report(office, batch, phase, task, about.attempt, said)
    report = _priced(report, prices.get(phase.compute, 0.0))
    now = office.clock.now()
    # Not remembered in the step cache: what other programs make is not what our step would have made.
    settlement = decide_settlement(
        report, task.claim, phase_retry_policy(phase, policy), now=now, fraction=office.ids.fraction()
    )
    if (await office.tasks.settle_reports(batch.no, [settlement], now=now)).applied:
        return CallbackAnswer(ok=True)
    return await _stray(office, about)


async def find_attempt(office: RemoteContext, about: AttemptAddress) -> tuple[Batch, TaskStanding, Phase]:
    """Raises Missing for a batch, task or attempt that never was."""
    batch = await office.batches.get_batch(about.batch_id)
    task = await office.tasks.get_task(batch.no, about.task_no)
    phase = pipeline_of(batch, office.pipelines).phases[task.phase - 1]
    order = task.claim.order
    if about.task_id != ids.task_id(phase.task_prefix, batch.id, order.file.key):
        raise Missing(f"task {about.task_no} of batch {batch.id} is not {about.task_id}", code="unknown_task")
    if not 1 <= about.attempt <= order.attempt:
        raise Missing(f"attempt {about.attempt} of task {about.task_id} was never out", code="unknown_task")
    return batch, task, phase


async def _stray(office: RemoteContext, about: AttemptAddress) -> CallbackAnswer:
    batch = await office.batches.get_batch(about.batch_id)
    task = await office.tasks.get_task(batch.no, about.task_no)
    current = (task.phase, task.round) == (batch.position.phase, batch.position.round)
    overtaken = about.attempt < task.claim.order.attempt or task.state is TaskState.SUPERSEDED
    late = overtaken or not current
    return CallbackAnswer(ok=True, duplicate=not late, late=late)


def _decoded(body: bytes, about: AttemptAddress) -> Callback:
    if len(body) > MAX_BODY_BYTES:
        raise Reject(f"a callback has {MAX_BODY_BYTES} bytes at most, not {len(body)}", code="too_large")
    try:
        said = _decoder.decode(body)
    except (ValueError, RecursionError) as error:  # ValueError is msgspec's, and what is not UTF-8
        raise bad_callback(f"the body is not that of a callback: {error}") from error
    if (said.batch_id, said.task_id) != (about.batch_id, about.task_id):
        raise bad_callback("the body names another batch or task than the URL")
    return said


async def _report(
    office: RemoteContext, batch: Batch, phase: Phase, task: TaskStanding, attempt: int, said: Callback
) -> Report:
    order, started_at = task.claim.order, task.claim.started_at
    names = (order.batch_no, order.task_no, attempt)
    elapsed = max(0.0, office.clock.now() - started_at)
    told = (said.performance or {}).get("total_time_ms")
    # It cannot have taken longer than it was out, whatever it says: seconds are what budgets count.
    seconds = elapsed if told is None else min(elapsed, max(0.0, told / 1000))
    spent = (started_at, seconds, WORKER)
    if said.status == "error":
        words = (said.error or "the worker gave no reason")[:MAX_ERROR_CHARACTERS]
        failed = Report(*names, Outcome.ERRED, *spent, error_class="worker_error", error=words)
        return _classed(failed, said.quire)
    if attempt != order.attempt or task.state in {TaskState.DONE, TaskState.SUPERSEDED}:
        return Report(*names, Outcome.DONE, *spent)  # changes nothing: what it made need not be looked at
    try:
        await _check_pages(office, phase, order.file.key, said)
    except Reject as flaw:  # whoever converts it the same way again, loses the same pages again
        return Report(*names, Outcome.REJECTED, *spent, error_class=flaw.code, error=str(flaw))
    try:
        result = await _result(office, batch, phase, attempt, said)
    except Reject as flaw:
        return Report(*names, Outcome.ERRED, *spent, error_class=flaw.code, error=str(flaw))
    made = sum(product.size for product in result.products)
    return Report(*names, Outcome.DONE, *spent, result=result, cost=Cost(order.file.size, made))


def _classed(report: Report, own: CallbackExtension | None) -> Report:
    """A worker of ours knows whether it is worth trying again, and under which name people find it."""
    if own is None or not _CLASS.fullmatch(own.error_class):
        return report
    return structs.replace(report, outcome=Outcome(own.outcome), error_class=own.error_class)


def _priced(report: Report, price: float) -> Report:
    """With what the machine has cost."""
    return add_price(report, Decimal(str(price))) if price else report


async def _check_pages(office: RemoteContext, phase: Phase, key: str, said: Callback) -> None:
    """Raises Reject when pages would be lost: workers that know the contract alone convert the first page."""
    if phase.step != "tiff_to_jpeg" or said.quire is not None or not wants_all_pages(phase):
        return
    if await has_several_pages(office.blobs, key):
        raise Reject(
            "the TIFF has several pages, and its worker converts the first alone; have it converted by a "
            "worker of quire's, set compute.tiff to local, or set preprocess.all_pages to false",
            code="many_pages",
        )


def wants_all_pages(phase: Phase) -> bool:
    return bool(phase.options.get("all_pages", True))


async def _result(
    office: RemoteContext, batch: Batch, phase: Phase, attempt: int, said: Callback
) -> StepResult:
    shape = CLAIM_READERS.get(phase.step)
    if shape is None:
        raise bad_callback(f"tasks of phase {phase.name} are not done by callback")
    claimed, facts = shape(said, attempt)
    few = Semaphore(LOOKED_AT_ONCE)

    async def looked_at(product: Product, size: int | None) -> Product:
        async with few:
            return await _verified(office, batch, product, size)

    products = await gather(*(looked_at(*one) for one in claimed))
    return StepResult(products=tuple(products), facts=facts)


async def _verified(office: RemoteContext, batch: Batch, product: Product, size: int | None) -> Product:
    """As it lies in the store. Raises Reject."""
    await _check_place(office, batch, product.key)
    stored = (await office.blobs.head(product.key)).size
    if stored <= 0 or size not in {None, stored}:
        raise Reject(
            f"the output {product.key[:200]!r} has {stored} bytes in the store, the worker says {size}",
            code="size_mismatch",
        )
    return structs.replace(product, size=stored)


async def _check_place(office: RemoteContext, batch: Batch, key: str) -> None:
    """Raises Reject unless it is new and lies in the batch's own folder: of a worker that wrote over another
    file, not both may be listed.
    """
    keys.check(key)
    folder = f"staging/{batch.id}"
    if not key.startswith(f"{folder}/"):
        raise bad_callback(f"the output {key[:200]!r} is not in {folder}")
    path = key.removeprefix(folder)
    files = [
        one
        for form in (path, path.removeprefix("/"))
        for one in (await office.records.get_file_history(batch.no, form))[0]
    ]
    if key == batch.manifest_key or any(one.key == key and one.gone != 0 for one in files):
        raise bad_callback(f"the output {key[:200]!r} has the key of another file of the batch")
