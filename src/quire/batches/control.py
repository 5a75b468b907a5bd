"""Controls batches: pause, resume, cancel, reset, change the priority, retry failed tasks.

Promises: a retry runs exactly what its preview lists; an action that does not fit the state of the batch is a
Reject that names the state and what can be done instead. Must not know: who asks, and by what means.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from msgspec import UNSET, Struct, UnsetType, structs

from quire.batches.context import BatchContext
from quire.batches.lines import describe_state
from quire.engine.adoption import check_phases
from quire.ledger.port import OperatorAction, RetrySelection, TaskSelection
from quire.model.batch import Batch, Budget, PhaseCounts, Stage
from quire.model.errors import Reject, Stale
from quire.model.ids import BatchId
from quire.model.pipelines import stored_plan, to_pipelines
from quire.model.plan import Plan, digest_of, encode_plan
from quire.model.tiers import tier_number

PAGE = 1000
EVERYTHING = TaskSelection()


class FailedGroup(Struct, frozen=True, kw_only=True):
    """Failed tasks that would run again."""

    phase: str
    error_class: str
    tasks: int


class RetryPreview(Struct, frozen=True, kw_only=True):
    """Exactly what a retry would run. `continues`: the batch picks up where it left off, with `unsettled`
    tasks that have no result yet; otherwise a new round runs the failed tasks alone.
    """

    batch_id: BatchId
    kind: Literal["continues", "new_round"]
    round: int
    from_phase: str  # empty: before the first phase
    failed: tuple[FailedGroup, ...]
    unsettled: int
    files: int  # different files, or units of files, that the failed tasks are about

    @property
    def tasks(self) -> int:
        return sum(group.tasks for group in self.failed) + self.unsettled


class BudgetChange(Struct, frozen=True, kw_only=True):
    """Changes of a budget: a limit that is not set stays as it is; None removes it."""

    seconds: float | UnsetType | None = UNSET
    tokens: int | UnsetType | None = UNSET
    money_micros: int | UnsetType | None = UNSET


async def preview_retry(
    context: BatchContext, batch_id: str, selection: TaskSelection = EVERYTHING
) -> RetryPreview:
    """Changes nothing. Raises Missing for an unknown batch and Reject when nothing can be retried:
    `still_running`, `not_finished` (a selection among the tasks of a batch that was cancelled or failed) or
    `nothing_to_retry`.
    """
    return (await _plan_retry(context, batch_id, selection))[1]


async def retry(
    context: BatchContext, batch_id: str, act: OperatorAction, selection: TaskSelection = EVERYTHING
) -> RetryPreview:
    """Run what the preview lists; returns the preview of the moment at which the retry started."""
    batch, preview = await _plan_retry(context, batch_id, selection)
    plan = stored_plan(batch)
    if plan is None:
        plan = to_pipelines(context.pipelines).of(batch)
        if batch.position.stage is Stage.DONE:  # otherwise the scheduler adopts it where it stood
            batch = await _adopt_ended(context, batch, plan)
    await _retry_flow(context, batch, plan, preview, selection, act)
    return preview


async def _adopt_ended(context: BatchContext, batch: Batch, plan: Plan) -> Batch:
    """An earlier version has run the batch to its end."""
    check_phases(batch, plan)
    return await context.control.adopt_ended(
        batch, plan=encode_plan(plan), digest=digest_of(plan), phases=[phase.name for phase in plan.phases]
    )


async def _retry_flow(
    context: BatchContext,
    batch: Batch,
    plan: Plan,
    preview: RetryPreview,
    selection: TaskSelection,
    act: OperatorAction,
) -> None:
    """Needs none of the pipeline's code: the plan is stored with the batch."""
    if preview.kind == "continues":
        status = plan.phases[max(1, batch.position.phase) - 1].name
        await _act(context, batch, "continued", lambda: context.control.reopen(batch.no, act, status=status))
        return
    waiting = [number for number, phase in enumerate(plan.phases, start=1) if phase.waits]
    names = [phase.name for phase in plan.phases]
    await _act(
        context,
        batch,
        "retried",
        lambda: context.control.retry_flow(batch, selection, act, waiting=waiting, names=names),
    )


async def pause(context: BatchContext, batch_id: str, act: OperatorAction) -> Batch:
    """No further task starts; running tasks finish."""
    batch = await context.batches.get_batch(batch_id)
    act = _add_reason(act, "paused")
    return await _act(context, batch, "paused", lambda: context.control.pause(batch.no, act))


async def resume(
    context: BatchContext, batch_id: str, act: OperatorAction, limits: BudgetChange | None = None
) -> Batch:
    """Tasks start again. Raises Reject `budget_spent` when the batch would be held again at once."""
    batch = await context.batches.get_batch(batch_id)
    budget = _change_budget(batch.budget, limits)
    if batch.hold is not None and (
        short := _name_exhausted(budget, await context.records.count_tasks(batch.no))
    ):
        raise Reject(
            f"batch {batch.id} has spent its budget of {short} and would be held again at once; "
            f"resume it with a larger budget of {short}, or with none",
            code="budget_spent",
        )
    new = None if budget == batch.budget else budget
    return await _act(context, batch, "resumed", lambda: context.control.resume(batch.no, act, budget=new))


async def cancel(context: BatchContext, batch_id: str, act: OperatorAction) -> Batch:
    """End the batch; settled tasks keep their results, and the batch can be continued later."""
    batch = await context.batches.get_batch(batch_id)
    act = _add_reason(act, "cancelled")
    return await _act(context, batch, "cancelled", lambda: context.control.cancel(batch.no, act))


async def reset(context: BatchContext, batch_id: str, act: OperatorAction) -> Batch:
    """End the batch in error, by decision of an operator."""
    batch = await context.batches.get_batch(batch_id)
    return await _act(context, batch, "reset", lambda: context.control.reset(batch.no, act))


async def prioritise(context: BatchContext, batch_id: str, tier: str, act: OperatorAction) -> Batch:
    """`tier` is a tier's name, word or number. Raises Reject `unknown_tier`."""
    number = tier_number(tier)
    batch = await context.batches.get_batch(batch_id)
    return await _act(
        context, batch, "given another priority", lambda: context.control.set_priority(batch.no, number, act)
    )


async def _plan_retry(
    context: BatchContext, batch_id: str, selection: TaskSelection
) -> tuple[Batch, RetryPreview]:
    batch = await context.batches.get_batch(batch_id)
    if not batch.ended:
        raise Reject(
            f"batch {batch.id} has not ended: {await _describe_state(context, batch)}; wait until "
            "it ends, or cancel it and then retry it",
            code="still_running",
        )
    finished = batch.position.stage is Stage.DONE
    if not finished and selection != EVERYTHING:
        raise Reject(
            f"batch {batch.id} has not come to its end: {await _describe_state(context, batch)}; "
            "continue it as a whole, then retry what has failed by then",
            code="not_finished",
        )
    chosen = await context.control.preview_retry(batch.no, selection)
    names = {one.phase: one.name for one in await context.records.count_tasks(batch.no)}
    if finished:
        files = await _count_files(context, batch, selection)
        return batch, _plan_new_round(batch, chosen, names, selection, files)
    # Failed tasks run again only where the batch stood among its tasks; those of earlier phases stay failed.
    mine = chosen.failed
    preview = RetryPreview(
        batch_id=batch.id,
        kind="continues",
        round=batch.position.round,
        from_phase=names.get(batch.position.phase, ""),
        failed=_group_failures(mine, names),
        unsettled=chosen.unsettled,
        files=sum(count for _, _, count in mine) + chosen.unsettled,
    )
    return batch, preview


def _plan_new_round(
    batch: Batch, chosen: RetrySelection, names: dict[int, str], selection: TaskSelection, files: int
) -> RetryPreview:
    if not chosen.failed:
        which = "" if selection == EVERYTHING else " that matches"
        raise Reject(
            f"batch {batch.id} has no failed task{which}; files that were refused before the first phase "
            "(bad name, empty file) must be corrected and submitted again",
            code="nothing_to_retry",
        )
    first = min(phase for phase, _, _ in chosen.failed)
    return RetryPreview(
        batch_id=batch.id,
        kind="new_round",
        round=batch.position.round + 1,
        from_phase=names.get(first, str(first)),
        failed=_group_failures(chosen.failed, names),
        unsettled=0,
        files=files,
    )


def _group_failures(failed: Sequence[tuple[int, str, int]], names: dict[int, str]) -> tuple[FailedGroup, ...]:
    return tuple(
        FailedGroup(phase=names.get(phase, str(phase)), error_class=error_class, tasks=tasks)
        for phase, error_class, tasks in failed
    )


async def _count_files(context: BatchContext, batch: Batch, selection: TaskSelection) -> int:
    """The number of different files among the selected tasks: one may have failed in several phases."""
    if selection.path is not None:
        return 1
    paths: set[str] = set()
    after = 0
    while page := await context.records.list_failed_tasks(batch.no, after=after, limit=PAGE):
        after = page[-1].task_no
        paths.update(task.path for task in page if selection.error_class in {None, task.error_class})
    return len(paths)


def _add_reason(act: OperatorAction, done: str) -> OperatorAction:
    """People read the reason later beside each file, so it must not be empty."""
    return act if act.reason else structs.replace(act, reason=f"{done} by {act.actor}")


def _change_budget(budget: Budget, limits: BudgetChange | None) -> Budget:
    if limits is None:
        return budget
    changes = {name: value for name, value in structs.asdict(limits).items() if value is not UNSET}
    return structs.replace(budget, **changes)


def _name_exhausted(budget: Budget, counts: Sequence[PhaseCounts]) -> str:
    """The limits of the budget that are used up, in words; empty when none is."""
    spent = [one.spent for one in counts]
    used = {
        "seconds": (budget.seconds, sum(one.seconds for one in spent)),
        "tokens": (budget.tokens, sum(one.tokens_in + one.tokens_out for one in spent)),
        "money": (budget.money_micros, sum(one.money_micros for one in spent)),
    }
    return " and ".join(
        name for name, (limit, so_far) in used.items() if limit is not None and so_far >= limit
    )


async def _act(context: BatchContext, batch: Batch, done: str, act: Callable[[], Awaitable[Batch]]) -> Batch:
    try:
        return await act()
    except Stale as error:
        now = await context.batches.get_batch(batch.id)
        raise Reject(
            f"batch {now.id} cannot be {done}: {await _describe_state(context, now)}; {_advise(now)}",
            code="wrong_state",
        ) from error


async def _describe_state(context: BatchContext, batch: Batch) -> str:
    return describe_state(batch, await context.records.count_tasks(batch.no), context.clock.now())


def _advise(batch: Batch) -> str:
    if batch.position.stage is Stage.DONE:
        return "the batch has ended; only failed files can be retried"
    if batch.ended:
        return "the batch has ended; retry it to continue where it left off"
    if batch.hold is not None:
        return "resume or cancel it"
    return "it is running; to stop it, pause or cancel it"
