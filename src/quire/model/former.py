"""Pipelines as earlier versions stored them with their batches: phase by phase, each with one step.

A batch of that form goes on as one whose documents move by themselves when the steps are still the same.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from quire.model.batch import Batch, Stage
from quire.model.pipelines import stored_plan
from quire.model.plan import Plan

# Where such a batch may stand before it is taken over.
BEGUN = frozenset({Stage.FILLING, Stage.GATHERING, Stage.DISCOVERING, Stage.WORKING, Stage.TRANSFORMING})


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


def is_former(batch: Batch) -> bool:
    """Whether an earlier version has begun it, and it has not been taken over yet."""
    return batch.position.stage in BEGUN and stored_plan(batch) is None


def describe_wait(older: Sequence[str]) -> str:
    """Why such a batch waits, for people: `older` are the names of the processes that it waits for."""
    return (
        f"working: waits until no process of the earlier version of Quire that began it is at work; stop "
        f"{', '.join(older)}"
    )


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
