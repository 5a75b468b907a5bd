"""Inspects batches: the state of one, the list of all, the outcome of each file, and the events.

Promises: `show` reads counters, so it costs the same for any size of batch; lists are read in pages and never
held whole. Must not know: who asks, and how the result is displayed.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from quire.batches.context import BatchContext
from quire.batches.lines import (
    AttemptLine,
    BatchDetails,
    BatchEvent,
    BatchLine,
    BatchPlan,
    BudgetLine,
    FailedTaskLine,
    FileLine,
    HoldLine,
    InputHistory,
    PhaseLine,
    PhaseProgress,
    PlannedPhase,
    ProducedFileLine,
    build_step_lines,
    describe_state,
    find_current_counts,
    sum_costs,
)
from quire.ledger.flow_values import PHASE_SHIFT
from quire.ledger.port import AttemptRecord, BatchFilter, FailedTask, FileVersion, InputRecord
from quire.model.batch import Batch, BatchState, Budget, FileOutcome, PhaseCounts
from quire.model.clock import timestamp
from quire.model.cost import MICROS
from quire.model.errors import Missing, Reject
from quire.model.former import describe_wait, is_former
from quire.model.ids import task_id
from quire.model.pipelines import name_step, stored_plan, to_pipelines
from quire.model.plan import PlanPhase
from quire.model.tiers import tier_name

SHOWN_FAILED_TASKS = 100
PAGE = 500
_UNKNOWN_PREFIX = "task"  # of a pipeline that is not installed here


async def show(context: BatchContext, batch_id: str) -> BatchDetails:
    """Raises Missing."""
    batch = await context.batches.get_batch(batch_id)
    counts = await context.records.count_tasks(batch.no)
    current = find_current_counts(batch, counts)
    failed = await context.records.list_first_failed(batch.no, limit=SHOWN_FAILED_TASKS)
    return BatchDetails(
        batch_id=batch.id,
        status=batch.status,
        state=batch.state,
        summary=await _describe_wait(context, batch) or describe_state(batch, counts, context.clock.now()),
        progress=PhaseProgress(
            tasks_total=current.total, tasks_completed=current.done, tasks_failed=current.failed
        ),
        started_at=timestamp(batch.created_at if batch.started_at is None else batch.started_at),
        updated_at=timestamp(batch.updated_at),
        completed_at=UNSET if batch.completed_at is None else timestamp(batch.completed_at),
        error=UNSET if batch.error is None else batch.error,
        phases={one.name: _build_phase_line(one) for one in counts},
        failed_tasks=_build_failed_lines(context, batch, failed),
        failures=await context.records.count_failures(batch.no),
        pipeline=batch.pipeline,
        pipeline_version=batch.pipeline_version,
        round=batch.position.round,
        tier=tier_name(batch.tier),
        tenant=batch.tenant,
        hold=None if batch.hold is None else HoldLine(kind=batch.hold.value, reason=batch.hold_reason),
        phase_retry_count=batch.phase_retries,
        budget=_build_budget_line(batch.budget),
        spent=sum_costs([one.spent for one in counts]),
        total_files=batch.total_files,
        refused_files=batch.refused,
        skipped_files=batch.passed_over,
        created_at=timestamp(batch.created_at),
        plan=_describe_plan(batch),
        queue_message=_decode_message(await context.batches.get_start_message(batch.no)),
    )


async def _describe_wait(context: BatchContext, batch: Batch) -> str:
    """Of a batch that an earlier version has begun: which processes it waits for. Empty: for none."""
    if batch.hold is not None or not is_former(batch):
        return ""
    older = await context.records.list_older_members()
    return describe_wait(older) if older else ""


async def list_batches(context: BatchContext, wanted: BatchFilter) -> list[BatchLine]:
    """A page, newest first; the next one is `wanted` with `before` set to the last line's `no`. Raises Reject
    for a phase that no batch is in and no pipeline has.
    """
    found = await context.records.list_batches(wanted)
    if wanted.phase is not None and wanted.before is None and not found:
        _check_phase(context, wanted.phase)
    return [await _build_batch_line(context, batch) for batch in found]


def _check_phase(context: BatchContext, name: str) -> None:
    known = {phase.name for plan in to_pipelines(context.pipelines).every() for phase in plan.phases}
    if name not in known:
        listed = ", ".join(sorted(known))
        raise Reject(f"There is no phase {name[:80]!r}; known are {listed}", code="unknown_phase")


def read_state(name: str) -> BatchState:
    """Raises Reject for a word that is no state of a batch."""
    try:
        return BatchState(name)
    except ValueError:
        known = ", ".join(BatchState)
        raise Reject(f"There is no state {name[:80]!r}; known are {known}", code="bad_request") from None


async def list_files(
    context: BatchContext,
    batch_id: str,
    *,
    outcome: FileOutcome | None = None,
    error_class: str | None = None,
) -> AsyncIterator[FileLine]:
    """Every input with its outcome, in order of path, read page by page. Raises Missing."""
    batch = await context.batches.get_batch(batch_id)
    after = ""
    while page := await context.records.list_inputs(
        batch.no, after=after, limit=PAGE, outcome=outcome, error_class=error_class
    ):
        after = page[-1].path
        for record in page:
            yield build_file_line(record)


async def get_file_history(context: BatchContext, batch_id: str, path: str) -> InputHistory:
    """The history of an input, or of the input that a product descends from. Raises Missing, also for the
    path.
    """
    batch = await context.batches.get_batch(batch_id)
    made, attempts = await context.records.get_file_history(batch.no, path)
    # A file that was refused on the way in has no history, but it has an outcome.
    root = made[0].path if made else path
    found = await context.records.list_inputs(batch.no, after=find_path_before(root), limit=1) if root else []
    if not found or found[0].path != root:
        raise Missing(f"batch {batch.id} has no file {path}; list its files to see their paths")
    names = {one.phase: one.name for one in await context.records.count_tasks(batch.no)}
    return InputHistory(
        file=build_file_line(found[0]),
        files=[_build_produced_line(one, names) for one in made],
        attempts=[_build_attempt_line(one, name_step(batch, one.phase, one.branch)) for one in attempts],
    )


async def list_events(context: BatchContext, batch_id: str, *, after: int = 0) -> AsyncIterator[BatchEvent]:
    """The events so far, oldest first. Raises Missing."""
    batch = await context.batches.get_batch(batch_id)
    while page := await context.records.list_events(batch.no, after=after, limit=PAGE):
        for no, at, kind, data in page:
            after = no
            yield BatchEvent(no=no, at=timestamp(at), kind=kind, data=data)


async def follow_events(
    context: BatchContext, batch_id: str, pause: Callable[[], Awaitable[None]]
) -> AsyncIterator[BatchEvent]:
    """The events so far and those to come, until the batch has ended; `pause` is awaited between reads."""
    after = 0
    while True:
        # Read first: events up to the end are still yielded after it.
        ended = (await context.batches.get_batch(batch_id)).ended
        async for event in list_events(context, batch_id, after=after):
            after = event.no
            yield event
        if ended:
            return
        await pause()


async def _build_batch_line(context: BatchContext, batch: Batch) -> BatchLine:
    counts = await context.records.count_tasks(batch.no)
    return BatchLine(
        no=batch.no,
        batch_id=batch.id,
        status=batch.status,
        state=batch.state,
        summary=describe_state(batch, counts, context.clock.now()),
        pipeline=batch.pipeline,
        round=batch.position.round,
        tier=tier_name(batch.tier),
        tenant=batch.tenant,
        total_files=batch.total_files,
        refused_files=batch.refused,
        skipped_files=batch.passed_over,
        tasks_failed=sum(one.failed for one in counts),
        created_at=timestamp(batch.created_at),
        updated_at=timestamp(batch.updated_at),
        completed_at=None if batch.completed_at is None else timestamp(batch.completed_at),
    )


def _build_phase_line(counts: PhaseCounts) -> PhaseLine:
    return PhaseLine(total=counts.total, completed=counts.done, failed=counts.failed, cached=counts.cached)


def _build_failed_lines(
    context: BatchContext, batch: Batch, failed: Sequence[FailedTask]
) -> list[FailedTaskLine]:
    # The stored plan first: a batch is shown without loading the code of its pipeline.
    pipeline = stored_plan(batch) or context.pipelines.get(batch.pipeline)
    prefixes = {} if pipeline is None else {phase.name: phase.task_prefix for phase in pipeline.phases}
    return [
        FailedTaskLine(
            task_id=task_id(prefixes.get(task.phase, _UNKNOWN_PREFIX), batch.id, task.key),
            input_r2_key=task.key,
            error=task.error,
            phase=task.phase,
            path=task.path,
            error_class=task.error_class,
            step=name_step(batch, task.phase, task.branch),
        )
        for task in sorted(failed, key=lambda task: (task.task_no >> PHASE_SHIFT, task.path, task.branch))
    ]


def _build_budget_line(budget: Budget) -> BudgetLine:
    money = None if budget.money_micros is None else budget.money_micros / MICROS
    return BudgetLine(seconds=budget.seconds, tokens=budget.tokens, money=money)


def _describe_plan(batch: Batch) -> BatchPlan:
    """The stored plan; empty when it was written by a version that this one cannot read. Of several steps in
    a phase the first one stands for it.
    """
    plan = stored_plan(batch)
    if plan is not None:
        return BatchPlan(phases=tuple(_describe_phase(phase) for phase in plan.phases))
    try:
        return msgspec.json.decode(batch.plan, type=BatchPlan)
    except msgspec.MsgspecError:
        return BatchPlan()


def _describe_phase(phase: PlanPhase) -> PlannedPhase:
    step = phase.steps[0]
    return PlannedPhase(
        name=phase.name,
        step=step.step,
        version=step.version,
        timeout_seconds=step.timeout_seconds,
        memory_mb=step.memory_mb,
        max_attempts=step.max_attempts,
    )


def _decode_message(message: str | None) -> Any:
    if message is None:
        return None
    try:
        return msgspec.json.decode(message)
    except msgspec.MsgspecError:
        return message


def build_file_line(record: InputRecord) -> FileLine:
    return FileLine(
        path=record.path,
        status=record.outcome,
        reason=record.reason or None,
        error_class=record.error_class or None,
        outputs=[file.path for _, file in record.made],
        attempts=record.attempts,
        size=record.size,
        steps=build_step_lines(record),
    )


def _build_produced_line(file: FileVersion, names: dict[int, str]) -> ProducedFileLine:
    return ProducedFileLine(
        path=file.path,
        role=file.role,
        made_in=names.get(file.born),
        replaced_in=names.get(file.gone) if file.gone else None,
        withdrawn=file.gone == 0,
        key=file.key,
        size=file.size,
        content_type=file.content_type,
        tags=file.tags,
    )


def _build_attempt_line(attempt: AttemptRecord, step: str) -> AttemptLine:
    return AttemptLine(
        phase=attempt.phase,
        step=step,
        round=attempt.round,
        task_no=attempt.task_no,
        attempt=attempt.attempt,
        path=attempt.path,
        outcome=attempt.outcome,
        error_class=attempt.error_class or None,
        error=attempt.error or None,
        started_at=None if attempt.started_at is None else timestamp(attempt.started_at),
        seconds=round(attempt.seconds, 3),
        worker=attempt.worker,
        task_state=attempt.state,
    )


def find_path_before(path: str) -> str:
    """The greatest text before `path`, so that a page after it begins with `path` itself."""
    last = ord(path[-1]) - 1
    # No character has the numbers between: they cannot be written as UTF-8.
    last = 0xD7FF if 0xD800 <= last <= 0xDFFF else last
    return path[:-1] + (chr(last) + "\U0010ffff" if last > 0 else "")
