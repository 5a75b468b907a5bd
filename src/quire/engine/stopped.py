"""Documents that a failed step has stopped (`on_failure="stop"`): they take no part in later phases, so they
are no members of folders and of the batch there.

Pure: the ledger says which tasks a document has behind it, the plan which of them stop.
"""

from collections.abc import Iterable, Sequence

from quire.engine.flow import KEPT_ROLE, list_outputs
from quire.ledger.flow_values import TaskBehind
from quire.ledger.port import ListedFile
from quire.model.batch import TaskState
from quire.model.files import Change, File
from quire.model.plan import OnFailure, Plan, PlanStep, PlanUnit


def may_stop(plan: Plan, before: int) -> bool:
    """Whether a step about documents stops them, in a phase before this one."""
    phases = plan.phases[: before - 1]
    return any(
        step.on_failure is OnFailure.STOP
        for phase in phases
        if phase.unit is PlanUnit.FILE
        for step in phase.steps
    )


def find_stopped(
    plan: Plan, files: Iterable[ListedFile], behind: Iterable[TaskBehind], *, before: int
) -> set[int]:
    """The numbers of the documents that were stopped before this phase, or that have replaced one that was.
    In a new round they may have tasks of later phases behind them, too.
    """
    tasks: dict[int, list[TaskBehind]] = {}
    for one in behind:
        if one.phase < before:
            tasks.setdefault(one.file_no, []).append(one)
    return {one.no for one in files if _is_stopped(plan, one.file, tasks.get(one.no, ()))}


def _is_stopped(plan: Plan, file: File, tasks: Sequence[TaskBehind]) -> bool:
    stops = [
        one
        for one in tasks
        if one.state is TaskState.FAILED and _step_of(plan, one).on_failure is OnFailure.STOP
    ]
    return any(one.is_own for one in stops) or (bool(stops) and _stands_for_another(plan, file, tasks))


def _stands_for_another(plan: Plan, file: File, tasks: Sequence[TaskBehind]) -> bool:
    """Whether it is the document itself with other tags, or what has replaced it: not what was made of it and
    walks on in its own right.
    """
    made = [one for one in tasks if not one.is_own]
    if made[0].role == KEPT_ROLE:
        return True
    name, _, ordinal = made[0].lineage.rpartition("\n")[2].rpartition("/")
    for one in made:
        step = _step_of(plan, one)
        if step.name == name and one.state is TaskState.DONE:
            outputs = list_outputs(step, file, one.result)
            return outputs[int(ordinal)].change is Change.REPLACE
    return False


def _step_of(plan: Plan, task: TaskBehind) -> PlanStep:
    return plan.phases[task.phase - 1].steps[task.branch]
