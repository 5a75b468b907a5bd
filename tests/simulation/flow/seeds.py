"""One seed: a world with everything that goes wrong, then all promises, then the model.

    run(123)            raises Violation, which names the seed and shows the last steps

Everything that chance decides comes from the seed, so a failing one fails again.
"""

from contextlib import AbstractContextManager
from random import Random

from msgspec import Struct, structs

from quire.engine import deadlines, flow_moves
from tests.simulation.flow.scene import FlowSimulation
from tests.simulation.flow.worlds import made_world
from tests.simulation.shared.chaos import Rates, rates
from tests.simulation.shared.portions import engine_sizes, set_sizes
from tests.simulation.shared.scene import Violation

CALM = Rates()


class Ran(Struct, frozen=True, kw_only=True):
    """What a run came to, for those who count."""

    seed: int
    steps: int
    executions: int
    seconds: float
    compared: int


def run(seed: int, chosen: Rates | None = None) -> Ran:
    """Raises Violation when a promise is broken. With `chosen`, what goes wrong is not left to the seed."""
    world = made_world(seed)
    chance = Random(f"{seed}/flow chaos")
    meets = Random(f"{seed}/meets").choice((0.0, 0.0, 0.0, 0.8))
    drawn = structs.replace(rates(chance), meets=meets)
    chosen = chosen or drawn
    simulation = FlowSimulation(world, chance, chosen, houses=chance.choice((1, 2, 2, 3)))
    try:
        with small_portions(chance):
            heals = chance.random() < 0.5
            if heals and chance.random() < 0.5:
                simulation.kernel.after(chance.uniform(1, 30), simulation.heal)
            simulation.noise(chance.choice((150, 400, 1000, 2000)))
            _come_to_rest(simulation)
            if heals:
                simulation.heal()
                simulation.retry_failed()
                if chance.random() < 0.5:
                    simulation.disturb_again(chance.choice((100, 400)))
                _come_to_rest(simulation)
                simulation.retry_failed()  # what an operator has ended meanwhile has not been tried again
                _come_to_rest(simulation)
        simulation.check()
        return Ran(
            seed=seed,
            steps=simulation.kernel.steps,
            executions=len(simulation.steps.ran),
            seconds=simulation.kernel.time,
            compared=simulation.compare(),
        )
    except Violation as violation:
        lines = "\n".join(simulation.kernel.trace)
        raise Violation(f"seed {seed}: {violation}\n{chosen}\nthe last steps:\n{lines}") from violation
    finally:
        simulation.close()


def _come_to_rest(simulation: FlowSimulation) -> None:
    simulation.calm()
    for _ in range(3):
        # A move that was given up meanwhile is taken up too.
        simulation.settle_acts(reopens=True)
        simulation.rest()


def small_portions(chance: Random) -> AbstractContextManager[None]:
    return set_sizes(
        [
            (flow_moves, "ROWS_AT_ONCE", chance.choice((2, 4, 7))),
            (flow_moves, "JOINS_AT_ONCE", chance.choice((1, 3))),
            (flow_moves, "UNITS_AT_ONCE", chance.choice((1, 3))),
            (deadlines, "OVERDUE_AT_ONCE", chance.choice((1, 5))),
            *engine_sizes(chance),
        ]
    )


__all__ = ["CALM", "Ran", "Violation", "run", "small_portions"]
