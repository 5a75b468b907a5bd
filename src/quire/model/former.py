"""Pipelines as earlier versions stored them with their batches: phase by phase, each with one step.

A batch of that form goes on as one whose documents move by themselves when the steps are still the same.
"""

from typing import Any

import msgspec
from msgspec import Struct

from quire.model.batch import Batch
from quire.model.plan import Plan


class FormerPhase(Struct, frozen=True):
    name: str
    step: str = ""
    version: int = 0
    options: dict[str, Any] = {}


class FormerPlan(Struct, frozen=True):
    phases: tuple[FormerPhase, ...] = ()


def read_former_plan(batch: Batch) -> FormerPlan:
    """Without phases when it is none."""
    try:
        return msgspec.json.decode(batch.plan, type=FormerPlan)
    except msgspec.MsgspecError:
        return FormerPlan()


def has_former_phases(batch: Batch, plan: Plan) -> bool:
    """Whether the phases of the plan are those that the batch was submitted to, each with one step."""
    before = [phase.name for phase in read_former_plan(batch).phases]
    simple = all(len(phase.steps) == 1 and not phase.waits for phase in plan.phases)
    return simple and before == [phase.name for phase in plan.phases]


def is_former_of(batch: Batch, plan: Plan) -> bool:
    """Whether the same steps were asked for with the same options."""
    if not has_former_phases(batch, plan) or batch.pipeline_version != plan.version:
        return False
    return all(
        (before.step, before.version, before.options)
        == (phase.steps[0].step, phase.steps[0].version, msgspec.to_builtins(phase.steps[0].options))
        for before, phase in zip(read_former_plan(batch).phases, plan.phases, strict=True)
    )
