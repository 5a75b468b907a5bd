"""Attempts that somebody outside reports on: how their URLs are signed, how they are found in the ledger, and
how a report on one is settled.

Promises: nobody without the secret can name an attempt; a report is settled by the same rules as any other,
once. A batch that flows needs none of its pipeline's code for that: its rules are stored with it. Must not
know: HTTP, and how the report arrived.
"""

import hashlib
import hmac
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode

from msgspec import Struct, structs

from quire.batches.remote.context import RemoteContext
from quire.engine.flow_settler import FlowSettler
from quire.engine.retry import RetryPolicy
from quire.engine.settlement import decide_settlement, step_retry_policy
from quire.ledger.flow_values import phase_of
from quire.ledger.port import Claim, StoredTask
from quire.model import ids
from quire.model.batch import AT_WORK, Batch, TaskState
from quire.model.errors import Misconfigured, Missing, Reject, Retry
from quire.model.pipelines import stored_plan, to_pipelines
from quire.model.plan import Plan, PlanStep
from quire.model.work import Report, longest_seconds

ADOPTION_SECONDS = 5.0  # a batch of an earlier version is taken over within
_SETTLED = frozenset({TaskState.DONE, TaskState.FAILED, TaskState.SUPERSEDED})


class AttemptAddress(Struct, frozen=True, kw_only=True):
    """An attempt, as a URL or a message from outside names it. `task_no` is the key of the task in the
    ledger.
    """

    batch_id: str
    task_id: str
    task_no: int
    attempt: int


class RemoteStep(Struct, frozen=True):
    """The step that an attempt runs, by the rules of its batch's pipeline."""

    rules: PlanStep
    phase: str
    task_prefix: str
    waits: bool = False  # it is about a folder or the batch

    @property
    def step(self) -> str:
        return self.rules.step

    @property
    def options(self) -> dict[str, Any]:
        return self.rules.options

    def longest_seconds(self, size: int) -> float:
        """The longest that an attempt on a file of so many bytes may take."""
        return longest_seconds(self.rules.timeout_seconds, self.rules.page_seconds, size)

    @property
    def compute(self) -> str:
        return self.rules.compute


class FoundAttempt(Struct, frozen=True):
    """A task with its last attempt, and the step that it runs."""

    batch: Batch
    task: StoredTask
    step: RemoteStep

    @property
    def claim(self) -> Claim:
        return self.task.claim

    def is_current(self, attempt: int) -> bool:
        """Is it running, and is its result awaited?"""
        running = self.task.state is TaskState.RUNNING and self.claim.order.attempt == attempt
        return running and self.batch.position.stage in AT_WORK


class CallbackAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`duplicate`: the attempt was settled before. `late`: a later attempt, phase or round has replaced it.
    Either way nothing changes.
    """

    ok: bool
    duplicate: bool = False
    late: bool = False


def sign(secret: bytes, address: AttemptAddress) -> str:
    """The signature of a callback URL; only a process with the secret can create it."""
    callback = (address.batch_id, address.task_id, str(address.task_no), str(address.attempt))
    return hmac.new(secret, b"callback\0" + "\0".join(callback).encode(), hashlib.sha256).hexdigest()


def verify(secrets: Sequence[bytes], address: AttemptAddress, signature: str) -> None:
    """Check in constant time that it was made with one of these secrets. Raises Reject with code
    `bad_signature`.
    """
    given = signature.encode(errors="replace")
    if not any(hmac.compare_digest(sign(one, address).encode(), given) for one in secrets):
        raise Reject("this callback URL was not issued by this server", code="bad_signature")


def build_url(base: str, secret: bytes, address: AttemptAddress, rest: str = "") -> str:
    """The CALLBACK_URL of an attempt, or a path below it; opaque to workers."""
    query = urlencode({"attempt": address.attempt, "task": address.task_no, "sig": sign(secret, address)})
    return f"{base.rstrip('/')}/callback/{quote(address.batch_id)}/{quote(address.task_id)}{rest}?{query}"


def build_registry_url(base: str, secret: bytes, address: AttemptAddress) -> str:
    """The CDN_API_URL of an attempt: workers append `/asset/{id}` to it."""
    names = (address.batch_id, address.task_id, str(address.task_no), str(address.attempt))
    return f"{base.rstrip('/')}/registry/{quote('.'.join((*names, sign(secret, address))))}"


def read_registry_token(secrets: Sequence[bytes], token: str) -> AttemptAddress:
    """The attempt that such an address was issued for. Raises Reject `bad_signature`."""
    batch_id, task_id, task_no, attempt, signature = ([*token.split(".", 4), *[""] * 5])[:5]
    address = AttemptAddress(
        batch_id=batch_id, task_id=task_id, task_no=read_number(task_no), attempt=read_number(attempt)
    )
    verify(secrets, address, signature)
    return address


def read_number(text: str) -> int:
    """Of a task or an attempt in an address. Raises Reject `bad_signature`."""
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise Reject("this callback URL was not issued by this server", code="bad_signature")
    return int(text)


async def find_attempt(context: RemoteContext, address: AttemptAddress) -> FoundAttempt:
    """Raises Missing for an unknown batch, task or attempt."""
    batch = await context.batches.get_batch(address.batch_id)
    found = await find_task(context, batch, address.task_no)
    order = found.claim.order
    if address.task_id != ids.task_id(found.step.task_prefix, batch.id, order.file.key):
        raise Missing(
            f"task {address.task_no} of batch {batch.id} is not {address.task_id}", code="unknown_task"
        )
    if not 1 <= address.attempt <= order.attempt:
        raise Missing(
            f"attempt {address.attempt} of task {address.task_id} was never started", code="unknown_task"
        )
    return found


async def find_task(context: RemoteContext, batch: Batch, task_no: int) -> FoundAttempt:
    """Raises Missing for an unknown task, Retry for one of a batch that is to be adopted."""
    if not phase_of(task_no) and stored_plan(batch) is not None:
        task_no = await context.flow.find_adopted(batch.no, task_no) or task_no
    task = await context.tasks.get_task(batch.no, task_no)
    if not phase_of(task_no):
        return FoundAttempt(batch, task, _find_former_step(context, batch, task))
    claim = (await context.flow.load_claims(batch.no, [task_no])).get(task_no)
    if claim is None or claim.place is None:
        raise Missing(f"there is no task {task_no} in that batch", code="unknown_task")
    rules = _find_plan(context, batch).phases[claim.place.phase - 1]
    step = RemoteStep(rules.steps[claim.place.branch], rules.name, rules.task_prefix, rules.waits)
    return FoundAttempt(batch, structs.replace(task, claim=claim), step)


def _find_former_step(context: RemoteContext, batch: Batch, task: StoredTask) -> RemoteStep:
    """That of a task which an earlier version has settled; others get another number when their batch is
    adopted.
    """
    phase = _find_plan(context, batch).phases[task.phase - 1]
    if stored_plan(batch) is None or task.state not in _SETTLED:
        raise Retry(
            f"batch {batch.id} is being taken over from an earlier version of Quire; send it again",
            code="too_early",
            delay_seconds=ADOPTION_SECONDS,
        )
    return RemoteStep(phase.steps[0], phase.name, phase.task_prefix)


def _find_plan(context: RemoteContext, batch: Batch) -> Plan:
    """The plan with the limits of this process; without the pipeline, the one that is stored."""
    try:
        return to_pipelines(context.pipelines).of(batch)
    except Misconfigured:
        stored = stored_plan(batch)
        if stored is None:
            raise
        return stored


async def settle(
    context: RemoteContext,
    found: FoundAttempt,
    report: Report,
    policy: RetryPolicy,
    *,
    cache_key: str | None = None,
) -> CallbackAnswer:
    """May be repeated. With `cache_key` the result is kept in the step cache; without, it is not: those of
    other programs for our own steps differ from ours.
    """
    now, batch_no = context.clock.now(), found.batch.no
    step_policy = step_retry_policy(found.step.rules, policy)
    settlement = decide_settlement(report, found.claim, step_policy, now=now, fraction=context.ids.fraction())
    if cache_key is not None:
        settlement = structs.replace(settlement, cache_key=cache_key)
    settled = await FlowSettler(context.flow).settle(batch_no, [(settlement, found.claim)], now=now)
    if settled.applied:
        return CallbackAnswer(ok=True)
    return await _answer_stale(context, found, report.attempt)


async def _answer_stale(context: RemoteContext, found: FoundAttempt, attempt: int) -> CallbackAnswer:
    """What the sender of a report is told that changed nothing."""
    batch = await context.batches.get_batch(found.batch.id)
    task = await context.tasks.get_task(batch.no, found.claim.order.task_no)
    position = batch.position
    overtaken = attempt < task.claim.order.attempt or task.state is TaskState.SUPERSEDED
    late = overtaken or (task.round, task.phase) < (position.round, position.phase)
    return CallbackAnswer(ok=True, duplicate=not late, late=late)
