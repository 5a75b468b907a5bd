"""One seed: the world without faults, then with them, then all promises.

    run(123)            raises Violation, which names the seed and shows the last steps

Everything that chance decides comes from the seed, so a failing one fails again.
"""

from contextlib import AbstractContextManager
from random import Random

from msgspec import Struct

from quire.engine import scheduler, units
from quire.model.batch import Stage
from tests.simulation.engine import checks
from tests.simulation.engine.scene import Simulation
from tests.simulation.engine.worlds import World, made_world
from tests.simulation.shared.chaos import Rates, rates
from tests.simulation.shared.portions import engine_sizes, set_sizes
from tests.simulation.shared.scene import Violation


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
    chance = Random(f"{seed}/chaos")
    oracle = undisturbed(world)
    drawn = rates(chance)
    chosen = chosen or drawn
    simulation = Simulation(world, chance, chosen, houses=chance.choice((1, 2, 2, 3)))
    try:
        with small_portions(chance):
            simulation.noise(chance.choice((150, 400, 1000, 2000)))
            simulation.calm()
            reopens = chance.random() < 0.8
            simulation.settle_acts(reopens=reopens)
            simulation.rest()
            if reopens:
                # A move that was given up meanwhile is taken up too.
                for _ in range(3):
                    simulation.settle_acts(reopens=True)
                    simulation.rest()
        simulation.check()
        compared = _compare(simulation, oracle)
        kernel = simulation.kernel
        return Ran(
            seed=seed,
            steps=kernel.steps,
            executions=len(simulation.steps.ran),
            seconds=kernel.time,
            compared=compared,
        )
    except Violation as violation:
        lines = "\n".join(simulation.kernel.trace)
        raise Violation(f"seed {seed}: {violation}\n{chosen}\nthe last steps:\n{lines}") from violation
    finally:
        simulation.close()


def undisturbed(world: World) -> dict[str, checks.Picture]:
    """How each batch ends when nothing goes wrong."""
    simulation = Simulation(world, Random(0), Rates())
    try:
        simulation.chaos.active = False
        simulation.rest()
        simulation.check()
        return {batch.id: checks.picture(simulation.database, batch) for batch in simulation.batches()}
    finally:
        simulation.close()


def _compare(simulation: Simulation, oracle: dict[str, checks.Picture]) -> int:
    """A batch that came to its end looks as if nothing had happened."""
    compared = 0
    for batch in simulation.batches():
        if batch.position.stage is not Stage.DONE:
            if not (simulation.chaos.rates.acts or simulation.chaos.blob_faults):
                raise Violation(f"batch {batch.no} is {batch.status}: {batch.error}")
            continue
        compared += 1
        seen, expected = checks.picture(simulation.database, batch), oracle[batch.id]
        names = ["status", "inputs", "listing", "counts"]
        if not simulation.chaos.rates.acts:
            names.append("numbered")
        for name in names:
            one, other = getattr(seen, name), getattr(expected, name)
            if one != other:
                wrong = [row for row in one if row not in other] if isinstance(one, list) else one
                missing = [row for row in other if row not in one] if isinstance(other, list) else other
                raise Violation(f"batch {batch.no}: {name} has {wrong}, and lacks {missing}")
    return compared


def small_portions(chance: Random) -> AbstractContextManager[None]:
    return set_sizes(
        [
            (scheduler, "ROWS_AT_ONCE", chance.choice((2, 4, 7))),
            (scheduler, "PRODUCTS_AT_ONCE", chance.choice((2, 5))),
            (units, "UNITS_AT_ONCE", chance.choice((1, 3))),
            *engine_sizes(chance),
        ]
    )


__all__ = ["Ran", "Violation", "run", "small_portions", "undisturbed"]
