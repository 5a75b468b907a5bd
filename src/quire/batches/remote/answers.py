"""Answers: somebody outside completes a task of a step that has returned `External`.

Promises: the first valid answer wins, and is settled by the same rules as any other report, once. An answer
that cannot be right is refused and changes nothing; one that comes before the ledger has noted that it may
come waits; a repeated or late one is told so. A failure that will pass is noted, and the task goes on
waiting: its deadline ends it. Must not know: HTTP and queues.
"""

import asyncio
import re
from asyncio import Semaphore, gather
from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field, structs

from quire.authoring.outputs import guess_type
from quire.batches.remote.attempts import CallbackAnswer, FoundAttempt, find_task, settle
from quire.batches.remote.context import RemoteContext
from quire.batches.remote.products import VERIFIED_AT_ONCE, verify_product
from quire.batches.remote.step_cache import find_cache_key
from quire.blobs import content
from quire.compute.pool.output_names import check_distinct, check_name
from quire.compute.pool.values import encode_value, store_value
from quire.compute.remote.output_keys import strip_prefix
from quire.engine.retry import RetryPolicy
from quire.model.batch import TaskState
from quire.model.cost import Cost, to_micros
from quire.model.errors import Missing, Reject, Retry
from quire.model.files import Change, Product
from quire.model.task_tokens import TokenAddress, read_token
from quire.model.work import Outcome, Report, StepCall, StepResult

MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_OUTPUTS = 1000
MAX_ERROR_CHARACTERS = 2000
WORKER = "answer"
# An answer that comes before its step has returned waits for it, and is to be sent again after that.
PATIENCE_SECONDS = 20.0
LOOK_SECONDS = 0.1
AGAIN_SECONDS = 5.0
_DEFAULT_POLICY = RetryPolicy()
_CLASS = re.compile(r"[a-z][a-z0-9_]*")
_OVER = frozenset({TaskState.DONE, TaskState.SUPERSEDED})

Sleep = Callable[[float], Awaitable[None]]
_Amount = Annotated[int, Meta(ge=0, le=2**53)]
_Tag = Annotated[str, Meta(min_length=1, max_length=200)]


class AnswerOutput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An output, by one of: `text`; `data`, bytes in base64; `key`, where it lies in the store of the batch,
    and `size`, if it is to be compared. The others are those of `Output`.
    """

    name: str
    text: str | None = None
    data: bytes | None = None
    key: str | None = None
    size: _Amount | None = None
    content_type: Annotated[str, Meta(max_length=200)] = ""
    change: Literal["hang", "join", "replace"] = "hang"
    tags: tuple[_Tag, ...] = ()
    preferred: str = ""
    role: Annotated[str, Meta(max_length=200)] = ""
    facts: dict[str, Any] = field(default_factory=dict)


class AnswerCost(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the answer has cost, which counts for the batch's budget; `money` in currency units."""

    tokens_in: _Amount = 0
    tokens_out: _Amount = 0
    money: Annotated[float, Meta(ge=0, le=1e9)] = 0.0


class Answer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A success has a value, outputs, or both, as the step itself could have returned them. An error is
    `final`, or it is noted and the task goes on waiting for another answer.
    """

    status: Literal["success", "error"]
    value: Any = None
    outputs: Annotated[tuple[AnswerOutput, ...], Meta(max_length=MAX_OUTPUTS)] = ()
    tags: tuple[_Tag, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    error_class: Annotated[str, Meta(max_length=40)] = ""
    final: bool = True
    cost: AnswerCost = AnswerCost()


class AnswerMessage(Answer, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer that comes by a queue: with the token of its task."""

    task: str


class TaskAnswered(CallbackAnswer, frozen=True, kw_only=True, omit_defaults=True):
    """`waiting`: the failure was noted, and the task still waits for an answer."""

    waiting: bool = False


_answers = msgspec.json.Decoder(Answer)
_messages = msgspec.json.Decoder(AnswerMessage)


def read_answer(body: bytes) -> Answer:
    """Raises Reject: `answer_refused`, `too_large`."""
    answer: Answer = _read(_answers, body)
    return answer


def read_message(body: bytes) -> tuple[str, Answer]:
    """The token and the answer. Raises Reject: `answer_refused`, `too_large`."""
    message = _read(_messages, body)
    return message.task, message


async def complete_task(
    context: RemoteContext,
    secrets: Sequence[bytes],
    token: str,
    answer: Answer,
    *,
    policy: RetryPolicy = _DEFAULT_POLICY,
    prefix: str = "",
    patience_seconds: float = PATIENCE_SECONDS,
    sleep: Sleep = asyncio.sleep,
) -> TaskAnswered:
    """Settle the attempt that the token names. May be repeated. `prefix` is that of the blob store in the
    bucket, for those who use its keys.

    Raises Reject for a token that was not issued here (`bad_signature`) and for an answer that cannot be
    right, Missing for an unknown task, Retry `too_early` while the step has not returned.
    """
    address = read_token(secrets, token)
    _check_answer(answer)
    found = await _wait_until_external(context, address, patience_seconds, sleep)
    order = found.claim.order
    if answer.status == "error" and not answer.final:
        error = _describe(answer)
        if await context.flow.note_answer(found.batch.no, order.task_no, address.attempt, error):
            return TaskAnswered(ok=True, waiting=True)
    report = await _build_report(context, found, address.attempt, answer, prefix)
    cache_key = await find_cache_key(context, found, report)
    settled = await settle(context, found, report, policy, cache_key=cache_key)
    return TaskAnswered(**structs.asdict(settled))


async def _wait_until_external(
    context: RemoteContext, address: TokenAddress, patience_seconds: float, sleep: Sleep
) -> FoundAttempt:
    """The attempt, when its step has returned."""
    until = context.clock.monotonic() + patience_seconds
    while True:
        batch = await context.batches.get_batch(address.batch_id)
        found = await find_task(context, batch, address.task_no)
        current = found.claim.order.attempt
        if not 1 <= address.attempt <= current:
            raise Missing(f"attempt {address.attempt} was never started", code="unknown_task")
        is_early = found.task.state is TaskState.RUNNING and address.attempt == current
        if not is_early or batch.ended:
            return found
        if context.clock.monotonic() >= until:
            raise Retry(
                f"{found.step.rules.step} has not returned yet, so its task waits for no answer; "
                "send the answer again later",
                code="too_early",
                delay_seconds=AGAIN_SECONDS,
            )
        await sleep(LOOK_SECONDS)


async def _build_report(
    context: RemoteContext, found: FoundAttempt, attempt: int, answer: Answer, prefix: str
) -> Report:
    # No seconds: nobody here has worked while the task waited.
    names = (found.batch.no, found.claim.order.task_no, attempt)
    spent = (found.claim.started_at, 0.0, WORKER)
    cost = _to_cost(answer.cost)
    if answer.status == "error":
        failed = Report(*names, Outcome.REJECTED, *spent, error_class="answer_failed", cost=cost)
        named = {"error_class": answer.error_class} if answer.error_class else {}
        return structs.replace(failed, error=_describe(answer), **named)
    if attempt != found.claim.order.attempt or found.task.state in _OVER or found.batch.ended:
        return Report(*names, Outcome.DONE, *spent)  # changes nothing: its outputs need not be verified
    result = await _store_result(context, found, answer, prefix)
    size = sum(product.size for product in result.products)
    return Report(*names, Outcome.DONE, *spent, result=result, cost=cost + Cost(bytes_out=size))


async def _store_result(
    context: RemoteContext, found: FoundAttempt, answer: Answer, prefix: str
) -> StepResult:
    """The result, with everything it names in the store. Raises Reject."""
    limit = Semaphore(VERIFIED_AT_ONCE)

    async def store(output: AnswerOutput) -> Product:
        async with limit:
            return await _store_output(context, found, output, prefix)

    value = encode_value(answer.value, StepCall(step=found.step.step, version=0))
    products = await gather(*map(store, answer.outputs))
    return StepResult(
        products=tuple(products),
        facts=answer.facts,
        value=await store_value(context.blobs, value),
        tags=answer.tags,
    )


async def _store_output(
    context: RemoteContext, found: FoundAttempt, output: AnswerOutput, prefix: str
) -> Product:
    product = Product(
        role=output.role or output.name,
        key="",
        size=0,
        content_type=output.content_type
        or guess_type(output.name, "application/octet-stream" if output.text is None else "text/plain"),
        digest="",
        facts=output.facts,
        name=output.name,
        preferred=output.preferred,
        change=Change(output.change),
        tags=output.tags,
    )
    if output.key is not None:
        key = strip_prefix(output.key, prefix, found.batch.id) if prefix else output.key
        return await verify_product(context, found.batch, structs.replace(product, key=key), output.size)
    data = output.text.encode() if output.text is not None else output.data or b""
    stored = await content.put_bytes(context.blobs, data)
    return structs.replace(product, key=stored.key, size=stored.size, digest=stored.digest)


def _read(decoder: "msgspec.json.Decoder[Any]", body: bytes) -> Any:
    if len(body) > MAX_BODY_BYTES:
        raise Reject(
            f"an answer has {MAX_BODY_BYTES} bytes at most, not {len(body)}; put large outputs into the "
            "store and name their keys",
            code="too_large",
        )
    try:
        return decoder.decode(body)
    except (ValueError, RecursionError) as error:
        raise _bad(f"this is not an answer: {error}") from error


def _check_answer(answer: Answer) -> None:
    """Raises Reject for what cannot be right, whatever the task is."""
    if answer.status == "error":
        if answer.value is not None or answer.outputs:
            raise _bad("an error has no value and no outputs")
        if not answer.error.strip():
            raise _bad("an error says in `error` what is wrong")
        if answer.error_class and not _CLASS.fullmatch(answer.error_class):
            raise _bad("an `error_class` is a word of small letters, digits and underscores: `no_text`")
        return
    if answer.error or answer.error_class or not answer.final:
        raise _bad("a success has no `error`, `error_class` or `final`")
    for output in answer.outputs:
        check_name(output.name, "that was asked")
        if output.preferred:
            check_name(output.preferred, "that was asked")
        _check_content(output)
    check_distinct((output.name for output in answer.outputs), "that was asked")
    try:
        msgspec.msgpack.encode([answer.facts, [one.facts for one in answer.outputs]])
    except (ValueError, TypeError, OverflowError) as error:
        raise _bad(f"the facts cannot be kept: {error}") from error


def _check_content(output: AnswerOutput) -> None:
    given = [one for one in (output.text, output.data, output.key) if one is not None]
    if len(given) != 1:
        raise _bad(f"the output {output.name!r} has one of `text`, `data` and `key`")
    if not given[0]:
        raise _bad(f"the output {output.name!r} is empty")
    if output.size is not None and output.key is None:
        raise _bad(f"the output {output.name!r} has a `size`, which belongs to a `key`")


def _describe(answer: Answer) -> str:
    return answer.error.strip()[:MAX_ERROR_CHARACTERS]


def _to_cost(said: AnswerCost) -> Cost:
    return Cost(
        tokens_in=said.tokens_in, tokens_out=said.tokens_out, money_micros=to_micros(Decimal(str(said.money)))
    )


def _bad(words: str) -> Reject:
    return Reject(words, code="answer_refused")
