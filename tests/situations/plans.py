"""Plans of pipelines for tests: a test names only the fields that it is about."""

from typing import Any

from quire.model.files import Change, Product
from quire.model.plan import Plan, PlanPhase, PlanStep, parse_accepts


def step(name: str = "one", accepts: str | tuple[str, ...] | list[str] = (), **changes: Any) -> PlanStep:
    known: dict[str, Any] = {
        "name": name,
        "step": f"plan.{name}",
        "version": 1,
        "accepts": parse_accepts(accepts),
    }
    return PlanStep(**(known | changes))


def phase(*steps: PlanStep, name: str = "", **changes: Any) -> PlanPhase:
    """Called as its first step, in capitals."""
    return PlanPhase(name=name or steps[0].name.upper(), steps=steps, **changes)


def plan(*phases: PlanPhase, name: str = "plan") -> Plan:
    return Plan(name=name, version=1, phases=phases, queue="plan")


def product(
    name: str, change: Change = Change.HANG, content_type: str = "text/plain", **changes: Any
) -> Product:
    known: dict[str, Any] = {
        "role": name,
        "key": f"cas/{name}",
        "size": 1,
        "content_type": content_type,
        "digest": name,
        "name": name,
        "change": change,
    }
    return Product(**(known | changes))
