"""A world of batches that flow: plans and files by the seed, as the simulated processes see them."""

from collections.abc import Collection
from random import Random

from msgspec import Struct, structs

from quire.ledger.port import Upload
from quire.model.batch import Budget
from quire.model.files import File
from quire.model.plan import Plan, PlanPhase, PlanStep
from tests.simulation.flow.endings import Ending
from tests.simulation.flow.model import run_plan
from tests.simulation.flow.plans import Case, made_case
from tests.simulation.flow.steps import World
from tests.simulation.shared.follower import NEXT


class FlowBatch(Struct, frozen=True, kw_only=True):
    id: str
    case: Case
    tier: int
    tenant: str
    at: float  # when its files are handed in
    budget: Budget
    hands_over_to: str = ""

    @property
    def pipeline(self) -> Plan:
        return self.case.plan

    @property
    def uploads(self) -> tuple[Upload, ...]:
        return tuple(map(_upload, self.case.inputs))

    def ending(self, late: Collection[tuple[str, str]] = (), *, healed: bool = False) -> Ending:
        """What must come of it. `late`: steps and paths whose success came after they were given up;
        `healed`: when what went wrong was repaired and tried again.
        """
        world = heal(self.case.world) if healed else self.case.world
        return run_plan(self.case.plan, self.case.inputs, world.run_step(late))


class FlowWorld(Struct, frozen=True, kw_only=True):
    seed: int
    batches: tuple[FlowBatch, ...]

    @property
    def pipelines(self) -> dict[str, Plan]:
        return {batch.pipeline.name: batch.pipeline for batch in self.batches}

    def world_of(self, step: str, *, healed: bool = False) -> World:
        """What the steps of this plan make of things."""
        world = next(one.case.world for one in self.batches if step.startswith(f"{one.pipeline.name}."))
        return heal(world) if healed else world

    def step_of(self, step: str, branch: str) -> tuple[PlanPhase, PlanStep]:
        """By its name in the registry, and the branch."""
        return next(
            (phase, one)
            for plan in self.pipelines.values()
            for phase in plan.phases
            for one in phase.steps
            if one.step == step and one.branch == branch
        )


def heal(world: World) -> World:
    return structs.replace(world, healed=1.0)


def made_world(seed: int) -> FlowWorld:
    chance = Random(f"{seed}/flow")
    return FlowWorld(
        seed=seed,
        batches=tuple(_batch(chance, seed, number) for number in range(chance.choice((1, 1, 1, 2)))),
    )


def _batch(chance: Random, seed: int, number: int) -> FlowBatch:
    return FlowBatch(
        id=f"{number + 1:026d}",
        case=made_case(seed, f"line{number}"),
        tier=chance.randint(1, 5),
        tenant=chance.choice(("", "one")),
        at=chance.uniform(0, 4),
        budget=Budget(seconds=chance.uniform(0.1, 5)) if chance.random() < 0.1 else Budget(),
        hands_over_to=NEXT if chance.random() < 0.4 else "",
    )


def _upload(file: File) -> Upload:
    return Upload(
        path=file.path,
        state="taken",
        size=file.size,
        key=file.key,
        digest=file.digest,
        content_type=file.content_type,
        config=file.processing_config,
        tags=file.tags,
    )
