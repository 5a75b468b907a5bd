"""From checked steps to the plan that is stored with a batch."""

from collections.abc import Iterable, Mapping
from itertools import groupby

from quire.authoring.accepts import name_branch
from quire.authoring.definitions import CheckedStep
from quire.authoring.fields_read import find_fields_read
from quire.model.plan import OnFailure, Plan, PlanPhase, PlanStep, PlanUnit, TakenValue


def build_plan(
    name: str,
    version: int,
    steps: Iterable[CheckedStep],
    *,
    queue: str,
    left_alone: Mapping[str, str],
    code_digest: str,
    from_settings: bool = False,
) -> Plan:
    phases = groupby(steps, key=lambda one: one.phase)
    return Plan(
        name=name,
        version=version,
        phases=tuple(_build_phase(phase, list(members)) for phase, members in phases),
        queue=queue,
        left_alone=dict(left_alone),
        code_digest=code_digest,
        from_settings=from_settings,
    )


def _build_phase(name: str, steps: list[CheckedStep]) -> PlanPhase:
    first = steps[0].options
    return PlanPhase(
        name=name,
        steps=tuple(_build_step(one, branch) for one in steps for branch in one.branches or ("",)),
        unit=PlanUnit(first.unit),
        task_prefix=first.task_prefix or name,
        pace=first.pace,
    )


def _build_step(step: CheckedStep, branch: str) -> PlanStep:
    options = step.options
    return PlanStep(
        name=step.result_name(branch),
        step=step.registry_name,
        version=step.version,
        branch=branch,
        accepts=name_branch(step.accepts, step.branch_parameter, branch) if branch else step.accepts,
        options=options.options | ({step.branch_parameter: branch} if branch else {}),
        takes=tuple(
            TakenValue(one.parameter, tuple(one.step.branches.values()), one.required) for one in step.takes
        ),
        gives_value=step.signature.returns.gives_value,
        on_failure=OnFailure(options.on_failure),
        timeout_seconds=options.timeout,
        stall_seconds=options.stall,
        page_seconds=options.page_timeout,
        memory_mb=options.memory_mb,
        max_attempts=options.retries + 1,
        delays=options.delays,
        at_once=options.at_once,
        resource=options.resource,
        asynchronous=step.signature.is_async,
        external=step.signature.returns.external or (step.step is not None and step.step.external),
        cached=options.cached,
        cache_by=_fields_of(step),
        renames=tuple(extension.lower() for extension in options.renames),
        outputs=options.outputs,
        tags=options.tags,
        compute=options.runs_on,
    )


def _fields_of(step: CheckedStep) -> tuple[str, ...]:
    if step.options.cache_by is not None:
        return step.options.cache_by
    if step.step is not None:
        return step.step.reads
    if step.function is None or step.options.unit != "file":
        return ()  # the list of a folder's members has all their records
    return find_fields_read(step.function, step.signature)
