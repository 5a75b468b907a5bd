"""The operations that actors of the explorer may carry out: those of our protocol, and those of published
tools.
"""

from collections.abc import Callable, Collection
from itertools import count
from typing import Any

from quire.library.protocol import janitor, lifecycle, operator
from quire.library.protocol.lifecycle import JobActor, JobCandidate
from quire.library.protocol.requests import Operation, ReadObject
from tests.simulation.library import published
from tests.simulation.library.situations import JOB, Actor, Budget

# What an actor does, by the first letter of its name, and the operation. Workers have choices of their own.
CHOICES = {
    "j": {"looks": "settle"},
    "p": {"tries it again": "retry", "takes it back": "cancel"},
    "t": {"(published) looks": "their janitor"},
    "r": {"(published) tries it again": "their retry"},
    "m": {"(published) moves it": "their reprioritize"},
}


def list_actors(budget: Budget) -> tuple[Actor, ...]:
    workers = [Actor(f"w{no}", budget.claims) for no in range(budget.workers)]
    janitors = [Actor(f"j{no}", budget.passes) for no in range(budget.janitors)]
    theirs = [Actor(f"t{no}", 1) for no in range(budget.their_janitors)]
    people = {"p0": budget.people, "r0": budget.their_retries, "m0": budget.their_moves}
    return (*workers, *janitors, *theirs, *(Actor(name, left) for name, left in people.items() if left))


def build_operation(name: str, op: str, args: tuple[Any, ...], budget: Budget) -> Operation[Any]:
    numbers = count()
    mark = f"{name}.{op}.{args[-1] if isinstance(args[-1], int) else 0}"
    actor = JobActor(
        worker=name, limit=budget.limit, nonce=lambda: f"{mark}.{next(numbers)}", now=lambda: 0.0
    )
    operations: dict[str, Callable[[], Operation[Any]]] = {
        "claim": lambda: janitor.claim_or_settle(JobCandidate(id=JOB, tier=args[0], blank=args[1]), actor),
        "beat": lambda: lifecycle.beat(args[0], actor, {}),
        "finish": lambda: lifecycle.finish(args[0]),
        "fail": lambda: lifecycle.fail(args[0], actor, "it broke"),
        "release": lambda: lifecycle.release(args[0], actor, "graceful_shutdown"),
        "retry": lambda: operator.retry(JOB, actor, tier=None, reset=False),
        "cancel": lambda: operator.cancel(JOB, actor, tier=None),
        "settle": lambda: janitor.settle(JOB, actor),
        "inspect": lambda: operator.inspect_job(JOB),
        "their janitor": lambda: published.janitor(budget.limit),
        "their retry": lambda: published.retry(args[0], reset=budget.reset),
        "their reprioritize": published.reprioritize,
    }
    return operations[op]()


def skip_unused(operation: Operation[Any], request: Any, unused: Collection[str]) -> Any:
    """Reading a marker in a tier that no actor uses finds nothing at any moment: no order matters."""
    while isinstance(request, ReadObject) and request.key in unused:
        request = operation.send(None)
    return request
