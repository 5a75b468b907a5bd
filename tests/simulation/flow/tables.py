"""Short ways to write plans, inputs and results in the tables of tests."""

from collections.abc import Callable
from typing import Any

from quire.model.files import Change, File, Product
from quire.model.plan import Accepts, Plan, PlanPhase, PlanStep, PlanUnit, TakenValue, parse_accepts
from quire.model.work import StepResult, Value
from tests.simulation.flow.endings import Ending, Failure, Work
from tests.simulation.flow.model import run_plan
from tests.simulation.flow.steps import type_of

Results = dict[str, StepResult | Failure | Callable[[Work], StepResult | Failure]]
NOTHING = StepResult()


def step(name: str, accepts: str | tuple[str, ...] = (), **more: Any) -> PlanStep:
    taken = more.pop("takes", ())
    takes = tuple(one if isinstance(one, TakenValue) else TakenValue(one, (one,)) for one in taken)
    found = accepts if isinstance(accepts, Accepts) else parse_accepts(accepts)
    return PlanStep(name=name, step=name, version=1, accepts=found, takes=takes, **more)


def phase(*steps: PlanStep | str, unit: PlanUnit = PlanUnit.FILE) -> PlanPhase:
    made = tuple(step(one) if isinstance(one, str) else one for one in steps)
    return PlanPhase(name=made[0].name.upper(), steps=made, unit=unit)


def folders(*steps: PlanStep | str) -> PlanPhase:
    return phase(*steps, unit=PlanUnit.FOLDER)


def batch(*steps: PlanStep | str) -> PlanPhase:
    return phase(*steps, unit=PlanUnit.BATCH)


def plan(*phases: PlanPhase | PlanStep | str) -> Plan:
    made = tuple(one if isinstance(one, PlanPhase) else phase(one) for one in phases)
    return Plan(name="line", version=1, phases=made)


def file(path: str, *tags: str, **config: Any) -> File:
    name = path.rpartition("/")[2]
    return File(
        key=f"cas/{path}",
        path=path,
        name=name,
        size=1,
        content_type=type_of(name),
        digest=path,
        tags=tags,
        processing_config=config,
    )


def output(name: str, change: str = "hang", *tags: str, preferred: str = "", role: str = "made") -> Product:
    return Product(
        role=role,
        key=f"cas/{name}",
        size=1,
        content_type=type_of(name),
        digest=name,
        name=name,
        preferred=preferred,
        change=Change(change),
        tags=tags,
    )


def gives(*outputs: Product, value: Any = None, tags: tuple[str, ...] = ()) -> StepResult:
    return StepResult(products=outputs, value=None if value is None else Value(data=value), tags=tags)


def ending(plan: Plan, inputs: list[str | File], results: Results) -> Ending:
    """`results` by the name of the step, or by name and path: `count letter.txt`; without one, nothing."""

    def run(work: Work) -> StepResult | Failure:
        place = f"{work.step.name} {work.file.path}"
        found = results.get(place, results.get(work.step.name, NOTHING))
        return found if isinstance(found, StepResult | Failure) else found(work)

    return run_plan(plan, [one if isinstance(one, File) else file(one) for one in inputs], run)


def paths(found: Ending) -> list[str]:
    """Of everything that is there at the end."""
    return [row.path for row in found.files]


def made(found: Ending, born: int | None = None) -> list[str]:
    """Paths of what steps made."""
    return [row.path for row in found.files if (row.born == born if born else row.born)]


def visits(found: Ending) -> list[str]:
    """Which step had which document, in order."""
    return [f"{task.step} {task.path}" for task in found.tasks]


def ends(found: Ending) -> dict[str, str]:
    """Of every input: its outcome, and the first failure."""
    return {
        one.path: f"{one.outcome} {one.step} {one.error_class}".strip() if one.step else one.outcome
        for one in found.inputs
    }
